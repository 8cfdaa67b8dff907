"""The target of a consumer group: when it is computed anew, and by which assignor.

(Apache Kafka 4.4's TargetAssignmentBuilder)
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final
from uuid import UUID

from highwater.broker.group.assignors.assignor import AssignedMember, GroupToAssign
from highwater.broker.group.consumer.events import ConsumerSettings, KnownTopic, Topics
from highwater.broker.group.consumer.group import NO_PARTITIONS, ConsumerGroup
from highwater.broker.group.consumer.schemas import GroupRecord, Key, MemberTarget, RecordKind, TargetEpoch

_YIELD_EACH: Final = 256


def is_due(group: ConsumerGroup, settings: ConsumerSettings, wall_ms: int) -> bool:
    """Whether to compute a target now: for a new epoch, and not sooner after the last one than the interval allows."""
    if group.epoch <= group.target_epoch:
        return False
    elapsed_ms = wall_ms - group.target_timestamp_ms
    # A clock that was set back must not hold up the group.
    return not group.target_epoch or not 0 <= elapsed_ms < settings.assignment_interval_ms


def assignor_of(group: ConsumerGroup, settings: ConsumerSettings) -> str:
    """The assignor that most members ask for, or the first one."""
    return max(settings.assignors, key=lambda name: group.assignor_counts.get(name, 0))


def subscribed_ids(names: Iterable[str], topics: Topics) -> frozenset[UUID]:
    """The ids of those topics that exist."""
    return frozenset([topic.topic_id for name in names if (topic := topics(name)) is not None])


def compute(
    group: ConsumerGroup, topics: Topics, settings: ConsumerSettings, wall_ms: int
) -> Generator[None, None, list[GroupRecord]]:
    """The records of the target for the group's epoch: of the members whose partitions change, and the epoch."""
    known: dict[str, KnownTopic | None] = {}
    # Each topic is looked up once, as it may go meanwhile.
    for number, name in enumerate(group.topics):
        known[name] = topics(name)
        if number % _YIELD_EACH == _YIELD_EACH - 1:
            yield
    ids: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}
    members: dict[str, AssignedMember] = {}
    for number, (member_id, member) in enumerate(group.members.items()):
        subscription = (member.topics, member.regex)
        if subscription not in ids:
            ids[subscription] = subscribed_ids(group.topics_of(member), known.__getitem__)
        assigned = group.targets.get(member_id, NO_PARTITIONS)
        members[member_id] = AssignedMember(member.instance_id, ids[subscription], assigned)
        if number % _YIELD_EACH == _YIELD_EACH - 1:
            yield
    partition_counts = {topic.topic_id: topic.partition_count for topic in known.values() if topic is not None}
    assign = settings.assignors[assignor_of(group, settings)]
    target = yield from assign(GroupToAssign(members, partition_counts, len(set(ids.values())) == 1))
    changed = [member_id for member_id in members if group.targets.get(member_id) != target[member_id]]
    return [
        *(
            GroupRecord(Key(RecordKind.MEMBER_TARGET, group.group_id, member_id), MemberTarget(target[member_id]))
            for member_id in changed
        ),
        GroupRecord(Key(RecordKind.TARGET, group.group_id), TargetEpoch(group.epoch, wall_ms)),
    ]
