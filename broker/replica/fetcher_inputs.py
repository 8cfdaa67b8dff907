"""What fetchers are given: the partitions to follow, the throttle, and the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import UUID

from highwater.broker.clock import Clock, Scheduler
from highwater.broker.cluster.peers import Endpoint, Peers
from highwater.kafka.protocol.frame import Part


class FollowerReplica(Protocol):
    """What a fetcher needs of a partition that this broker follows (`broker.replica.partition`)."""

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
        """Append records from the leader, maybe none, and take over its high watermark, limited to the log's end, and
        its log start offset.

        Raises CorruptBatch for records that cannot be appended (the fetcher asks again later), and OSError.
        """

    def call_when_flushed(self, then: Callable[[], None]) -> bool:
        """Whether the next fetch may report the log's end to the leader. If not, call back after the flush."""

    def truncate_to(self, offset: int) -> None: ...

    def truncate_fully(self, offset: int) -> None:
        """Truncate: remove all records; the log begins at `offset`."""


class FetchThrottle(Protocol):
    """Limits what followers fetch while replicas are moved (broker.quota)."""

    @property
    def is_active(self) -> bool: ...

    def is_throttled(self, topic: str, index: int) -> bool: ...

    def is_exceeded(self, now_ms: int) -> bool: ...

    def record(self, size_bytes: int, now_ms: int) -> None: ...


class Leaders(Protocol):
    """What learns of leaders that close connections (`broker.cluster.closed_leaders`)."""

    def closed(self, broker_id: int) -> None: ...

    def settled(self, broker_id: int) -> None: ...


class FetchSettings(NamedTuple):
    """What all fetchers of a broker share."""

    broker_id: int
    broker_epoch: Callable[[], int]
    clock: Clock
    scheduler: Scheduler
    peers: Peers
    endpoint_of: Callable[[int], Endpoint | None]
    throttle: FetchThrottle | None
    leaders: Leaders
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    backoff_ms: int
    timeout_ms: int
