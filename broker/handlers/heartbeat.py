"""Heartbeat: v0-v4 (key 12)

Behaviour: extends the member's session, and reports a rebalance by REBALANCE_IN_PROGRESS. While the groups are read
back after a start, the answer is always NONE.

Versions: v3 brings static members (KIP-345).
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    instance_id = getattr(request, "group_instance_id", None)
    return {
        "error_code": node.groups.heartbeat(request.group_id, request.member_id, instance_id, request.generation_id)
    }
