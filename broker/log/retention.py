"""Which segments of a log are past their time: by age, by size of the partition, by log start offset.

Only whole segments go, from the oldest on, and only what every reader could have had: nothing at or past the high
watermark. A segment is as old as its largest timestamp, so records with times in the future keep it, and all after it,
as long as they say. The active segment goes too when all of it is past its time; an empty one stays.
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
    """How many segments, counted from the oldest, are to go. With `now_ms` None nothing goes by age."""
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
