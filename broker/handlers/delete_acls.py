"""DeleteAcls: v0-v3 (key 31)

Behaviour: SECURITY_DISABLED for each filter, as there is no authoriser and no ACL.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.describe_acls import NO_AUTHORIZER
from highwater.broker.handlers.reply import Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    refused = {"error_code": ErrorCode.security_disabled, "error_message": NO_AUTHORIZER, "matching_acls": ()}
    return {"filter_results": [refused] * len(request.filters)}
