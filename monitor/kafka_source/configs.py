"""Settings of topics and brokers, read by hand: thousands of topics have dozens each. Pure.

DescribeConfigs v4, with synonyms: an entry is [name, value, read_only bool, source i8, is_sensitive bool,
    synonyms [name, value, source i8], type i8, documentation].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from highwater.kafka.client.request import Request
from highwater.kafka.protocol.primitives import NO_TAGS, Decoder, array_length, string
from highwater.monitor.model import ConfigValue

TOPIC: Final = 2
BROKER: Final = 4
"""Types of resources."""
_VERSION: Final = 4
_ALL_KEYS: Final = b"\0"
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "CLIENT_METRICS_CONFIG",
    8: "GROUP_CONFIG",
}
_OWN: Final = {TOPIC: (1,), BROKER: (2, 4)}
"""Sources that hold for one topic or for one broker alone, by type of resource."""

_MS_OF: Final = {"minutes": 60_000, "hours": 3_600_000}


class Described(NamedTuple):
    error_code: int
    message: str
    config: Mapping[str, ConfigValue]


Resource = tuple[int, str]
"""Its type and its name."""


def describe_configs(
    resources: Collection[Resource], settings: Collection[str] | None = None
) -> Request[dict[Resource, Described]]:
    """Those of a broker must be asked of that broker. `settings` by name; None for all."""
    keys = _ALL_KEYS
    if settings is not None:
        keys = array_length(len(settings), flexible=True) + b"".join(string(each, flexible=True) for each in settings)

    def encode(_: int) -> bytes:
        out = bytearray(array_length(len(resources), flexible=True))
        for kind, name in resources:
            out += bytes((kind,)) + string(name, flexible=True) + keys + NO_TAGS
        return bytes(out + b"\1\0" + NO_TAGS)  # with synonyms, without documentation

    return Request("describe_configs", _VERSION, _VERSION, encode, _decode)


def _decode(decoder: Decoder, version: int) -> dict[Resource, Described]:
    decoder.int32()  # throttle time
    found = {}
    # Most topics have the same settings: one object for all of them.
    values: dict[ConfigValue, ConfigValue] = {}
    configs: dict[tuple[tuple[str, ConfigValue], ...], dict[str, ConfigValue]] = {}
    for _ in range(decoder.array_length()):
        error_code, message = decoder.int16(), decoder.nullable_string() or ""
        kind, name = decoder.int8(), decoder.string()
        entries = tuple([_entry(decoder, kind, values) for _ in range(decoder.array_length())])
        decoder.skip_tags()
        config = configs.get(entries)
        if config is None:
            config = configs[entries] = dict(entries)
        found[kind, name] = Described(error_code, message, config)
    return found


def _entry(decoder: Decoder, kind: int, values: dict[ConfigValue, ConfigValue]) -> tuple[str, ConfigValue]:
    name, text = decoder.string(), decoder.nullable_string()
    decoder.int8()  # read only
    source, is_sensitive = decoder.int8(), decoder.boolean()
    own = _OWN.get(kind, ())
    default = None
    for _ in range(decoder.array_length()):
        synonym, of_synonym, of_source = decoder.string(), decoder.nullable_string(), decoder.int8()
        decoder.skip_tags()
        if default is None and of_source not in own:
            default = _in_unit_of(name, synonym, of_synonym)
    decoder.int8()  # type
    decoder.nullable_string()  # documentation
    decoder.skip_tags()
    value = ConfigValue(text, _SOURCES.get(source, "UNKNOWN"), default, is_sensitive)
    return name, values.setdefault(value, value)


def _in_unit_of(name: str, synonym: str, value: str | None) -> str | None:
    """`retention.ms` has `log.retention.hours` among its synonyms."""
    factor = _MS_OF.get(synonym.rpartition(".")[2])
    if factor is None or value is None or not name.endswith(".ms") or not value.isdecimal():
        return value
    return str(int(value) * factor)
