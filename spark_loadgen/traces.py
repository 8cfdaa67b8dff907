"""Arrivals, sizes, keys and headers of a captured trace, as distributions to draw from.

Arrivals are an open loop like any other: the due time of each record is computed before the load starts, and a system
that stalls makes records late, and changes no due time.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.counter_rng import HEADERS, stratified
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.schedule import Schedule
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.spark_loadgen.windows import SECOND_NS

_NULL: Final = -1
# After the end of a trace: a schedule needs a time for every record.
_NEVER_NS: Final = 10**9 * SECOND_NS


@dataclass(frozen=True, eq=False)
class TracedArrivals:
    """Records of all producers in each `bin_ns` of the trace; within a bin they are evenly spaced.

    speed: the trace's time passes so many times as fast. share: so many records for each of the trace.
    """

    counts: NDArray[np.int32]
    bin_ns: int
    speed: float = 1.0
    share: float = 1.0

    def __post_init__(self) -> None:
        if not len(self.counts) or not self.counts.any():
            raise LoadSetupError("a trace without a record offers no load")
        for name, value in (("speed", self.speed), ("share", self.share)):
            if not (math.isfinite(value) and value > 0):
                raise LoadSetupError(f"a {name} of {value:g} of a trace offers no load; it must be above 0")

    @property
    def duration_s(self) -> float:
        return len(self.counts) * self.bin_ns / self.speed / SECOND_NS

    @property
    def rate_mean_per_s(self) -> float:
        return float(self.counts.sum()) * self.share / self.duration_s

    @property
    def rate_max_per_s(self) -> float:
        """Records per second in the busiest second of the replay."""
        bins = max(1, round(SECOND_NS * self.speed / self.bin_ns))
        starts = np.arange(0, len(self.counts), bins)
        return float(np.add.reduceat(self.counts.astype(np.int64), starts).max()) * self.share

    def arrivals(self, workers: int, warmup_ns: int, duration_ns: int, seed: int) -> Schedule:
        """The schedule of a load: the mean rate during warm-up, then the trace, and nothing after its end."""
        width_ns = self.bin_ns / self.speed
        starts_ns = warmup_ns + np.round(np.arange(len(self.counts) + 1) * width_ns).astype(np.int64)
        starts_ns = np.append(starts_ns, starts_ns[-1] + _NEVER_NS)
        rates = np.append(self.counts * (self.share * SECOND_NS / width_ns), [0.0, self.rate_mean_per_s])
        if warmup_ns:
            warmup_s = warmup_ns / SECOND_NS
            # A whole number of records: then each bin has exactly those of the trace.
            warmup_rate = max(1, round(self.rate_mean_per_s * warmup_s)) / warmup_s
            starts_ns, rates = np.append(0, starts_ns), np.append(warmup_rate, rates)
        return Schedule(
            tuple(rates.tolist()), tuple(starts_ns.tolist()), workers, duration_ns, "uniform", seed, lead=0.5
        )

    def __repr__(self) -> str:
        return f"TracedArrivals({_digest(self.counts.tobytes())}, speed={self.speed:g}, share={self.share:g})"


@dataclass(frozen=True, eq=False)
class TracedSizes:
    """(size in bytes, number of records) of values, stamps included, in order of size."""

    counts: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.counts or self.counts[0][0] < STAMP_BYTES:
            raise LoadSetupError(f"sizes of a trace begin at {STAMP_BYTES} bytes, the stamp of a value")

    @property
    def mean_bytes(self) -> float:
        return sum(size * count for size, count in self.counts) / sum(count for _, count in self.counts)

    @property
    def max_bytes(self) -> int:
        return self.counts[-1][0]

    def quantiles(self, count: int) -> list[int]:
        """`count` sizes that are distributed as all are."""
        sizes, counts = np.array(self.counts, np.int64).T
        places = (np.arange(count) + 0.5) / count * counts.sum()
        chosen: list[int] = sizes[np.searchsorted(np.cumsum(counts), places, side="right")].tolist()
        return chosen

    def __repr__(self) -> str:
        return f"TracedSizes({_digest(repr(self.counts).encode())})"


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Rows of keys as arrays. cumulated: share of the records up to and with each row.

    first_number: keys of one length are numbered over all rows; this is the number of the row's first key.
    """

    cumulated: NDArray[np.float64]
    key_bytes: NDArray[np.int64]
    partition: NDArray[np.int64]
    keys: NDArray[np.int64]
    first_number: NDArray[np.int64]
    keys_of_length: dict[int, int]


@dataclass(frozen=True, eq=False)
class TracedKeys:
    """Rows of (records of each key, bytes of a key, partition, number of such keys), the most frequent first.

    Bytes of −1: no key; then the row has one "key". A partition of −1: the client's partitioner chooses.
    """

    rows: tuple[tuple[int, int, int, int], ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise LoadSetupError("keys of a trace need a row")

    @cached_property
    def table(self) -> KeyTable:
        counts, key_bytes, partition, keys = np.array(self.rows, np.int64).T
        weights = np.cumsum(counts.astype(np.float64) * keys)
        first_number = np.zeros(len(keys), np.int64)
        keys_of_length = {}
        for length in np.unique(key_bytes).tolist():
            rows = np.flatnonzero(key_bytes == length)
            ends = np.cumsum(keys[rows])
            first_number[rows] = ends - keys[rows]
            keys_of_length[length] = int(ends[-1])
        return KeyTable(weights / weights[-1], key_bytes, partition, keys, first_number, keys_of_length)

    @property
    def has_partitions(self) -> bool:
        return any(row[2] != _NULL for row in self.rows)

    def __repr__(self) -> str:
        return f"TracedKeys({_digest(repr(self.rows).encode())})"


@dataclass(frozen=True, eq=False)
class TracedHeaders:
    """Shapes of (number of headers, bytes of their names, bytes of their values, records)."""

    shapes: tuple[tuple[int, int, int, int], ...]

    @property
    def any(self) -> bool:
        return any(shape[0] for shape in self.shapes)

    @cached_property
    def cumulated(self) -> NDArray[np.float64]:
        weights = np.cumsum([float(shape[3]) for shape in self.shapes])
        shares: NDArray[np.float64] = weights / weights[-1]
        return shares

    def drawn(self, seed: int, workers: int | NDArray[np.int64], sequences: NDArray[np.int64]) -> list[int]:
        """The shape of each record, as an index of `made`."""
        draws = stratified(seed, HEADERS, workers, sequences)
        shapes: list[int] = np.minimum(
            np.searchsorted(self.cumulated, draws, side="right"), len(self.shapes) - 1
        ).tolist()
        return shapes

    @cached_property
    def made(self) -> list[list[tuple[str, bytes]]]:
        """Headers of each shape, with names and values of about equal lengths."""
        return [
            [
                (f"h{number}".ljust(name, "-")[: max(1, name)], b"h" * value)
                for number, (name, value) in enumerate(zip(_parts(names, count), _parts(values, count), strict=True))
            ]
            for count, names, values, _ in self.shapes
        ]

    def __repr__(self) -> str:
        return f"TracedHeaders({_digest(repr(self.shapes).encode())})"


def _parts(total: int, count: int) -> list[int]:
    return [total // count + (number < total % count) for number in range(count)]


def _digest(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"
