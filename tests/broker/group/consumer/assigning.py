"""Assignors for tests of consumer groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from random import Random
from uuid import UUID

from highwater.broker.group.assignors.assignor import Assignment, Assignor, GroupToAssign, Target


def evenly(group: GroupToAssign) -> Generator[None, None, Target]:
    """Share topic by topic, and keep of the last target what fits."""
    yield
    loads: Counter[str] = Counter(dict.fromkeys(group.members, 0))
    target: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in group.members}
    for topic in sorted(group.partition_counts):
        readers = [member_id for member_id, member in group.members.items() if topic in member.topics]
        for index in range(group.partition_counts[topic]) if readers else ():
            least = min(loads[reader] for reader in readers)
            before = [reader for reader in readers if index in group.members[reader].assigned.get(topic, ())]
            reader = before[0] if before and loads[before[0]] == least else min(readers, key=lambda of: (loads[of], of))
            loads[reader] += 1
            target[reader].setdefault(topic, set()).add(index)
    return _frozen(target)


def anyhow(random: Random) -> Assignor:
    """An assignor without a thought: any partition to anybody who reads it, or to nobody."""

    def assign(group: GroupToAssign) -> Generator[None, None, Target]:
        yield
        target: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in group.members}
        for topic in sorted(group.partition_counts):
            readers = sorted(member_id for member_id, member in group.members.items() if topic in member.topics)
            for index in range(group.partition_counts[topic]):
                reader = random.choice([*readers, None])
                if reader is not None:
                    target[reader].setdefault(topic, set()).add(index)
        return _frozen(target)

    return assign


def always(target: Mapping[str, Assignment]) -> Assignor:
    """An assignor that knows the answer; who is not in it gets nothing."""

    def assign(group: GroupToAssign) -> Generator[None, None, Target]:
        yield
        return {member_id: target.get(member_id, {}) for member_id in group.members}

    return assign


def _frozen(target: dict[str, dict[UUID, set[int]]]) -> Target:
    return {id_: {topic: frozenset(indexes) for topic, indexes in of.items()} for id_, of in target.items()}
