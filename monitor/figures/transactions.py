"""Hanging transactions: a last stable offset that stands still while the end offset is beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.common.topic_partition import TopicPartition
from highwater.monitor.figures.memory import Undecided
from highwater.monitor.model import Snapshot

# A coordinator aborts a transaction after transaction.max.timeout.ms at the latest, which is 15 minutes by default;
# five minutes more are what Kafka itself gives it before it counts a transaction as late.
DEFAULT_MAX_TIMEOUT_MS: Final = 15 * 60 * 1000
GRACE_MS: Final = 5 * 60 * 1000
_SETTING: Final = "transaction.max.timeout.ms"


def hanging_after_ms(snapshot: Snapshot) -> int:
    """From the brokers' `transaction.max.timeout.ms`: the largest, or its default where no broker says it."""
    said = [
        int(setting.value)
        for broker in snapshot.brokers.values()
        if broker.config is not None
        if (setting := broker.config.get(_SETTING)) is not None and (setting.value or "").isdecimal()
        if setting.value is not None
    ]
    return max(said, default=DEFAULT_MAX_TIMEOUT_MS) + GRACE_MS


def hanging(undecided: Mapping[TopicPartition, Undecided], snapshot: Snapshot) -> dict[TopicPartition, int]:
    """Return for each partition with a hanging transaction how many milliseconds it was seen to hang."""
    limit_ms = hanging_after_ms(snapshot)
    return {
        key: snapshot.at_ms - state.since_ms
        for key, state in undecided.items()
        if snapshot.at_ms - state.since_ms >= limit_ms
    }
