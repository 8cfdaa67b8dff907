"""What a leader knows of its followers, and the in-sync replicas (ISR). Time is an argument.

    in_sync     the ISR that the controller last confirmed
    proposed    the ISR with one follower more, or with fewer followers; one proposal at a time, as the next one needs
                the partition epoch in the answer
    maximal     in_sync and proposed together: the controller may have put an expansion in force already

The high watermark may pass the records that all of the maximal set have, as the next leader is one of that set. A
follower stays in the ISR while it reached the leader's log end within `replica.lag.time.max.ms`. It joins the ISR when
it has all records below the high watermark, and below the offset where the leader's epoch began.
(KIP-497; Apache Kafka, Partition.scala, Replica.scala.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

UNKNOWN_OFFSET: Final = -1
_NEVER_MS: Final = -(1 << 62)


class FollowerProgress:
    """One follower, as its fetches show it."""

    __slots__ = (
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_at_last_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, leader_end_offset: int, now_ms: int, *, is_in_sync: bool) -> None:
        """A follower in the ISR has `replica.lag.time.max.ms` from now on for its first fetch."""
        self.broker_id = broker_id
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = self.last_caught_up_ms = now_ms if is_in_sync else _NEVER_MS
        self.leader_end_at_last_fetch = leader_end_offset

    def fetched(self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """The follower fetches from `offset`, so it has all records below; the leader's ends at `leader_end_offset`.

        If it has all that the leader had at its last fetch, it was caught up then, however fast the leader grows.
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
    """All followers of one partition, while this broker leads it in one epoch.

    What an earlier epoch knew of them does not count: another broker may have led in between, unknown to this one, and
    the followers may have truncated their logs. (Kafka's leader keeps what it knew, if it knows of no other leader.)
    """

    __slots__ = ("_by_id", "in_sync", "maximal", "proposed")

    def __init__(self, followers: Iterable[int], in_sync: Collection[int], leader_end_offset: int, now_ms: int) -> None:
        self._by_id = {
            id_: FollowerProgress(id_, leader_end_offset, now_ms, is_in_sync=id_ in in_sync) for id_ in followers
        }
        self.in_sync = tuple(in_sync)
        """The ISR, with the leader."""
        self.maximal = frozenset(in_sync)
        self.proposed: tuple[int, ...] | None = None

    def __iter__(self) -> Iterator[FollowerProgress]:
        return iter(self._by_id.values())

    def get(self, broker_id: int) -> FollowerProgress | None:
        return self._by_id.get(broker_id)

    def commit(self, in_sync: Collection[int]) -> None:
        """The controller confirmed an ISR; no proposal is under way."""
        self.in_sync = tuple(in_sync)
        self.maximal = frozenset(in_sync)
        self.proposed = None

    def propose(self, in_sync: tuple[int, ...]) -> None:
        self.proposed = in_sync
        self.maximal = frozenset((*self.in_sync, *in_sync))

    def withdraw(self) -> None:
        """The controller did not make the change, and will not make it."""
        self.commit(self.in_sync)

    def replicated_offset(
        self,
        safe_end_offset: int,
        leader_end_offset: int,
        now_ms: int,
        lag_max_ms: int,
        may_be_in_sync: Callable[[int], bool],
    ) -> int:
        """The offset below which all replicas that count have all records; of the leader only what is safe counts.

        These are the maximal set and the followers that are about to join the ISR, so that they are not left behind.
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
        """The followers in the ISR that have not reached the leader's log end for too long."""
        return [
            follower.broker_id
            for follower in self
            if follower.broker_id in self.maximal and not follower.is_caught_up(leader_end_offset, now_ms, lag_max_ms)
        ]
