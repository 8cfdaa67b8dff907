"""How many replicas of a partition must be in sync."""

from __future__ import annotations

from collections.abc import Mapping

from highwater.monitor.model import ConfigValue, Partition, Snapshot, Topic

_SETTING = "min.insync.replicas"


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


def effective(limit: int | None, partition: Partition) -> int | None:
    """Return `limit`, or the number of replicas if that is less: so brokers take it (Partition.effectiveMinIsr)."""
    return None if limit is None else min(limit, len(partition.replicas))


def _integer(config: Mapping[str, ConfigValue]) -> int | None:
    setting = config.get(_SETTING)
    return (
        int(setting.value) if setting is not None and setting.value is not None and setting.value.isdecimal() else None
    )
