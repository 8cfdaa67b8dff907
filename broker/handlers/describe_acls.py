"""DescribeAcls: v0-v3 (key 29)

Behaviour: there is no authoriser, and so there are no ACLs: SECURITY_DISABLED, as Kafka answers without one.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.reply import Reply, RequestContext
from highwater.broker.node import Node

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker."


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return {"error_code": ErrorCode.security_disabled, "error_message": NO_AUTHORIZER, "resources": ()}
