"""How a group changes its protocol while it has members (`group.consumer.migration.policy`).

    a consumer (KIP-848) joins a classic group      it becomes a consumer group; its members are asked to join again
    the last one of the consumer protocol is gone   the group becomes a classic one, whose members join again

Who has a partition has it after the change too. What members said that they had when they joined last counts as theirs,
even where the leader has taken it from them: they may not know yet. For the same reason a group that becomes classic
keeps what its members have, not their targets, which others may still have. (In Apache Kafka 4.4 they are the targets.)

A group does not change if its assignor gives members more than partitions, as that would be lost. In Kafka that holds
for librdkafka's `cooperative-sticky` too, so that such a group cannot become a consumer group while it has members.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final
from uuid import UUID

from highwater.broker.group.assignors.assignor import Assignment
from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.consumer.classic_members import (
    NameOfTopic,
    by_id,
    common_protocols,
    embedded_assignment,
)
from highwater.broker.group.consumer.draft import metadata_hash
from highwater.broker.group.consumer.events import Topics
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.parts import MOST_BYTES_OF_CHANGE, encoded, size_of
from highwater.broker.group.consumer.schemas import (
    ClassicMember,
    ClassicProtocol,
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    Key,
    MemberTarget,
    RecordKind,
    TargetEpoch,
)
from highwater.broker.group.embedded import EmbeddedSubscription, read_assignment, read_subscription
from highwater.broker.group.events import JoinRequest, Now, Protocol
from highwater.broker.group.members import CONSUMER, GroupMember
from highwater.broker.group.rebalance import GroupSettings, GroupState

_ECHOING: Final = ("sticky", "cooperative-sticky")
"""librdkafka's assignors that return to a member what it said of itself: the partitions that it had, and since when."""


class MigrationPolicy(Enum):
    """The values are those of the broker's property."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def may_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


# To a consumer group


def upgraded(classic: ClassicGroup, topics: Topics, max_size: int) -> list[GroupRecord] | str:
    """Return the records of the consumer group that a classic group becomes, or why it cannot become one."""
    if classic.protocol_type != CONSUMER:
        return "its members are not consumers"
    if len(classic.members) > max_size:
        return f"it has {len(classic.members)} members, and a consumer group may have {max_size}"
    epoch = max(classic.generation_id, 1)
    members: dict[str, ConsumerMember] = {}
    assigned: dict[str, Assignment] = {}
    owned: dict[str, Assignment] = {}
    for member in classic.members:
        subscription = read_subscription(member.protocols[0].metadata)
        assignment = read_assignment(member.assignment)
        if subscription is None or assignment is None:
            return f"what {member.member_id} sent cannot be read"
        if assignment.has_user_data and classic.protocol_name not in _ECHOING:
            return f"the assignor of {member.member_id} has more to say than partitions"
        members[member.member_id] = _consumer_member(member, subscription)
        assigned[member.member_id] = by_id(assignment.partitions, topics)
        owned[member.member_id] = by_id(subscription.owned, topics)
    names = frozenset[str]().union(*(member.topics for member in members.values()))
    # No hash calls for a target: members may read other topics since the generation of a rebalance that is not over.
    group_epoch = GroupEpoch(epoch, metadata_hash(names, topics) if classic.state is GroupState.STABLE else 0)
    records = _records(classic.group_id, group_epoch, members, _with_owned(assigned, owned))
    if (size := size_of(map(encoded, records))) > MOST_BYTES_OF_CHANGE:
        most = MOST_BYTES_OF_CHANGE
        return f"its {len(members)} members take {size} bytes in the log, and may take {most}; stop some or all of them"
    return records


def _consumer_member(member: GroupMember, subscription: EmbeddedSubscription) -> ConsumerMember:
    protocols = tuple([ClassicProtocol(name, metadata) for name, metadata in member.protocols])
    return ConsumerMember(
        member.group_instance_id or None,
        subscription.rack_id or None,
        member.client_id,
        member.client_host,
        subscription.topics,
        "",
        member.rebalance_timeout_ms,
        None,
        ClassicMember(member.session_timeout_ms, protocols),
    )


def _with_owned(assigned: dict[str, Assignment], owned: dict[str, Assignment]) -> dict[str, Assignment]:
    """What members were given, each partition once, and what they had before that nobody was given."""
    taken: set[tuple[UUID, int]] = set()
    found: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in assigned}
    for of_members in (assigned, owned):
        for member_id, partitions in of_members.items():
            for topic, indexes in partitions.items():
                free = frozenset([index for index in indexes if (topic, index) not in taken])
                taken.update((topic, index) for index in free)
                if free:
                    found[member_id][topic] = found[member_id].get(topic, frozenset()) | free
    return dict(found)


def _records(
    group_id: str, group_epoch: GroupEpoch, members: dict[str, ConsumerMember], assigned: dict[str, Assignment]
) -> list[GroupRecord]:
    epoch = group_epoch.epoch

    def current(partitions: Assignment) -> CurrentAssignment:
        held = {topic: dict.fromkeys(indexes, epoch) for topic, indexes in partitions.items()}
        return CurrentAssignment(epoch, epoch, assigned=held)

    def key(kind: RecordKind, name: str = "") -> Key:
        return Key(kind, group_id, name)

    return [
        *(GroupRecord(key(RecordKind.MEMBER, member_id), member) for member_id, member in members.items()),
        GroupRecord(key(RecordKind.GROUP), group_epoch),
        *(GroupRecord(key(RecordKind.MEMBER_TARGET, id_), MemberTarget(each)) for id_, each in assigned.items()),
        GroupRecord(key(RecordKind.TARGET), TargetEpoch(epoch)),
        *(GroupRecord(key(RecordKind.CURRENT, id_), current(each)) for id_, each in assigned.items()),
    ]


# To a classic group


def downgraded(
    group: ConsumerGroup, gone: Collection[str], settings: GroupSettings, name_of: NameOfTopic, now: Now
) -> ClassicGroup | None:
    """Return the classic group of the members that are left, or None if they must remain a consumer group.

    Its generation is the group's epoch, so that members that have it may still commit.
    """
    left = {id_: member for id_, member in group.members.items() if id_ not in gone}
    classic = {id_: member.classic for id_, member in left.items() if member.classic is not None}
    if len(classic) < len(left) or len(left) > settings.max_size:
        return None
    if left and not common_protocols([each.protocols for each in classic.values()]):
        return None
    if any(name_of(topic) is None for member_id in left for topic in group.current[member_id].assigned):
        return None  # it is deleted, and the member does not know yet; or this broker does not know of it yet
    members: list[GroupMember] = []
    for member_id, member in left.items():
        each = _group_member(member_id, member, classic[member_id])
        assigned = group.current[member_id].assigned
        each.assignment = embedded_assignment(assigned, each.protocols[0].metadata, name_of)
        members.append(each)
    return ClassicGroup.of_members(group.group_id, settings, group.epoch, members, now)


def _group_member(member_id: str, member: ConsumerMember, classic: ClassicMember) -> GroupMember:
    protocols = tuple([Protocol(name, metadata) for name, metadata in classic.protocols])
    request = JoinRequest(
        member_id,
        CONSUMER,
        protocols,
        classic.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.instance_id,
        member.client_id,
        member.client_host,
    )
    return GroupMember(member_id, request)
