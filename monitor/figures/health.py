"""What is wrong with a partition's replicas, and counts of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from highwater.monitor.figures.rows import Health
from highwater.monitor.model import ConfigValue, Partition, Snapshot, Topic

_SETTING = "min.insync.replicas"


@dataclass(slots=True)
class HealthCount:
    """Counts while partitions are gone through."""

    offline: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    under_replicated: int = 0
    not_preferred: int = 0
    unknown_min_isr: int = 0
    unknown_offsets: int = 0
    hanging_transactions: int = 0

    def add(self, other: HealthCount | Health) -> None:
        self.offline += other.offline
        self.under_min_isr += other.under_min_isr
        self.at_min_isr += other.at_min_isr
        self.under_replicated += other.under_replicated
        self.not_preferred += other.not_preferred
        self.unknown_min_isr += other.unknown_min_isr
        self.unknown_offsets += other.unknown_offsets
        self.hanging_transactions += other.hanging_transactions

    def frozen(self) -> Health:
        return Health(
            self.offline,
            self.under_min_isr,
            self.at_min_isr,
            self.under_replicated,
            self.not_preferred,
            self.unknown_min_isr,
            self.unknown_offsets,
            self.hanging_transactions,
        )


def default_min_isr(snapshot: Snapshot) -> int | None:
    """What topics without a configuration of their own have, if all brokers that say it agree; otherwise None."""
    said = {
        value
        for broker in snapshot.brokers.values()
        if broker.config is not None and (value := _integer(broker.config)) is not None
    }
    return said.pop() if len(said) == 1 else None


def min_isr(topic: Topic, default: int | None) -> int | None:
    """Return the topic's `min.insync.replicas`; `default` where its configuration is not known."""
    own = None if topic.config is None else _integer(topic.config)
    return default if own is None else own


def in_sync_after(partition: Partition, lost: int) -> list[int]:
    """Return the replicas that stay in sync without broker `lost`, in the order in which they are elected."""
    in_sync = partition.in_sync_replicas
    return [broker for broker in partition.replicas if broker != lost and broker in in_sync]


def _integer(config: Mapping[str, ConfigValue]) -> int | None:
    setting = config.get(_SETTING)
    return (
        int(setting.value) if setting is not None and setting.value is not None and setting.value.isdecimal() else None
    )
