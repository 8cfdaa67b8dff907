"""Looks at the timestamps of a segment's records, where its headers do not say how old it is.

A `Look` is plain values, so that it can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from highwater.broker.log.files import FileOperations
from highwater.broker.log.open_segments import OpenSegments
from highwater.broker.log.segment_file import SegmentFile
from highwater.kafka.records.batch import NO_TIMESTAMP
from highwater.kafka.records.record import uncompressed_records
from highwater.kafka.records.record_times import largest_timestamp_ms


class Look(NamedTuple):
    path: str
    position: int
    """The first batch to look at; those before it were looked at before."""
    end_position: int
    largest_ms: int = NO_TIMESTAMP
    """The largest timestamp of the records before `position`."""


def look(files: FileOperations, wanted: Look, moved: Callable[[int], None]) -> int:
    """Return the largest timestamp of the records, or NO_TIMESTAMP.

    `moved` gets the number of bytes that were read, now and then. Raises CorruptBatch if a record cannot be read, and
    OSError.
    """
    segment = SegmentFile(files, Path(wanted.path), OpenSegments(1), wanted.end_position)
    largest_ms = wanted.largest_ms
    try:
        for _, header, batch in segment.batches(wanted.position):
            largest_ms = max(largest_ms, largest_timestamp_ms(uncompressed_records(batch, header), header))
            moved(header.size_bytes)
    finally:
        segment.release()
    return largest_ms
