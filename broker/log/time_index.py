"""The `.timeindex` of a segment: the largest timestamp so far, at some offsets (KIP-33).

Each entry is 12 bytes, big-endian: i64 timestamp, i32 offset relative to the segment's base. No record up to and
including that offset is younger than the timestamp; the offset is the last one of the batch that has the timestamp.
Timestamps rise strictly, offsets do not fall. The last entry of a sealed segment is its largest timestamp.
"""

from __future__ import annotations

import operator
import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import Final

from highwater.broker.log.errors import CorruptIndex
from highwater.kafka.records.batch import NO_TIMESTAMP

ENTRY_SIZE: Final = 12

_ENTRY: Final = struct.Struct(">qi")


class TimeIndex:
    __slots__ = ("_base_offset", "_offsets", "_timestamps", "written_entries")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")
        self.written_entries = 0
        """The number of entries that are in the file."""

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> TimeIndex:
        index = cls(base_offset)
        if len(data) % ENTRY_SIZE:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        for timestamp_ms, offset in _ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp_ms)
            index._offsets.append(offset)
        index.written_entries = len(index._offsets)
        timestamps, offsets = index._timestamps, index._offsets
        if timestamps and (
            timestamps[0] < 0
            or offsets[0] < 0
            or not all(map(operator.lt, timestamps, islice(timestamps, 1, None)))
            or not all(map(operator.le, offsets, islice(offsets, 1, None)))
        ):
            raise CorruptIndex("the entries do not rise")
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return [(at, self._base_offset + offset) for at, offset in zip(self._timestamps, self._offsets, strict=True)]

    def is_full(self, max_bytes: int) -> bool:
        return self.entries_left(max_bytes) <= 0

    def entries_left(self, max_bytes: int) -> int:
        """How many entries the file has room for, beside the last one that `Segment.seal` adds."""
        return max_bytes // ENTRY_SIZE - 1 - len(self._offsets)

    def append_if_later(self, timestamp_ms: int, offset: int) -> None:
        if timestamp_ms > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            self._timestamps.append(timestamp_ms)
            self._offsets.append(offset - self._base_offset)

    def truncate(self, offset: int) -> None:
        """Forget the records from `offset` on."""
        slot = bisect_left(self._offsets, offset - self._base_offset)
        del self._offsets[slot:], self._timestamps[slot:]

    def lookup(self, timestamp_ms: int) -> tuple[int, int]:
        """The last entry with a timestamp at or below `timestamp_ms`; if there is none, (NO_TIMESTAMP, base offset)."""
        return self._entry(bisect_right(self._timestamps, timestamp_ms) - 1)

    @property
    def last_entry(self) -> tuple[int, int]:
        return self._entry(len(self._offsets) - 1)

    def unwritten(self) -> bytes:
        """The bytes of the entries that are not in the file yet."""
        start = self.written_entries
        return b"".join(map(_ENTRY.pack, self._timestamps[start:], self._offsets[start:]))

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return NO_TIMESTAMP, self._base_offset
        return self._timestamps[slot], self._base_offset + self._offsets[slot]
