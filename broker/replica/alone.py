"""The role of a partition whose broker runs alone: its leader for good, and its only in-sync replica."""

from __future__ import annotations

from typing import Protocol

from kio.schema.errors import ErrorCode


class LonePartition(Protocol):
    """The part of `broker.replica.partition.Partition` that this role needs."""

    safe_end_offset: int

    def advance_high_watermark(self, offset: int) -> None: ...


class Alone:
    is_leader = True

    __slots__ = ("_partition",)

    def __init__(self, partition: LonePartition) -> None:
        self._partition: LonePartition | None = partition

    def safe_end_moved(self) -> None:
        """No other replica has to have what is safe here."""
        partition = self._partition
        if partition is not None:
            partition.advance_high_watermark(partition.safe_end_offset)

    def end(self, error: ErrorCode) -> None:
        """Nobody waits for this role."""

    def let_go(self) -> None:
        """The partition is gone from this broker: two objects that name each other would stay in memory for long."""
        self._partition = None
