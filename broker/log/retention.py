"""Which segments retention deletes: by age, by the size of the partition, by log start offset.

Retention deletes whole segments, the oldest first, and none with records at or past the high watermark. The age of a
segment is that of its largest timestamp, so a record with a time in the future keeps its segment, and all after it,
until that time. The active segment is deleted too when all of it is due; an empty one stays.
(Apache Kafka, UnifiedLog.deleteOldSegments.)
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

    @property
    def youngest_ms(self) -> int: ...


def count_expired(
    segments: Sequence[Ageing],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int | None,
) -> int:
    """How many segments to delete, counted from the oldest. With `now_ms` None age does not count."""
    retention_ms = config.retention_ms if config.deletes and now_ms is not None else -1
    excess_bytes = -1
    if config.deletes and config.retention_bytes >= 0:
        excess_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    for slot, segment in enumerate(segments):
        is_active = slot == len(segments) - 1
        end_offset = log_end_offset if is_active else segments[slot + 1].base_offset
        if end_offset > high_watermark or (is_active and segment.size_bytes == 0):
            return slot
        excess_bytes -= segment.size_bytes
        if not (
            (not is_active and end_offset <= log_start_offset)
            or excess_bytes >= 0
            or (retention_ms >= 0 and now_ms is not None and now_ms - segment.youngest_ms > retention_ms)
        ):
            return slot
    return len(segments)
