"""The settings of consumer groups: a group's own (resource type 32), else those of the broker.

A value outside of the broker's bounds counts as the nearest one inside, as in groups of Kafka 4.4: the bounds may have
been moved after it was set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.broker.group.assignors.known import ASSIGNORS
from highwater.broker.group.consumer.events import ConsumerSettings
from highwater.broker.settings.config import BrokerConfig, parse_value
from highwater.broker.settings.property_row import INT, Property, honoured
from highwater.common.nearest import did_you_mean

_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
_ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
GROUP_PROPERTIES: Final[Mapping[str, Property]] = {
    row.name: row
    for row in (
        honoured(_SESSION_TIMEOUT, INT, 45_000, 1),
        honoured(_HEARTBEAT_INTERVAL, INT, 5_000, 1),
        honoured(_ASSIGNMENT_INTERVAL, INT, 1_000, 0),
    )
}
"""What a group can have of its own."""


def name_of_broker(name: str) -> str:
    """The broker's property that holds for groups without one of their own."""
    return f"group.{name}"


def consumer_settings(config: BrokerConfig, own: Mapping[str, str] | None = None) -> ConsumerSettings:
    """`own`: the settings of the group itself."""
    own = own or {}
    assignors = config.value("group.consumer.assignors")
    return ConsumerSettings(
        _value(config, own, _SESSION_TIMEOUT),
        _value(config, own, _HEARTBEAT_INTERVAL),
        _value(config, own, _ASSIGNMENT_INTERVAL),
        config.integer("group.consumer.max.size"),
        {name: ASSIGNORS[name] for name in assignors} if isinstance(assignors, list) else {},
    )


def problem_with(config: BrokerConfig, own: Mapping[str, str]) -> str | None:
    """Return why a group cannot have these settings, or None. (Apache Kafka 4.4's GroupConfig)"""
    for name, text in own.items():
        row = GROUP_PROPERTIES.get(name)
        if row is None:
            return f"Unknown group config name: {name}{did_you_mean(name, GROUP_PROPERTIES)}"
        try:
            value = parse_value(row, text)
        except ValueError as error:
            return f"Invalid value {text} for configuration {name}: {error}"
        low, high = _bounds(config, name)
        if not isinstance(value, int) or not low <= value <= high:
            bounds = f"{_name_of_bound(name, 'min')} and {_name_of_bound(name, 'max')}"
            return f"{name} must be between {low} and {high}, the broker's {bounds}, not {text}"
    if _value(config, own, _HEARTBEAT_INTERVAL) >= _value(config, own, _SESSION_TIMEOUT):
        return f"{_SESSION_TIMEOUT} must be greater than {_HEARTBEAT_INTERVAL}"
    return None


def _value(config: BrokerConfig, own: Mapping[str, str], name: str) -> int:
    low, high = _bounds(config, name)
    try:
        value = parse_value(GROUP_PROPERTIES[name], own[name]) if name in own else None
    except ValueError:
        value = None  # a newer broker may have written it
    return max(low, min(value if isinstance(value, int) else config.integer(name_of_broker(name)), high))


def _bounds(config: BrokerConfig, name: str) -> tuple[int, int]:
    """The least and the greatest value that the broker allows to groups."""
    return config.integer(_name_of_bound(name, "min")), config.integer(_name_of_bound(name, "max"))


def _name_of_bound(name: str, which: str) -> str:
    return f"group.consumer.{which}.{name.removeprefix('consumer.')}"
