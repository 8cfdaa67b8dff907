"""Record batches inside the frames of Kafka's protocol, found by their checksums and changed in place.

A batch (magic 2): base offset (8 bytes), length of what follows (4), leader epoch (4), magic (1), CRC-32C (4) of all
that follows it: attributes (2), last offset delta (4), two timestamps (16), producer id (8), epoch (2), sequence (4),
number of records (4), records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_CHECKED_AT: Final = 21
_PRODUCER_AT: Final = 43
_HEADER_BYTES: Final = 61


@dataclass(frozen=True, slots=True)
class Batch:
    """Where a batch lies in a frame."""

    start: int
    end: int


def batches(frame: bytes | bytearray) -> Iterator[Batch]:
    """Every whole batch of a frame: a magic of 2 with a length that fits and a CRC that is right is no coincidence."""
    at = frame.find(2, _MAGIC_AT)
    while at != -1:
        start = at - _MAGIC_AT
        (length,) = struct.unpack_from(">i", frame, start + 8)
        end = start + 12 + length
        if end - start >= _HEADER_BYTES and end <= len(frame):
            (crc,) = struct.unpack_from(">I", frame, start + _CRC_AT)
            if crc32c(memoryview(frame)[start + _CHECKED_AT : end]) == crc:
                yield Batch(start, end)
                at = end + _MAGIC_AT - 1
        at = frame.find(2, at + 1)


def flip_last_value(frame: bytearray, batch: Batch) -> None:
    """One bit, near the end of the last record's value; the CRC is that of before."""
    # The record ends with its number of headers, one byte; the value stands before it.
    frame[batch.end - 2] ^= 0x10


def mend_crc(frame: bytearray, batch: Batch) -> None:
    """As a broker would have it that changed the records itself."""
    struct.pack_into(
        ">I", frame, batch.start + _CRC_AT, crc32c(memoryview(frame)[batch.start + _CHECKED_AT : batch.end])
    )


def forget_producer(frame: bytearray, batch: Batch) -> None:
    """Take away the producer id, epoch and sequence, by which a broker knows a batch that it has already."""
    struct.pack_into(">qhi", frame, batch.start + _PRODUCER_AT, -1, -1, -1)
    mend_crc(frame, batch)


def move_offset(frame: bytearray, batch: Batch, by: int) -> None:
    """The base offset is no part of what the CRC covers."""
    (offset,) = struct.unpack_from(">q", frame, batch.start)
    struct.pack_into(">q", frame, batch.start, max(0, offset + by))
