"""The plan of a record's content: sizes, payload, keys, headers; `content` generates it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.spark_loadgen.traces import TracedHeaders, TracedKeys, TracedSizes

ZIPF_KEYS_MAX: Final = 10_000_000
_HEADER_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GeneratedPayload:
    """Seeded JSON log lines.

    compress_ratio: the share (0 to 1) of a value, without its stamp, that is random text of 64 different letters, which
    lz4 and snappy cannot compress and an entropy coder (gzip, zstd) compresses by a quarter. The rest is text that
    repeats from line to line and compresses to about a tenth.
    """

    compress_ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.compress_ratio <= 1:
            raise LoadSetupError(f"compress_ratio {self.compress_ratio:g} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class FilePayload:
    """Lines of a text file on the driver's host."""

    path: str


@dataclass(frozen=True, slots=True)
class FixedSize:
    """Every value has `bytes` bytes. A size always includes the value's stamp of 24 bytes."""

    bytes: int

    def __post_init__(self) -> None:
        _check_size(self.bytes)

    @property
    def mean_bytes(self) -> float:
        return float(self.bytes)

    @property
    def max_bytes(self) -> int:
        return self.bytes


@dataclass(frozen=True, slots=True)
class WeightedSizes:
    """(size in bytes, weight) pairs: sizes in random order, each with a frequency in proportion to its weight."""

    weights: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        if not self.weights:
            raise LoadSetupError("weighted sizes need at least one size")
        for size_bytes, weight in self.weights:
            _check_size(size_bytes)
            if not (math.isfinite(weight) and weight > 0):
                raise LoadSetupError(f"size {size_bytes} has the weight {weight:g}; it must be above 0")

    @property
    def mean_bytes(self) -> float:
        return sum(size * weight for size, weight in self.weights) / sum(weight for _, weight in self.weights)

    @property
    def max_bytes(self) -> int:
        return max(size for size, _ in self.weights)


@dataclass(frozen=True, slots=True)
class UniformSizes:
    """Sizes from min_bytes to max_bytes (both included), all equally likely."""

    min_bytes: int
    max_bytes: int

    def __post_init__(self) -> None:
        _check_size(self.min_bytes)
        if self.max_bytes < self.min_bytes:
            raise LoadSetupError(f"uniform sizes from {self.min_bytes} to {self.max_bytes} bytes: the first is larger")

    @property
    def mean_bytes(self) -> float:
        return (self.min_bytes + self.max_bytes) / 2


Sizes = FixedSize | WeightedSizes | UniformSizes | TracedSizes


def _check_size(size_bytes: int) -> None:
    if size_bytes < STAMP_BYTES:
        raise LoadSetupError(
            f"a record size of {size_bytes} bytes is too small; every value starts with a stamp of {STAMP_BYTES} bytes"
        )


@dataclass(frozen=True, slots=True)
class RoundRobinKeys:
    """Keys 0 to n − 1 in turn, over the records of all producers together."""

    n: int

    def __post_init__(self) -> None:
        _check_key_count(self.n)


@dataclass(frozen=True, slots=True)
class RandomKeys:
    """Keys 0 to n − 1, all equally likely."""

    n: int

    def __post_init__(self) -> None:
        _check_key_count(self.n)


@dataclass(frozen=True, slots=True)
class ZipfKeys:
    """Key k (from 0) of n comes with a probability proportional to 1 / (k + 1)**s; s may be any number above 0."""

    n: int
    s: float

    def __post_init__(self) -> None:
        _check_key_count(self.n)
        if self.n > ZIPF_KEYS_MAX:
            raise LoadSetupError(f"{self.n} Zipf keys are too many; at most {ZIPF_KEYS_MAX} are possible")
        if not (math.isfinite(self.s) and self.s > 0):
            raise LoadSetupError(f"a Zipf exponent of {self.s:g} is not above 0")


NumberedKeys = RoundRobinKeys | RandomKeys | ZipfKeys
Keys = NumberedKeys | TracedKeys


def _check_key_count(n: int) -> None:
    if not 1 <= n <= 10**12:
        raise LoadSetupError(f"{n} keys: the number must be at least 1 and at most 10**12")


@dataclass(frozen=True, slots=True)
class Headers:
    """How many headers each record carries, and how long the value of each is."""

    count: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        if self.count < 0 or self.bytes < 0 or self.count * self.bytes > _HEADER_BYTES_MAX:
            raise LoadSetupError(f"{self.count} headers of {self.bytes} bytes: they must be 0 to 1 MiB in total")


NO_HEADERS: Final = Headers()
RecordHeaders = Headers | TracedHeaders
