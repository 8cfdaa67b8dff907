"""Which segments retention deletes: by age, by the size of the partition, by log start offset.

Retention deletes whole segments, the oldest first, and none with records at or past the high watermark. The age of a
segment is that of its largest timestamp, so a record with a time in the future keeps its segment, and all after it,
until that time. The active segment is deleted too when all of it is due; an empty one stays.
(Apache Kafka, UnifiedLog.deleteOldSegments.)

The largest timestamp by the headers is the word of clients. It decides where it agrees with the time of the last write
to the segment, as nearly always; where it does not, a look at the records decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from highwater.broker.log.config import LogConfig


class Ageing(Protocol):
    @property
    def base_offset(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    def is_older_than(self, time_ms: int, now_ms: int) -> bool | None:
        """Whether all records are from before `time_ms`; None if only a look at them can decide that."""
        ...


def count_expired(
    segments: Sequence[Ageing],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int | None,
) -> tuple[int, bool]:
    """(how many segments to delete, counted from the oldest; whether the next one is to be looked at).

    With `now_ms` None age does not count.
    """
    retention_ms = config.retention_ms if config.deletes and now_ms is not None else -1
    excess_bytes = -1
    if config.deletes and config.retention_bytes >= 0:
        excess_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    for slot, segment in enumerate(segments):
        is_active = slot == len(segments) - 1
        end_offset = log_end_offset if is_active else segments[slot + 1].base_offset
        if end_offset > high_watermark or (is_active and segment.size_bytes == 0):
            return slot, False
        excess_bytes -= segment.size_bytes
        if (not is_active and end_offset <= log_start_offset) or excess_bytes >= 0:
            continue
        if retention_ms < 0 or now_ms is None:
            return slot, False
        is_old = segment.is_older_than(now_ms - retention_ms, now_ms)
        if not is_old:
            return slot, is_old is None
    return len(segments), False
