"""Walks over the batches in a part of a segment: checks each, and finds what the indexes note.

`native_walk.c` is the same function as machine code, which needs no lock of the interpreter.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple, TypeAlias

from highwater.kafka.records.batch import (
    CONTROL_BIT,
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MINIMUM_LENGTH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from highwater.kafka.records.checksum import crc32c

WHOLE: Final = 0
"""There is no further whole batch, or none at all."""
OBSERVE: Final = 1
"""The last batch has a later leader epoch than those before it, or is of a transaction."""
BAD_CRC: Final = 2
OUT_OF_ORDER: Final = 3
TOO_FAR: Final = 4
"""The offset is too large for an index of the segment, or for a next one."""

_FIELDS: Final = struct.Struct(">qiibIhi8xqq6xi")
"""What the walk reads of each header: base offset, length, leader epoch, magic, CRC, attributes, last offset delta, max
timestamp, producer id, record count."""
_OF_TRANSACTIONS: Final = TRANSACTIONAL_BIT | CONTROL_BIT


class Walked(NamedTuple):
    end: int
    """Where the walk ended in the window; `why` is one of the reasons above."""
    why: int
    next_offset: int
    offset_before: int
    """The next offset before the last batch; `begun` is where that batch begins in the window."""
    begun: int
    bytes_since_entry: int
    largest_ms: int
    """The largest timestamp so far; `largest_offset` is the last offset of its batch."""
    largest_offset: int
    entries: bytes
    """What the indexes note, each as four native int64: last offset, position, largest timestamp so far, its offset."""
    producers: bytes
    """The other batches of producers, each as two native int64: producer id, where the batch begins in the window."""


Walk: TypeAlias = Callable[[memoryview, int, int, int, int, int, int, int, int, int], Walked]


def fastest_walk() -> Walk:
    """Return `walk` as machine code, if there is any for this processor."""
    try:
        native = import_module("highwater.broker.log.native_walk").walk
    except ImportError:
        return walk
    return lambda *arguments: Walked._make(native(*arguments))


def is_walk_native() -> bool:
    return fastest_walk() is not walk


def walk(
    window: memoryview,
    at: int,
    start: int,
    next_offset: int,
    unfit_offset: int,
    latest_epoch: int,
    interval_bytes: int,
    bytes_since_entry: int,
    largest_ms: int,
    largest_offset: int,
) -> Walked:
    """Walk from `at` on over the whole batches of a window; `start` is its position in the segment.

    `unfit_offset`, an int64, is the first that is too far. The walk ends behind a batch that somebody has to observe,
    and before one that is damaged.
    """
    entries, producers = array("q"), array("q")
    begun, before, why = at, next_offset, WHOLE
    window_size = len(window)
    while window_size - at >= HEADER_SIZE:
        base_offset, length, epoch, magic, crc, attributes, delta, max_ms, producer_id, record_count = (
            _FIELDS.unpack_from(window, at)
        )
        end = at + length + LENGTH_OVERHEAD
        if end > window_size or length < MINIMUM_LENGTH or magic != MAGIC:
            break
        if crc32c(window[at + CRC_COVERS_FROM : end]) != crc:
            why = BAD_CRC
            break
        last_offset = base_offset + delta
        if base_offset < next_offset or delta < 0:
            why = OUT_OF_ORDER
            break
        if last_offset >= unfit_offset:
            why = TOO_FAR
            break
        if not record_count:
            max_ms = NO_TIMESTAMP
        if max_ms > largest_ms:
            largest_ms, largest_offset = max_ms, last_offset
        if bytes_since_entry > interval_bytes:
            entries.extend((last_offset, start + at, largest_ms, largest_offset))
            bytes_since_entry = 0
        bytes_since_entry += end - at
        begun, before = at, next_offset
        at, next_offset = end, last_offset + 1
        if epoch > latest_epoch or (producer_id != NO_PRODUCER_ID and attributes & _OF_TRANSACTIONS):
            why = OBSERVE
            break
        if producer_id != NO_PRODUCER_ID:
            producers.extend((producer_id, begun))
    return Walked(
        *(at, why, next_offset, before, begun),
        *(bytes_since_entry, largest_ms, largest_offset, entries.tobytes(), producers.tobytes()),
    )
