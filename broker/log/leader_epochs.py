"""The start offset of each leader epoch: shows where two logs diverge (KIP-101, KIP-279).

Entries are sorted by both epoch and start offset. Only the latest epoch grows, so it ends where the log ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class LeaderEpochs:
    __slots__ = ("_epochs", "_start_offsets", "is_dirty")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.is_dirty = False
        """Whether an entry changed since a flush last took the entries."""

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that the records from `start_offset` on are of `epoch`.

        This removes entries with a later offset or a higher epoch, which a diverged log left behind.
        """
        if self._epochs and self._epochs[-1] == epoch and self._start_offsets[-1] <= start_offset:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._start_offsets[-1] >= start_offset):
            self._epochs.pop()
            self._start_offsets.pop()
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.is_dirty = True

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; NO_EPOCH if it is before the first entry."""
        slot = bisect_right(self._start_offsets, offset) - 1
        return self._epochs[slot] if slot >= 0 else NO_EPOCH

    def end_offset_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch not above `epoch`, and the offset where it ends.

        (NO_EPOCH, NO_OFFSET) if nothing is known. The records of an epoch below the first entry are gone: the answer is
        the first start offset, and a follower continues there (LeaderEpochFileCache.endOffsetFor).
        """
        if epoch == NO_EPOCH or epoch > self.latest or not self._epochs:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self._epochs, epoch)
        return self._epochs[slot - 1] if slot > 0 else epoch, self._start_offsets[slot]

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that began at or after the new end of the log."""
        while self._start_offsets and self._start_offsets[-1] >= end_offset:
            self._epochs.pop()
            self._start_offsets.pop()
            self.is_dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that ended before the new start of the log; the first epoch that is left begins there."""
        keep = bisect_right(self._start_offsets, start_offset) - 1
        if keep < 0 or (keep == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:keep]
        del self._start_offsets[:keep]
        self._start_offsets[0] = start_offset
        self.is_dirty = True
