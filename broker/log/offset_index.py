"""The `.index` of a segment: a sparse map from offset to position in the log file.

Each entry is 8 bytes, big-endian: i32 offset relative to the segment's base, i32 position. The offset is the last one
of the batch that begins at the position. The entries are searched in memory, and the segment writes them to the file.
Both columns rise strictly; the format of the file allows no other check.
"""

from __future__ import annotations

import operator
import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import Final

from highwater.broker.log.errors import CorruptIndex

ENTRY_SIZE: Final = 8
MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class OffsetIndex:
    __slots__ = ("_base_offset", "_offsets", "_positions", "written_entries")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")
        self.written_entries = 0
        """The number of entries that are in the file."""

    @classmethod
    def decode(cls, data: bytes, base_offset: int, log_size_bytes: int) -> OffsetIndex:
        index = cls(base_offset)
        if len(data) % ENTRY_SIZE:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        columns = array("i", data)
        if sys.byteorder == "little":
            columns.byteswap()
        index._offsets, index._positions = columns[0::2], columns[1::2]
        index.written_entries = len(index._offsets)
        for column in (index._offsets, index._positions):
            if column and (column[0] < 0 or not all(map(operator.lt, column, islice(column, 1, None)))):
                raise CorruptIndex("the entries do not rise")
        if index._positions and index._positions[-1] >= log_size_bytes:
            raise CorruptIndex(f"an entry points to {index._positions[-1]}, past the {log_size_bytes} bytes of the log")
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return [(self._base_offset + offset, at) for offset, at in zip(self._offsets, self._positions, strict=True)]

    def is_full(self, max_bytes: int) -> bool:
        return self.entries_left(max_bytes) <= 0

    def entries_left(self, max_bytes: int) -> int:
        return max_bytes // ENTRY_SIZE - len(self._offsets)

    def append(self, offset: int, position: int) -> None:
        self._offsets.append(offset - self._base_offset)
        self._positions.append(position)

    def truncate(self, position: int) -> None:
        """Forget the batches from `position` on."""
        slot = bisect_left(self._positions, position)
        del self._offsets[slot:], self._positions[slot:]

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry with an offset at or below `offset`; if there is none, the beginning of the segment."""
        return self._entry(bisect_right(self._offsets, min(offset - self._base_offset, MAX_RELATIVE_OFFSET)) - 1)

    def lookup_between(self, offset: int) -> tuple[int, int, int]:
        """The same, and the position of the entry after it; 0 if there is none."""
        slot = bisect_right(self._offsets, min(offset - self._base_offset, MAX_RELATIVE_OFFSET))
        return *self._entry(slot - 1), self._positions[slot] if slot < len(self._positions) else 0

    def lookup_position(self, position: int) -> tuple[int, int]:
        """The last entry with a position at or below `position`; if there is none, the beginning of the segment."""
        return self._entry(bisect_right(self._positions, position) - 1)

    def first_offset_from(self, position: int) -> int | None:
        """The offset of the first entry with a position at or above `position`; None if there is none."""
        slot = bisect_left(self._positions, position)
        return self._entry(slot)[0] if slot < len(self._positions) else None

    def span(self, offset: int, max_bytes: int) -> tuple[int, int | None]:
        """(start, end) of all that a reader may look at who searches the batch with `offset` and reads on from there.

        `max_bytes` are what follows the batch's start. The end is None if that may be the end of the segment. The batch
        begins at the entry before `offset` or later, at the next entry at the latest, and ends before the one after it.
        """
        positions = self._positions
        slot = bisect_right(self._offsets, min(offset - self._base_offset, MAX_RELATIVE_OFFSET))
        end = max(positions[slot] + max_bytes, positions[slot + 1]) if slot + 1 < len(positions) else None
        return positions[slot - 1] if slot else 0, end

    @property
    def last_entry(self) -> tuple[int, int]:
        return self._entry(len(self._offsets) - 1)

    def unwritten(self) -> bytes:
        """The bytes of the entries that are not in the file yet."""
        offsets, positions = self._offsets[self.written_entries :], self._positions[self.written_entries :]
        columns = array("i", bytes(ENTRY_SIZE * len(offsets)))
        columns[0::2], columns[1::2] = offsets, positions
        if sys.byteorder == "little":
            columns.byteswap()
        return columns.tobytes()

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return self._base_offset, 0
        return self._base_offset + self._offsets[slot], self._positions[slot]
