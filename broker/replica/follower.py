"""The role of a replica that another broker leads, or nobody: it fetches what it lacks.

If the topic asks for it (flush.messages), a follower fetches again only after the flush (fsync) of what it has: the
offset in its fetch promises the leader that all records below are safe here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kio.schema.errors import ErrorCode

from highwater.broker.log.partition_log import PartitionLog


class FollowingPartition(Protocol):
    """The part of `broker.replica.partition.Partition` that this role needs."""

    log: PartitionLog
    safe_end_offset: int


class Follower:
    is_leader = False

    __slots__ = ("_partition", "_when_flushed")

    def __init__(self, partition: FollowingPartition) -> None:
        self._partition: FollowingPartition | None = partition
        self._when_flushed: list[Callable[[], None]] = []

    def call_when_flushed(self, then: Callable[[], None]) -> bool:
        """Whether all of the log is safe, so that the next fetch may leave. If not, call back when it is."""
        if self._is_flushed:
            return True
        self._when_flushed.append(then)
        return False

    @property
    def _is_flushed(self) -> bool:
        partition = self._partition
        return partition is None or partition.safe_end_offset >= partition.log.log_end_offset

    def safe_end_moved(self) -> None:
        if self._is_flushed:
            self._call_back()

    def end(self, error: ErrorCode) -> None:
        """The role is over: call back whoever waits; they check it themselves."""
        self._call_back()

    def let_go(self) -> None:
        """The partition is gone from this broker: two objects that name each other would stay in memory for long."""
        self._partition = None

    def _call_back(self) -> None:
        when_flushed, self._when_flushed = self._when_flushed, []
        for then in when_flushed:
            then()
