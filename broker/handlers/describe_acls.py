"""DescribeAcls: v0-v3 (key 29)

Behaviour: SECURITY_DISABLED, as Kafka answers without an authoriser; there are no ACLs.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.reply import Reply, RequestContext
from highwater.broker.node import Node

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker."


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return {"error_code": ErrorCode.security_disabled, "error_message": NO_AUTHORIZER, "resources": ()}
