"""The assignor `uniform` for different subscriptions: shares as equal as single moves make them."""

from __future__ import annotations

from collections.abc import Generator
from heapq import heapify, heappop, heapreplace
from itertools import cycle, islice
from typing import Final
from uuid import UUID

from highwater.broker.group.assignors.assignor import GroupToAssign, Target
from highwater.broker.group.assignors.keeping import Kept, keep, same_if_equal

_MOST_PASSES: Final = 16
"""Where subscriptions overlap, each pass about halves what is uneven (UniformHeterogeneousAssignmentBuilder)."""


def assign_heterogeneous(group: GroupToAssign) -> Generator[None, None, Target]:
    """Equal shares come before few moves: the free partitions are handed out, then topics are made even in turn."""
    kept, free = yield from keep(group)
    shares = _Shares()
    for member_id, assigned in kept.items():
        shares.add(member_id, group.members[member_id].topics, assigned)
        yield

    def most_per_subscriber_first(topic: UUID) -> tuple[float, int, UUID]:
        count = len(shares.subscribers[topic])
        return -group.partition_counts[topic] / count, count, topic

    order = sorted(free, key=most_per_subscriber_first)
    for topic in order:
        shares.give(topic, sorted(free[topic]))
        yield
    even = 0
    for topic in islice(cycle(order), _MOST_PASSES * len(order)):
        even = 0 if shares.make_even(topic) else even + 1
        if even == len(order):
            break
        yield
    new: dict[str, Kept] = {member_id: {} for member_id in kept}
    for topic in order:
        for member_id, partitions in shares.owned[topic].items():
            if partitions:
                new[member_id][topic] = frozenset(partitions)
        yield
    target: Target = {}
    for member_id, member in group.members.items():
        target[member_id] = same_if_equal(new[member_id], member.assigned)
        yield
    return target


class _Shares:
    """Who owns what while the assignor works."""

    def __init__(self) -> None:
        self.subscribers: dict[UUID, list[str]] = {}
        """The members that may own a topic's partitions, by topic id."""
        self.owned: dict[UUID, dict[str, list[int]]] = {}
        """The partitions of each subscriber, by topic id: those that it got last are at the end, and go first."""
        self._sizes: dict[str, int] = {}
        """How many partitions each member has, of all topics."""

    def add(self, member_id: str, topics: frozenset[UUID], kept: Kept) -> None:
        for topic in topics:
            self.subscribers.setdefault(topic, []).append(member_id)
            self.owned.setdefault(topic, {})[member_id] = sorted(kept.get(topic, ()))
        self._sizes[member_id] = sum(map(len, kept.values()))

    def give(self, topic: UUID, partitions: list[int]) -> None:
        """Hand partitions out, each to the subscriber with the fewest."""
        lightest = self._lightest(topic)
        for partition in partitions:
            size, rank, receiver = lightest[0]
            self.owned[topic][receiver].append(partition)
            self._sizes[receiver] += 1
            heapreplace(lightest, (size + 1, rank, receiver))

    def make_even(self, topic: UUID) -> bool:
        """Move partitions from the heaviest owners to the lightest subscribers; return whether one was moved."""
        lightest = self._lightest(topic)
        if lightest[-1][0] - lightest[0][0] < 2:
            return False
        owned = self.owned[topic]
        heaviest = [(-size, -rank, giver) for size, rank, giver in lightest if owned[giver]]
        heapify(heaviest)
        has_moved = False
        # What a member got or gave is not put right in the other heap: it lies within one of the level there,
        # where nothing is moved any more.
        while heaviest and -heaviest[0][0] - lightest[0][0] >= 2:
            size, rank, receiver = lightest[0]
            less, giver_rank, giver = heaviest[0]
            owned[receiver].append(owned[giver].pop())
            self._sizes[receiver] += 1
            self._sizes[giver] -= 1
            heapreplace(lightest, (size + 1, rank, receiver))
            if owned[giver]:
                heapreplace(heaviest, (less + 1, giver_rank, giver))
            else:
                heappop(heaviest)
            has_moved = True
        return has_moved

    def _lightest(self, topic: UUID) -> list[tuple[int, int, str]]:
        """Size, rank and member id of the subscribers, in order and so also a heap."""
        in_order = sorted(self.subscribers[topic], key=self._sizes.__getitem__)
        return [(self._sizes[member_id], rank, member_id) for rank, member_id in enumerate(in_order)]
