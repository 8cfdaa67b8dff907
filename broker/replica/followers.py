"""What a leader knows of its followers, and who of them is in sync. Pure bookkeeping: time is an argument.

    in_sync     the set that the controller last confirmed
    proposed    one follower more than that, or some fewer; one proposal at a time, as the next needs the partition
                epoch of its answer
    maximal     in_sync, and whom an expansion under way adds: the controller may have put that in force already

What all of the maximal set have is safe whoever of it is elected next, so the high watermark may pass it. A follower
stays in sync as long as it came to the leader's end within `replica.lag.time.max.ms`. One that is out of sync comes in
when it has all below the high watermark and has come to where the leader's epoch began.
(KIP-497; Apache Kafka, Partition.scala, Replica.scala.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

UNKNOWN_OFFSET: Final = -1
_NEVER_MS: Final = -(1 << 62)


class Follower:
    """One of them, as its fetches show it."""

    __slots__ = (
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_at_last_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, leader_end_offset: int, now_ms: int, *, is_in_sync: bool) -> None:
        """In sync, it has its whole time to show that it is."""
        self.broker_id = broker_id
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = self.last_caught_up_ms = now_ms if is_in_sync else _NEVER_MS
        self.leader_end_at_last_fetch = leader_end_offset

    def fetched(self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """It fetches from `offset`, so it has all below; the leader's log ended there when that was read.

        Who has all that was there at the fetch before was caught up when that came, however fast the leader grows.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.leader_end_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_last_fetch = leader_end_offset
        self.last_fetch_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms


class Followers:
    """All of one partition, while this broker leads it in one epoch.

    What was known of them in an earlier one does not count: another may have led in between, unknown to this broker,
    and had them cut off what they had. (Kafka's leader goes on with what it knew if it knows of no other.)
    """

    __slots__ = ("_by_id", "in_sync", "maximal", "proposed")

    def __init__(self, followers: Iterable[int], in_sync: Collection[int], leader_end_offset: int, now_ms: int) -> None:
        self._by_id = {id_: Follower(id_, leader_end_offset, now_ms, is_in_sync=id_ in in_sync) for id_ in followers}
        self.in_sync = tuple(in_sync)
        """The leader too."""
        self.maximal = frozenset(in_sync)
        self.proposed: tuple[int, ...] | None = None

    def __iter__(self) -> Iterator[Follower]:
        return iter(self._by_id.values())

    def get(self, broker_id: int) -> Follower | None:
        return self._by_id.get(broker_id)

    def commit(self, in_sync: Collection[int]) -> None:
        """These are in sync now, and nothing is under way."""
        self.in_sync = tuple(in_sync)
        self.maximal = frozenset(in_sync)
        self.proposed = None

    def propose(self, in_sync: tuple[int, ...]) -> None:
        self.proposed = in_sync
        self.maximal = frozenset((*self.in_sync, *in_sync))

    def withdraw(self) -> None:
        """The controller says that it did not do it, nor will any."""
        self.commit(self.in_sync)

    def replicated_offset(
        self,
        safe_end_offset: int,
        leader_end_offset: int,
        now_ms: int,
        lag_max_ms: int,
        may_be_in_sync: Callable[[int], bool],
    ) -> int:
        """What all that count have, the leader as far as its log is safe.

        Those count too that are about to come in sync, so that they are not left behind.
        """
        end = safe_end_offset
        maximal = self.maximal
        for follower in self._by_id.values():
            if follower.log_end_offset < end and (
                follower.broker_id in maximal
                or (follower.is_caught_up(leader_end_offset, now_ms, lag_max_ms) and may_be_in_sync(follower.broker_id))
            ):
                end = follower.log_end_offset
        return end

    def stragglers(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> list[int]:
        """Those in sync that have not come to the leader's end for too long."""
        return [
            follower.broker_id
            for follower in self
            if follower.broker_id in self.maximal and not follower.is_caught_up(leader_end_offset, now_ms, lag_max_ms)
        ]
