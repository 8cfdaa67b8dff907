"""What a host is to carry: the inputs of the catalogue's formulas, each with a default that formulas print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .errors import TuningError, nearest_match
from .quantities import parse_bit_rate, parse_byte_rate, parse_bytes, parse_count, parse_duration_ms


@dataclass(frozen=True)
class Workload:
    """One broker host. The defaults describe a mid-sized Kafka broker; give your own where you know better."""

    data_dirs: tuple[str, ...] = ("/var/lib/highwater",)
    disk_write_bytes_per_s: int | None = None
    """Measured sequential write speed of ONE data disk; None lets the formulas assume one from the medium."""
    partitions: int = 1000
    partition_bytes: int = 10 * 2**30
    segment_bytes: int = 2**30
    connections: int = 1000
    link_bits_per_s: int = 10 * 10**9
    rtt_ms: float = 1.0

    @property
    def segments(self) -> int:
        """Log segments on the host; a partition has at least its active one."""
        return self.partitions * max(1, -(-self.partition_bytes // self.segment_bytes))

    @property
    def bandwidth_delay_bytes(self) -> int:
        """Bandwidth × delay product: what one connection must hold in flight to fill the link."""
        return round(self.link_bits_per_s * self.rtt_ms / 8000)


_PARSERS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "disk_write_rate": ("disk_write_bytes_per_s", parse_byte_rate),
    "partitions": ("partitions", parse_count),
    "partition_size": ("partition_bytes", parse_bytes),
    "segment_size": ("segment_bytes", parse_bytes),
    "connections": ("connections", parse_count),
    "link": ("link_bits_per_s", parse_bit_rate),
    "rtt": ("rtt_ms", parse_duration_ms),
}
WORKLOAD_KEYS: Final = ("data_dirs", *_PARSERS)


def parse_workload(given: Mapping[str, Any]) -> Workload:
    """Build a workload from what a person wrote (`{"disk_write_rate": "400MB/s", "data_dirs": ["/data1"]}`)."""
    fields: dict[str, Any] = {}
    for key, value in given.items():
        if value is None:
            continue
        if key == "data_dirs":
            if not isinstance(value, list | tuple) or not value or not all(isinstance(item, str) for item in value):
                raise TuningError(f"data_dirs must be a list of directories, not {value!r}")
            for directory in value:
                if not directory.startswith("/"):
                    raise TuningError(f"data directory {directory!r} must be an absolute path")
            fields["data_dirs"] = tuple(value)
        elif key in _PARSERS:
            field, parse = _PARSERS[key]
            try:
                fields[field] = parse(str(value))
            except TuningError as error:
                raise TuningError(f"{key}: {error}") from None
        else:
            raise TuningError(
                f"unknown workload input {key!r}{nearest_match(key, WORKLOAD_KEYS)} (known: {', '.join(WORKLOAD_KEYS)})"
            )
    return Workload(**fields)
