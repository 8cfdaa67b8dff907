"""Configuration of broker and topics: reads `server.properties`, checks values, looks them up.

The names themselves stand in broker/settings/config_table.py.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from highwater.broker.settings.config_table import BROKER_PROPERTIES, property_named
from highwater.broker.settings.property_row import INT32_MAX, INT64_MAX, Kind, Property, Support, Value
from highwater.broker.settings.topic_properties import TOPIC_PROPERTIES, TopicProperty
from highwater.common.errors import UsageError
from highwater.common.java_properties import read_properties
from highwater.common.nearest import did_you_mean


class ConfigError(Exception):
    """A configuration that cannot be used; the text names the place, the property and the way out."""


class Setting(NamedTuple):
    """One `name=value` as somebody wrote it, and where."""

    place: str
    name: str
    text: str


_RANGES: Final = {Kind.SHORT: 2**15 - 1, Kind.INT: INT32_MAX, Kind.LONG: INT64_MAX}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def parse_value(row: Property, text: str) -> Value:
    """`text` as a value of the property. Raises ValueError saying what is expected."""
    text = text.strip()
    value: Value
    if row.kind in _RANGES:
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"{text!r} is not a whole number")
        value = int(text)
        limit = _RANGES[row.kind]
        if not -limit - 1 <= value <= limit:
            raise ValueError(f"{text} is out of the range of a {row.kind.name.lower()}")
    elif row.kind is Kind.DOUBLE:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number") from None
    elif row.kind is Kind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{text!r} is neither true nor false")
        value = text.lower() == "true"
    elif row.kind is Kind.LIST:
        value = [item.strip() for item in text.split(",")] if text else []
    else:
        value = text
    _check_range(row, value)
    return value


def _check_range(row: Property, value: Value) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if row.low is not None and value < row.low:
            raise ValueError(f"{value} is below the least allowed, {row.low:g}")
        if row.high is not None and value > row.high:
            raise ValueError(f"{value} is above the most allowed, {row.high:g}")
    if row.choices:
        for item in value if isinstance(value, list) else [value]:
            if item not in row.choices:
                raise ValueError(f"{item!r} is not one of {', '.join(row.choices)}")
    if row.item_pattern and isinstance(value, list):
        for item in value:
            if not row.item_pattern.fullmatch(item):
                raise ValueError(f"{item!r} is not of the form {row.item_pattern.pattern}")


def render(value: Value) -> str | None:
    """A value as Kafka writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)


class Source(IntEnum):
    """Where a value comes from, with the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class _TypedValues(ABC):
    """Reads a property as the type that its row gives it; TypeError where the code asks for another."""

    @abstractmethod
    def value(self, name: str) -> Value: ...

    def integer(self, name: str) -> int:
        value = self.value(name)
        if not isinstance(value, int):
            raise TypeError(f"{name} has no whole number: {value!r}")
        return value

    def boolean(self, name: str) -> bool:
        return bool(self.value(name))

    def number(self, name: str) -> float:
        value = self.value(name)
        if not isinstance(value, int | float):
            raise TypeError(f"{name} has no number: {value!r}")
        return float(value)


ReadStoresAgain = Callable[[Callable[["str | None"], None]], None]
"""Puts key and trust stores in force whose files changed, and calls back with why it could not; None if it could."""


class BrokerConfig(_TypedValues):
    """The properties of one broker: what was set, and Kafka's defaults for the rest.

    Three layers, the first that has a property decides: what was set of this broker while it ran, what was set of all
    brokers, and what it was started with.
    """

    def __init__(self, settings: Iterable[Setting] = ()) -> None:
        """Check every setting; a later one replaces an earlier one of the same name. Raises ConfigError."""
        self.warnings: list[str] = []
        self._set: dict[str, Value] = {}
        self._dynamic: dict[str, Value] = {}
        self._dynamic_default: dict[str, Value] = {}
        self.when_changed: list[Callable[[], None]] = []
        """Called after settings changed, for those who do not ask at each use."""
        self.read_stores_again: ReadStoresAgain | None = None
        """Set while a broker with TLS listens."""
        of_a_cluster = []
        for setting in settings:
            row = property_named(setting.name)
            if row is None:
                hint = did_you_mean(setting.name, BROKER_PROPERTIES)
                raise ConfigError(f"{setting.place}: {setting.name} is not a property of a Kafka broker{hint}")
            try:
                value = parse_value(row, setting.text)
            except ValueError as error:
                raise ConfigError(f"{setting.place}: {setting.name}: {error}") from None
            if row.support is Support.REFUSED and value is not False:
                raise ConfigError(f"{setting.place}: {setting.name} is not supported: {row.why}")
            if row.support is Support.NO_EFFECT:
                self.warnings.append(f"{setting.place}: {setting.name} has no effect: {row.why}")
            if row.support is Support.IN_A_CLUSTER:
                of_a_cluster.append(f"{setting.place}: {setting.name} has no effect: {row.why}")
            self._set[setting.name] = value
        if not self.is_of_a_cluster:
            self.warnings += of_a_cluster

    def set_dynamic(self, broker: str, overrides: Mapping[str, str]) -> None:
        """Replace what was set while the broker ran: of this broker, or of all, which is the empty name.

        Takes overrides that `check_broker_overrides` accepted.
        """
        values = {name: parse_value(BROKER_PROPERTIES[name], text) for name, text in overrides.items()}
        if broker:
            self._dynamic = values
        else:
            self._dynamic_default = values
        for tell in self.when_changed:
            tell()

    def value(self, name: str) -> Value:
        for layer in (self._dynamic, self._dynamic_default, self._set):
            if name in layer:
                return layer[name]
        return BROKER_PROPERTIES[name].default

    def of_listener(self, listener: str, name: str) -> Value:
        """A property as it holds for one listener: its own value, else the broker's."""
        own = f"listener.name.{listener.lower()}.{name}"
        return self._set[own] if own in self._set else self.value(name)

    def names_own_store(self, name: str, text: str | None) -> bool:
        """Whether this sets the place of a key or trust store to where the store is already."""
        listener, base = "", name
        if name.startswith("listener.name."):
            listener, _, base = name.removeprefix("listener.name.").partition(".")
        if text is None or base not in ("ssl.keystore.location", "ssl.truststore.location"):
            return False
        value = self.of_listener(listener, base)
        return value is not None and str(value) == text.strip()

    def jaas_config(self, listener: str, mechanism: str) -> str | None:
        value = self._set.get(f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config")
        return None if value is None else str(value)

    def callback_handler(self, listener: str, mechanism: str, side: str = "server") -> str | None:
        """The class that judges tokens of a mechanism; with `login` for side, the one that gets them."""
        name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.{side}.callback.handler.class"
        value = self._set.get(name)
        return None if value is None else str(value)

    def is_set(self, name: str) -> bool:
        return name in self._dynamic or name in self._dynamic_default or name in self._set

    def layers(self, name: str) -> list[tuple[Value, Source]]:
        """The values that were set of a property, the one in force first."""
        return [
            (layer[name], source)
            for layer, source in (
                (self._dynamic, Source.DYNAMIC_BROKER),
                (self._dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
                (self._set, Source.STATIC_BROKER),
            )
            if name in layer
        ]

    @property
    def is_of_a_cluster(self) -> bool:
        """Whether the broker is one of several around a ZooKeeper, or runs alone."""
        return bool(self._set.get("zookeeper.connect"))

    def string(self, name: str) -> str | None:
        value = self.value(name)
        return None if value is None else str(value)

    @property
    def dynamic_defaults(self) -> Mapping[str, Value]:
        """What was set of all brokers while they ran."""
        return self._dynamic_default


class TopicConfig(_TypedValues):
    """The properties of one topic: its own overrides over the broker's properties over Kafka's defaults."""

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
        """Take overrides that `check_topic_overrides` accepted."""
        self.overrides = dict(overrides)
        self.broker = broker
        self._values = {
            name: parse_value(TOPIC_PROPERTIES[name].row, text)
            for name, text in overrides.items()
            if name in TOPIC_PROPERTIES
        }

    def value(self, name: str) -> Value:
        if name in self._values:
            return self._values[name]
        return broker_default(self.broker, TOPIC_PROPERTIES[name])[1]


def broker_default(broker: BrokerConfig, topic_property: TopicProperty) -> tuple[str | None, Value]:
    """What a topic without an override gets: the broker property that decides, if one is set, and the value."""
    for name, factor in topic_property.broker_properties:
        if broker.is_set(name):
            value = broker.value(name)
            # A negative value is no amount, but "without limit".
            return name, value * factor if isinstance(value, int) and factor != 1 and value > 0 else value
    return None, topic_property.row.default


def check_topic_overrides(overrides: Mapping[str, str | None]) -> str | None:
    """Why these overrides cannot be a topic's, or None when they can. The text is for the client."""
    for name, text in overrides.items():
        topic_property = TOPIC_PROPERTIES.get(name)
        if topic_property is None:
            return f"Unknown topic config name: {name}{did_you_mean(name, TOPIC_PROPERTIES)}"
        if text is None:
            return f"Null value not supported for topic configs: {name}"
        try:
            value = parse_value(topic_property.row, text)
        except ValueError as error:
            return f"Invalid value {text} for configuration {name}: {error}"
        if topic_property.row.support is Support.REFUSED and value != topic_property.row.default:
            return f"{name}={text} is not supported: {topic_property.row.why}"
    return None


def check_new_topic_overrides(overrides: Mapping[str, str | None]) -> str | None:
    """The same, for overrides that are not there yet: they may not contradict each other (LogConfig.validateValues)."""
    if reason := check_topic_overrides(overrides):
        return reason
    least, most = (
        parse_value(row, overrides.get(row.name) or str(row.default))
        for row in (TOPIC_PROPERTIES[name].row for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    )
    if isinstance(least, int) and isinstance(most, int) and least > most:
        return f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
    return None


DYNAMIC_BROKER_PROPERTIES: Final = frozenset(
    {
        *(
            entry.broker_properties[0][0]
            for entry in TOPIC_PROPERTIES.values()
            if entry.broker_properties and entry.row.support in (Support.HONOURED, Support.IN_A_CLUSTER)
        ),
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "transaction.partition.verification.enable",
    }
)
"""What can be set while the broker runs: the defaults of topics, of times those in milliseconds only, and limits; all
of them Kafka's too."""


def check_broker_overrides(overrides: Mapping[str, str]) -> str | None:
    """Why these cannot be set while a broker runs, or None when they can. The text is for the client."""
    for name, text in overrides.items():
        if name not in DYNAMIC_BROKER_PROPERTIES:
            return f"Unknown dynamic broker config name: {name}{did_you_mean(name, DYNAMIC_BROKER_PROPERTIES)}"
        try:
            parse_value(BROKER_PROPERTIES[name], text)
        except ValueError as error:
            return f"Invalid value {text} for configuration {name}: {error}"
    return None


def topic_override_warnings(overrides: Mapping[str, str], *, is_of_a_cluster: bool = False) -> list[str]:
    """What of a topic's overrides is kept and shown but has no effect."""
    without = {Support.NO_EFFECT} if is_of_a_cluster else {Support.NO_EFFECT, Support.IN_A_CLUSTER}
    rows = [TOPIC_PROPERTIES[name].row for name in overrides if name in TOPIC_PROPERTIES]
    return [f"{row.name} has no effect: {row.why}" for row in rows if row.support in without]


def read_properties_file(path: Path) -> list[Setting]:
    """The settings of a `server.properties` file. Raises ConfigError when it cannot be read."""
    try:
        return [Setting(f"{path}:{item.line}", item.name, item.value) for item in read_properties(path)]
    except UsageError as error:
        raise ConfigError(str(error)) from None


def parse_property_option(text: str) -> Setting:
    """One `--property name=value` of the command line."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ConfigError(f"--property {text}: write it as name=value")
    return Setting("--property", name.strip(), value)
