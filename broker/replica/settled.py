"""A partition of a fetch session with nothing to say to its follower, until something changes.

A session names all partitions that a follower has of a leader, hundreds of them, and a fetch is mostly about one. The
others are told apart by a few comparisons: the follower had the whole log, and knew the high watermark and the start
of the log; if all three are as they were, an answer would leave the partition out (KIP-227).
"""

from __future__ import annotations

from typing import Protocol

from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.replica.followers import FollowerProgress
from highwater.broker.replica.leader import Leader


class SettledPartition(Protocol):
    """The part of `broker.replica.partition.Partition` that this needs."""

    log: PartitionLog
    high_watermark: int

    @property
    def role(self) -> object: ...


class Settled:
    """What a partition was when its follower had all of it. A role has one leader epoch: the epoch is the same too."""

    __slots__ = ("_end_offset", "_leader", "_partition", "_progress")

    def __init__(self, partition: SettledPartition, leader: Leader, progress: FollowerProgress) -> None:
        self._partition = partition
        self._leader = leader
        self._progress = progress
        self._end_offset = partition.log.log_end_offset

    def fetched_again(self, high_watermark: int, log_start_offset: int, now_ms: int) -> bool:
        """The follower fetches from the same offset as before; whether there is nothing to tell it.

        high_watermark, log_start_offset: the last that it was told. If there is something, the fetch is not noted: the
        partition must be looked at.
        """
        partition, leader = self._partition, self._leader
        log = partition.log
        if (
            partition.role is not leader
            or log.log_end_offset != self._end_offset
            or partition.high_watermark != high_watermark
            or log.log_start_offset != log_start_offset
            or leader.awaits_fetch_of(self._progress)
        ):
            return False
        self._progress.fetched_end_again(now_ms)
        return True
