"""The settings of one log, with Kafka's names and their units in the names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from highwater.kafka.records.batch import Codec, TimestampType
from highwater.kafka.records.produced import RecordRules

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
    message_timestamp_before_max_ms: int = NEVER
    message_timestamp_after_max_ms: int = NEVER
    compression: Codec | None = None
    """None keeps the codec of the producer."""
    compression_level: int | None = None
    record_rules: RecordRules | None = field(init=False)
    """Rules for single records; None if no rule needs the broker to open a produced batch."""

    def __post_init__(self) -> None:
        is_create_time = self.message_timestamp_type is TimestampType.CREATE_TIME
        rules = RecordRules(
            self.compacts,
            self.message_timestamp_before_max_ms if is_create_time else NEVER,
            self.message_timestamp_after_max_ms if is_create_time else NEVER,
            self.compression,
            self.compression_level,
        )
        object.__setattr__(self, "record_rules", None if rules == RecordRules() else rules)

    @property
    def deletes(self) -> bool:
        """Whether retention deletes records by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether compaction deletes a record when a later record has its key."""
        return "compact" in self.cleanup_policy
