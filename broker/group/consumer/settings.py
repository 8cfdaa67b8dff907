"""The settings of consumer groups, as far as they are the broker's (`group.consumer.*`)."""

from __future__ import annotations

from highwater.broker.group.assignors.known import ASSIGNORS
from highwater.broker.group.consumer.events import ConsumerSettings
from highwater.broker.settings.config import BrokerConfig


def consumer_settings(config: BrokerConfig) -> ConsumerSettings:
    """A value outside of its bounds counts as the nearest one inside, as in groups of Kafka 4.4."""
    assignors = config.value("group.consumer.assignors")
    return ConsumerSettings(
        _bounded(config, "session.timeout.ms"),
        _bounded(config, "heartbeat.interval.ms"),
        _bounded(config, "assignment.interval.ms"),
        config.integer("group.consumer.max.size"),
        {name: ASSIGNORS[name] for name in assignors} if isinstance(assignors, list) else {},
    )


def _bounded(config: BrokerConfig, name: str) -> int:
    low, high = (config.integer(f"group.consumer.{bound}.{name}") for bound in ("min", "max"))
    return max(low, min(config.integer(f"group.consumer.{name}"), high))
