"""The settings of one log, under Kafka's names with their units written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.records.batch import TimestampType

NEVER: Final = 2**63 - 1

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Defaults are Kafka 3.9's."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    max_message_bytes: int = 1_048_588
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    preallocate: bool = False
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER

    @property
    def deletes(self) -> bool:
        """Whether records go by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether records go when a later one has their key."""
        return "compact" in self.cleanup_policy
