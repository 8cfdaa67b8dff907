"""A follower's side of Fetch: what this broker follows is fetched from its leaders and appended.

After Kafka's AbstractFetcherThread:

    state of a partition   event                                      next
    FETCHING               an answer with records                     FETCHING, further on
    FETCHING               diverging epoch (KIP-595)                  truncated there, FETCHING
    FETCHING               OFFSET_OUT_OF_RANGE                        LOOKING_UP: the leader's log end or start
    LOOKING_UP             the answer                                 truncated or started anew, FETCHING
    any                    an error                                   DELAYED for replica.fetch.backoff.ms
    any                    FENCED_LEADER_EPOCH of the present epoch   FAILED: until LeaderAndIsr tells of a newer epoch
    any                    the log cannot be written                  FAILED

Each leader is asked by num.replica.fetchers fetchers, each with a connection, a fetch session (KIP-227) and one request
under way: the next one leaves as soon as the answer is in the logs, and tells the leader how far they reach now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol
from uuid import UUID

from broker.clock import Clock
from broker.cluster.peers import Endpoint, Peers
from broker.config import BrokerConfig
from broker.protocol.frame import Part
from broker.replica.waiters import Scheduler


class FollowerReplica(Protocol):
    """What a fetcher needs of a partition that this broker follows (broker.replica.partition.Partition)."""

    topic: str
    topic_id: UUID
    index: int
    leader_epoch: int
    high_watermark: int

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last record; -1 if there is none."""

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(the largest epoch of the log at or below `epoch`, its end offset); (-1, -1) if there is none."""

    def append_as_follower(self, records: Part, high_watermark: int, log_start_offset: int, now_ms: int) -> None:
        """Append what the leader has after our log's end, maybe nothing, and take over its high watermark as far as our
        log reaches and its log start offset.

        Raises CorruptBatch for records that cannot be taken (asked for again later), OSError.
        """

    def call_when_kept(self, then: Callable[[], None]) -> bool:
        """Whether the leader may be told of the log's end now. If not (it is to be flushed first), call back then."""

    def truncate_to(self, offset: int) -> None: ...

    def truncate_fully(self, offset: int) -> None:
        """Drop all records; the log begins at `offset`."""


class Fetchers:
    """All of one broker."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        peers: Peers,
        endpoint_of: Callable[[int], Endpoint | None],
    ) -> None:
        """`endpoint_of` tells where a broker is reached now, at the inter-broker listener; None if it is away."""

    def add(self, leader: int, replicas: Iterable[FollowerReplica]) -> None:
        """Follow a leader, from the ends of our logs on. Whoever was followed before is not any more.

        A replica of an older leader epoch than its own now must have been removed before.
        """
        raise NotImplementedError

    def remove(self, replicas: Iterable[FollowerReplica]) -> None:
        """Follow nobody. What is under way for them is dropped; nothing is appended once this returns."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
