"""Which segments of a log are past their time: by age, by size of the partition, by log start offset.

Only whole segments go, from the oldest on, and only what every reader could have had: nothing at or past the high
watermark. A segment is as old as its largest timestamp, so records with times in the future keep it, and all after it,
as long as they say. The active segment goes too when all of it is past its time; an empty one stays.
(Apache Kafka, UnifiedLog.deleteOldSegments.)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Protocol

from broker.log.config import LogConfig

_LOG: Final = logging.getLogger(__name__)


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


class ClockGuard:
    """Keeps a wall clock that jumps ahead from taking everything for old.

    The first reading after a jump is not believed; one that stands at the next reading is. So a clock that was set
    wrong for a moment deletes nothing, and one that was set right at last counts from the next check on.
    """

    def __init__(self, tolerance_ms: int = 60_000) -> None:
        self._tolerance_ms = tolerance_ms
        self._last: tuple[int, int] | None = None

    def check(self, now_ms: int, monotonic_ns: int) -> int | None:
        """`now_ms`, or None if it is not to be believed yet."""
        last, self._last = self._last, (now_ms, monotonic_ns)
        if last is None:
            return now_ms
        jump_ms = (now_ms - last[0]) - (monotonic_ns - last[1]) // 1_000_000
        if jump_ms <= self._tolerance_ms:
            return now_ms
        _LOG.warning(
            "the clock jumped %d s ahead: records are not deleted by age before the next check", jump_ms // 1000
        )
        return None
