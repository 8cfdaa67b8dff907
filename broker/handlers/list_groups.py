"""ListGroups: v0-v5 (key 16)

Behaviour: returns every group, also those with offsets but without members; while the groups are read back after a
start, COORDINATOR_LOAD_IN_PROGRESS with the groups known so far.

Versions: v4 filters by state (KIP-518), v5 by type (KIP-848), both case-insensitive.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    states = {state.lower() for state in getattr(request, "states_filter", ())}
    types = {kind.lower() for kind in getattr(request, "types_filter", ())}
    error, groups = node.groups.all_groups()
    return {
        "error_code": error,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type or "",
                "group_state": group.state_name,
                "group_type": group.kind,
            }
            for group in groups
            if (not states or group.state_name.lower() in states) and (not types or group.kind in types)
        ],
    }
