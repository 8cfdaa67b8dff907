"""CreateAcls: v0-v3 (key 30)

Behaviour: SECURITY_DISABLED for each ACL, as there is no authoriser.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.describe_acls import NO_AUTHORIZER
from highwater.broker.handlers.reply import Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    refused = {"error_code": ErrorCode.security_disabled, "error_message": NO_AUTHORIZER}
    return {"results": [refused] * len(request.creations)}
