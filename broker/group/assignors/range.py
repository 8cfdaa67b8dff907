"""The assignor `range`: of each topic, every subscriber has a run of partitions."""

from __future__ import annotations

from collections.abc import Generator
from uuid import UUID

from highwater.broker.group.assignors.assignor import GroupToAssign, Target
from highwater.broker.group.assignors.keeping import same_if_equal


def assign_ranges(group: GroupToAssign) -> Generator[None, None, Target]:
    """Topics with as many partitions and the same subscribers are divided alike (Kafka's RangeAssignor).

    Static members come first, by instance id: such an order outlives a restart with other member ids.
    """
    order = sorted(
        group.members, key=lambda id_: (group.members[id_].instance_id is None, group.members[id_].instance_id or id_)
    )
    subscribers: dict[UUID, list[str]] = {}
    for member_id in order:
        for topic in group.members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
        yield
    new: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic in sorted(subscribers):
        quota, extras = divmod(group.partition_counts[topic], len(subscribers[topic]))
        start = 0
        for nth, member_id in enumerate(subscribers[topic]):
            end = start + quota + (nth < extras)
            if end > start:
                new[member_id][topic] = frozenset(range(start, end))
            start = end
        yield
    target: Target = {}
    for member_id, member in group.members.items():
        target[member_id] = same_if_equal(new[member_id], member.assigned)
        yield
    return target
