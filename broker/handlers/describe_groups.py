"""DescribeGroups: v0-v6 (key 15)

Behaviour: each group by itself; an unknown group and a consumer group (KIP-848) are Dead. Assignor, subscriptions and
assignments are returned for a stable group only. Authorised operations, when requested, are all operations; an
authorizer's guard narrows them.

Versions: v3 brings authorised operations (KIP-430), v4 instance ids (KIP-345), v6 GROUP_ID_NOT_FOUND for an unknown
group, and a message for people (KIP-1043).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.consumer.membership import ConsumerMembership
from highwater.broker.group.rebalance import GroupState
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.acl import ResourceType, all_operations
from highwater.kafka.protocol.cold import Answer

_GROUP_OPERATIONS: Final = all_operations(ResourceType.GROUP)
_TELLS_UNKNOWN_FROM: Final = 6


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    is_asked = getattr(request, "include_authorized_operations", False)
    operations = {"authorized_operations": _GROUP_OPERATIONS} if is_asked else {}
    return {"groups": [_describe(node, context.version, group_id, operations) for group_id in request.groups]}


def _describe(node: Node, version: int, group_id: str, operations: Answer) -> Answer:
    found = node.groups.describe(group_id)
    if isinstance(found, ErrorCode):
        return {"group_id": group_id, "error_code": found}
    if found is None or isinstance(found, ConsumerMembership):
        dead: Answer = {"group_id": group_id, "error_code": ErrorCode.none, "group_state": GroupState.DEAD.value}
        if version < _TELLS_UNKNOWN_FROM:
            return dead | operations
        why = "not found" if found is None else "is not a classic group"
        return dead | {"error_code": ErrorCode.group_id_not_found, "error_message": f"Group {group_id} {why}."}
    is_stable = found.state is GroupState.STABLE
    return {
        "error_code": ErrorCode.none,
        "group_id": group_id,
        "group_state": found.state_name,
        "protocol_type": found.protocol_type or "",
        "protocol_data": (found.protocol_name or "") if is_stable else "",
        "members": _members(found, is_stable),
    } | operations


def _members(group: ClassicGroup, is_stable: bool) -> list[Answer]:
    return [
        {
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_metadata": member.metadata(group.protocol_name or "") if is_stable else b"",
            "member_assignment": member.assignment if is_stable else b"",
        }
        for member in group.members
    ]
