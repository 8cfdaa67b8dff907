"""ConsumerGroupDescribe: v0-v1 (key 69)

Behaviour: each consumer group (KIP-848) by itself, with the partitions that each member has, those that it must give up
among them, and those that it is to have. An unknown group and a classic one: GROUP_ID_NOT_FOUND, with the reason.
Authorised operations, when requested, are all operations; an authorizer's guard narrows them.

Versions: v1 brings the type of a member: whether it speaks the protocol of consumer groups or still the classic one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.group.consumer.membership import ConsumerMembership
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.acl import ResourceType, all_operations
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer

_GROUP_OPERATIONS: Final = all_operations(ResourceType.GROUP)
_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    operations = {"authorized_operations": _GROUP_OPERATIONS} if request.include_authorized_operations else {}
    return {"groups": [_describe(node, group_id, operations) for group_id in paced(request.group_ids)]}


def _describe(node: Node, group_id: str, operations: Answer) -> Answer:
    found = node.groups.describe(group_id)
    if isinstance(found, ErrorCode):
        return not_described(group_id, found)
    if not isinstance(found, ConsumerMembership):
        why = "not found" if found is None else "is not a consumer group"
        return not_described(group_id, ErrorCode.group_id_not_found, f"Group {group_id} {why}.")
    group = found.group
    # The group may change while the answer gives way.
    members = [
        (member_id, member, group.current[member_id], group.targets.get(member_id, {}))
        for member_id, member in group.members.items()
    ]
    return {
        "error_code": ErrorCode.none,
        "group_id": group_id,
        "group_state": found.state_name,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "assignor_name": found.assignor_name,
        "members": [
            {
                "member_id": member_id,
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "member_epoch": current.epoch,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "subscribed_topic_names": sorted(member.topics),
                "subscribed_topic_regex": member.regex or None,
                "assignment": _assignment(node, current.assigned, current.pending),
                "target_assignment": _assignment(node, target),
                "member_type": _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
            }
            for member_id, member, current, target in paced(members)
        ],
    } | operations


def _assignment(node: Node, *parts: Mapping[UUID, Collection[int]]) -> Answer:
    """The topics that exist: a name is needed for each."""
    indexes: dict[UUID, set[int]] = {}
    for part in parts:
        for topic_id, partitions in part.items():
            indexes.setdefault(topic_id, set()).update(partitions)
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": topic.name, "partitions": sorted(partitions)}
            for topic_id, partitions in indexes.items()
            if (topic := node.cluster.topic(topic_id)) is not None
        ]
    }


def not_described(group_id: str, error_code: ErrorCode, message: str | None = None) -> Answer:
    """The answer for one group that is not described."""
    return {
        "error_code": error_code,
        "error_message": message,
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
    }
