"""What members keep, and which partitions are free: where both assignors `uniform` begin."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple
from uuid import UUID

from highwater.broker.group.assignors.assignor import Assignment, GroupToAssign

Kept = dict[UUID, frozenset[int]]


class Keeping(NamedTuple):
    """A target in the making."""

    kept: dict[str, Kept]
    """The partitions that each member keeps, by member id in its order. It belongs to the caller."""
    free: dict[UUID, set[int]]
    """The partitions without an owner of every topic that somebody subscribes to, by topic id in its order."""


def keep(group: GroupToAssign) -> Generator[None, None, Keeping]:
    """Every member keeps what it has of the topics that it still subscribes to.

    Members are taken by their ids, so that their order in `group` decides nothing (KAFKA-18688).
    """
    subscribed = frozenset[UUID]().union(*(member.topics for member in group.members.values()))
    free = {topic: set(range(group.partition_counts[topic])) for topic in sorted(subscribed)}
    kept: dict[str, Kept] = {}
    for member_id, member in sorted(group.members.items()):
        kept[member_id] = {}
        for topic, partitions in member.assigned.items():
            if topic not in member.topics:
                continue
            # A partition that two members had by fault stays with the first.
            stays = partitions if partitions <= free[topic] else partitions & free[topic]
            if stays:
                kept[member_id][topic] = stays
                free[topic] -= stays
        yield
    return Keeping(kept, free)


def same_if_equal(new: Mapping[UUID, frozenset[int]], old: Assignment) -> Assignment:
    """The object of the last target where nothing changed, so that no record is written for the member."""
    return old if new == old else new
