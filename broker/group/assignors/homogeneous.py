"""The assignor `uniform` where all subscribe to the same topics: shares differ by at most one."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from uuid import UUID

from highwater.broker.group.assignors.assignor import GroupToAssign, Target
from highwater.broker.group.assignors.keeping import Kept, keep, same_if_equal


def assign_homogeneous(group: GroupToAssign) -> Generator[None, None, Target]:
    """Move as few partitions as equal shares allow (Kafka's UniformHomogeneousAssignmentBuilder)."""
    kept, free = yield from keep(group)
    quotas = _quotas(kept, sum(group.partition_counts[topic] for topic in free))
    for member_id, assigned in kept.items():
        if _size(assigned) > quotas[member_id]:
            given: dict[UUID, set[int]] = {}
            for topic, partition in _in_order(assigned)[quotas[member_id] :]:
                given.setdefault(topic, set()).add(partition)
            for topic, partitions in given.items():
                assigned[topic] -= partitions
                free[topic] |= partitions
        yield
    unowned = ((topic, partition) for topic, partitions in free.items() for partition in sorted(partitions))
    target: Target = {}
    for member_id, assigned in kept.items():
        added: dict[UUID, set[int]] = {}
        for topic, partition in islice(unowned, quotas[member_id] - _size(assigned)):
            added.setdefault(topic, set()).add(partition)
        for topic, partitions in added.items():
            assigned[topic] = assigned.get(topic, frozenset()) | partitions
        new = {topic: partitions for topic, partitions in assigned.items() if partitions}
        target[member_id] = same_if_equal(new, group.members[member_id].assigned)
        yield
    return target


def _quotas(kept: dict[str, Kept], partition_count: int) -> dict[str, int]:
    """How many partitions each member gets: one more goes first to those that have it now."""
    quota, extras = divmod(partition_count, len(kept) or 1)
    in_need_last = sorted(kept, key=lambda member_id: _size(kept[member_id]) <= quota)
    return {member_id: quota + (nth < extras) for nth, member_id in enumerate(in_need_last)}


def _size(assigned: Kept) -> int:
    return sum(map(len, assigned.values()))


def _in_order(assigned: Kept) -> list[tuple[UUID, int]]:
    return [(topic, partition) for topic in sorted(assigned) for partition in sorted(assigned[topic])]
