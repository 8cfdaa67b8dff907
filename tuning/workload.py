"""The workload of a host: the inputs of the catalogue's formulas, with defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from ..common import java_properties
from ..common.quantities import BYTE_RATE, COUNT, DURATION, LINK_SPEED, SIZE, Quantity
from ..common.units import NANOSECONDS
from .errors import TuningError, nearest_match

Broker = Literal["highwater", "apache-kafka"]
_UNIT_NAME: Final = re.compile(r"[A-Za-z0-9:_.@-]+\.service")


@dataclass(frozen=True)
class Workload:
    """The load of one broker host. The defaults describe a mid-sized Kafka broker."""

    data_dirs: tuple[str, ...] = ("/var/lib/highwater",)
    disk_write_bytes_per_s: int | None = None
    """Measured sequential write speed of ONE data disk; None: the formulas assume one for the medium."""
    partitions: int = 1000
    partition_bytes: int = 10 * 2**30
    segment_bytes: int = 2**30
    connections: int = 1000
    link_bits_per_s: int = 10 * 10**9
    rtt_ms: float = 1.0
    write_bytes_per_s: int = 100 * 10**6
    """The append rate of this host, as leader and as follower together."""
    lag_window_s: float = 30.0
    """The consumer lag that is still served from memory; 30 s is Apache Kafka's rule of thumb."""
    retention_s: float = 7 * 86_400.0
    broker: Broker = "highwater"
    broker_rss_bytes: int = 256 * 2**20
    """Resident memory of a broker without a Java heap."""
    heap_bytes: int = 6 * 2**30
    """Java heap of Apache Kafka; its documentation uses 6 GiB."""
    units: tuple[str, ...] = ("highwater-broker@.service",)
    """The service units that the broker runs as."""
    broker_config: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The broker's configuration; properties that are missing have the default of `broker`."""

    @property
    def segments(self) -> int:
        """Log segments on the host; a partition has at least its active one."""
        return self.partitions * max(1, -(-self.partition_bytes // self.segment_bytes))

    @property
    def bandwidth_delay_bytes(self) -> int:
        """Bandwidth-delay product: the bytes that one connection must have in flight to fill the link."""
        return round(self.link_bits_per_s * self.rtt_ms / 8000)


def _whole(quantity: Quantity) -> Callable[[str], int]:
    return lambda text: round(quantity.above_zero(text))


def _duration_in(unit: str) -> Callable[[str], float]:
    return lambda text: float(DURATION.above_zero(text) / NANOSECONDS[unit])


def parse_broker(text: str) -> str:
    known = get_args(Broker)
    if text not in known:
        raise TuningError(f"{text!r} is not a broker{nearest_match(text, known)} (known: {', '.join(known)})")
    return text


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a Java properties file, such as a broker's server.properties; a later line wins.

    Raises TuningError for a malformed escape.
    """
    try:
        return {item.name: item.value.strip() for item in java_properties.parse_properties(text)}
    except java_properties.MalformedEscape as error:
        raise TuningError(f"line {error.line}: {error}; write each backslash of a value twice") from None


_PARSERS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "disk_write_rate": ("disk_write_bytes_per_s", _whole(BYTE_RATE)),
    "partitions": ("partitions", _whole(COUNT)),
    "partition_size": ("partition_bytes", _whole(SIZE)),
    "segment_size": ("segment_bytes", _whole(SIZE)),
    "connections": ("connections", _whole(COUNT)),
    "link": ("link_bits_per_s", _whole(LINK_SPEED)),
    "rtt": ("rtt_ms", _duration_in("ms")),
    "write_rate": ("write_bytes_per_s", _whole(BYTE_RATE)),
    "lag": ("lag_window_s", _duration_in("s")),
    "retention": ("retention_s", _duration_in("s")),
    "broker": ("broker", parse_broker),
    "broker_memory": ("broker_rss_bytes", _whole(SIZE)),
    "heap": ("heap_bytes", _whole(SIZE)),
}
WORKLOAD_KEYS: Final = ("data_dirs", *_PARSERS, "units", "broker_config")


def parse_workload(given: Mapping[str, Any]) -> Workload:
    """Parse a workload, such as `{"disk_write_rate": "400MB/s", "data_dirs": ["/data1"]}`.

    Raises TuningError for an unknown key and for an invalid value.
    """
    fields: dict[str, Any] = {}
    for key, value in given.items():
        if value is None:
            continue
        if key == "data_dirs":
            fields["data_dirs"] = _data_dirs(value)
        elif key == "units":
            fields["units"] = parse_units(value)
        elif key == "broker_config":
            if not isinstance(value, Mapping):
                raise TuningError(f"broker_config must map properties of the broker to values, not {value!r}")
            fields["broker_config"] = {str(name): str(text) for name, text in value.items()}
        elif key in _PARSERS:
            name, parse = _PARSERS[key]
            try:
                fields[name] = parse(str(value))
            except (TuningError, ValueError) as error:
                raise TuningError(f"{key}: {error}") from None
        else:
            raise TuningError(
                f"unknown workload input {key!r}{nearest_match(key, WORKLOAD_KEYS)} (known: {', '.join(WORKLOAD_KEYS)})"
            )
    return Workload(**fields)


def parse_units(value: Any) -> tuple[str, ...]:
    """Parse names of service units, which become parts of paths. Raises TuningError for an invalid name."""
    units = tuple(_strings("units", value, "service units"))
    for unit in units:
        if not _UNIT_NAME.fullmatch(unit):
            raise TuningError(f"{unit!r} is not the name of a service unit, such as highwater-broker@.service")
    return units


def _data_dirs(value: Any) -> tuple[str, ...]:
    directories = tuple(_strings("data_dirs", value, "directories"))
    if not directories:
        raise TuningError(f"data_dirs must be a list of directories, not {value!r}")
    for directory in directories:
        if not directory.startswith("/"):
            raise TuningError(f"data directory {directory!r} must be an absolute path")
    return directories


def _strings(key: str, value: Any, what: str) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise TuningError(f"{key} must be a list of {what}, not {value!r}")
    return list(value)
