"""Groups for assignors, written short: topics are T1 to T9, and "T1:0,2 T2:1" is an assignment."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from highwater.broker.group.assignors.assignor import AssignedMember, Assignment, Assignor, GroupToAssign, Target
from highwater.broker.slices import run


def topic(name: str) -> UUID:
    return UUID(int=int(name[1:]))


def topics(text: str) -> frozenset[UUID]:
    return frozenset(map(topic, text.split()))


def assignment(text: str) -> dict[UUID, frozenset[int]]:
    pairs = (each.split(":") for each in text.split())
    return {topic(name): frozenset(map(int, partitions.split(","))) for name, partitions in pairs}


def shown(assigned: Assignment) -> str:
    return " ".join(
        f"T{topic_id.int}:{','.join(map(str, sorted(partitions)))}" for topic_id, partitions in sorted(assigned.items())
    )


def member(subscribed: str, assigned: str = "", instance_id: str | None = None) -> AssignedMember:
    return AssignedMember(instance_id, topics(subscribed), assignment(assigned))


def group(counts: Mapping[str, int], members: Mapping[str, AssignedMember]) -> GroupToAssign:
    is_homogeneous = len({each.topics for each in members.values()}) < 2
    return GroupToAssign(members, {topic(name): count for name, count in counts.items()}, is_homogeneous)


def assigned_by(assignor: Assignor, asked: GroupToAssign) -> dict[str, str]:
    return {member_id: shown(assigned) for member_id, assigned in run(assignor(asked)).items()}


def sizes(target: Target) -> dict[str, int]:
    return {member_id: sum(map(len, assigned.values())) for member_id, assigned in target.items()}


def check_validity(asked: GroupToAssign, target: Target) -> None:
    """Every partition that somebody subscribes to has one owner, who subscribes to it; nobody has anything else."""
    assert target.keys() == asked.members.keys()
    owned = [
        (topic_id, partition)
        for assigned in target.values()
        for topic_id, partitions in assigned.items()
        for partition in partitions
    ]
    subscribed = frozenset[UUID]().union(*(each.topics for each in asked.members.values()))
    assert sorted(owned) == [(each, nth) for each in sorted(subscribed) for nth in range(asked.partition_counts[each])]
    for member_id, assigned in target.items():
        assert assigned.keys() <= asked.members[member_id].topics
        assert all(assigned.values())
