"""Mergeable histograms in HdrHistogram's bucket layout (1 ns to 1 h, 3 significant digits).

The bucket index of a value is the one that HdrHistogram computes, so its V2 format can store them without loss.
Layout: http://hdrhistogram.org; a value v lies in bucket b = bit_length(v | 2047) − 11 and sub-bucket v >> b.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

HIGHEST_VALUE_NS: Final = 3_600_000_000_000
_SUB_BUCKET_BITS: Final = 11  # 2048 sub-buckets: the power of two that gives 3 significant digits
_HALF: Final = 1 << (_SUB_BUCKET_BITS - 1)
_BUCKETS: Final = HIGHEST_VALUE_NS.bit_length() - _SUB_BUCKET_BITS + 1
COUNTS_LENGTH: Final = (_BUCKETS + 1) * _HALF


def bucket_indices(values_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """HdrHistogram's counts-array index of each value; a value outside 0..1 h counts as the nearest bound."""
    values = np.clip(values_ns, 0, HIGHEST_VALUE_NS)
    # frexp's exponent is the bit length; values stay below 2**53, where float64 is exact.
    bit_lengths = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    buckets: NDArray[np.int64] = np.maximum(bit_lengths - _SUB_BUCKET_BITS, 0)
    return (buckets << (_SUB_BUCKET_BITS - 1)) + (values >> buckets)


def lowest_values_ns(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """The smallest value of each bucket index."""
    buckets = np.maximum((indices >> (_SUB_BUCKET_BITS - 1)) - 1, 0)
    lowest: NDArray[np.int64] = (indices - (buckets << (_SUB_BUCKET_BITS - 1))) << buckets
    return lowest


def _range_sizes(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many values share each bucket index."""
    sizes: NDArray[np.int64] = np.int64(1) << np.maximum((indices >> (_SUB_BUCKET_BITS - 1)) - 1, 0)
    return sizes


class Histogram:
    """An immutable sparse histogram: sorted bucket indices and their counts, none of them zero."""

    __slots__ = ("counts", "indices")

    def __init__(self, indices: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        self.indices = indices
        self.counts = counts

    @classmethod
    def of_values(cls, values_ns: Iterable[int]) -> Histogram:
        indices, counts = np.unique(bucket_indices(np.fromiter(values_ns, dtype=np.int64)), return_counts=True)
        return cls(indices, counts.astype(np.int64))

    @classmethod
    def of_dense(cls, counts: NDArray[np.int64]) -> Histogram:
        """The histogram of an array of COUNTS_LENGTH counts."""
        indices = np.flatnonzero(counts)
        return cls(indices, counts[indices])

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """The exact sum of the histograms; an empty histogram if there are none."""
        dense = np.zeros(COUNTS_LENGTH, dtype=np.int64)
        for histogram in histograms:
            dense[histogram.indices] += histogram.counts
        return cls.of_dense(dense)

    def minus(self, part: Histogram) -> Histogram:
        """What is left without `part`, whose every value must be in this histogram."""
        counts = self.counts.copy()
        counts[np.searchsorted(self.indices, part.indices)] -= part.counts
        left = counts > 0
        return Histogram(self.indices[left], counts[left])

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    def percentile(self, percentile: float) -> int:
        """The largest value equivalent to the one at `percentile` (0 to 100), as in HdrHistogram; 0 if empty."""
        if not len(self.counts):
            return 0
        target = max(1, int(percentile * self.count / 100 + 0.5))
        position = int(np.searchsorted(np.cumsum(self.counts), target))
        index = self.indices[min(position, len(self.indices) - 1)].reshape(1)
        lowest = int(lowest_values_ns(index)[0])
        return lowest if percentile == 0 else lowest + int(_range_sizes(index)[0]) - 1

    @property
    def max(self) -> int:
        """The largest value equivalent to the largest one recorded; 0 if empty."""
        return self.percentile(100)

    @property
    def mean(self) -> float:
        """Mean of the middles of the buckets, as HdrHistogram computes it; 0 if empty."""
        if not len(self.counts):
            return 0.0
        middles = lowest_values_ns(self.indices) + (_range_sizes(self.indices) >> 1)
        # Python's integers: the sum of a long load is above 64 bits, and a float's depends on the order.
        total: int = sum(map(operator.mul, middles.tolist(), self.counts.tolist()))
        return total / self.count

    def items(self) -> Iterator[tuple[int, int]]:
        """(lowest equivalent value in ns, count) in rising order; any HdrHistogram can be rebuilt from these."""
        return zip(lowest_values_ns(self.indices).tolist(), self.counts.tolist(), strict=True)

    def encode(self) -> bytes:
        """A compact form to send from a task to the driver."""
        steps = np.diff(self.indices, prepend=np.int64(0)).astype("<u4")
        return zlib.compress(steps.tobytes() + self.counts.astype("<u8").tobytes(), 1)

    @classmethod
    def decode(cls, encoded: bytes) -> Histogram:
        raw = zlib.decompress(encoded)
        length = len(raw) // 12
        steps = np.frombuffer(raw, dtype="<u4", count=length).astype(np.int64)
        counts = np.frombuffer(raw, dtype="<u8", offset=4 * length).astype(np.int64)
        return cls(np.cumsum(steps), counts)


class HistogramSeries:
    """One histogram per second, filled in batches.

    The latest seconds are dense arrays, older ones sparse. The cost of recording does not depend on what was recorded
    before, so recording never stalls a sender.
    """

    _DENSE_SECONDS: Final = 4

    def __init__(self) -> None:
        self._dense: dict[int, NDArray[np.int64]] = {}
        self._sealed: dict[int, Histogram] = {}
        self._told: dict[int, Histogram] | None = None
        self._touched: set[int] = set()

    def record(self, values_ns: NDArray[np.int64], seconds: NDArray[np.int64]) -> None:
        """File each value under its second."""
        indices = bucket_indices(values_ns)
        first, last = int(seconds.min()), int(seconds.max())
        for second in range(first, last + 1):
            chosen = indices if first == last else indices[seconds == second]
            if len(chosen):
                np.add.at(self._counts_of(second), chosen, 1)
                if self._told is not None:
                    self._touched.add(second)

    def follow(self) -> None:
        """Remember from now on what `changes` has returned."""
        self._told = {}

    def changes(self) -> dict[int, Histogram]:
        """What was recorded since the last call, by second. Call `follow` before the first record."""
        assert self._told is not None, "nobody follows this series"
        changed = {}
        for second in sorted(self._touched):
            now, before = self._all_of(second), self._told.get(second)
            changed[second] = now.minus(before) if before else now
            self._told[second] = now
        self._touched.clear()
        return changed

    def _all_of(self, second: int) -> Histogram:
        dense, sealed = self._dense.get(second), self._sealed.get(second)
        parts = [*([sealed] if sealed else []), *([] if dense is None else [Histogram.of_dense(dense)])]
        return parts[0] if len(parts) == 1 else Histogram.merged(parts)

    def _counts_of(self, second: int) -> NDArray[np.int64]:
        if second not in self._dense:
            if len(self._dense) >= self._DENSE_SECONDS:
                self._seal(min(self._dense))
            self._dense[second] = np.zeros(COUNTS_LENGTH, dtype=np.int64)
        return self._dense[second]

    def _seal(self, second: int) -> None:
        """Make a second sparse. A record that arrives later still makes it dense again."""
        histogram = Histogram.of_dense(self._dense.pop(second))
        earlier = self._sealed.get(second)
        self._sealed[second] = Histogram.merged([earlier, histogram]) if earlier else histogram
        if self._told and second in self._told and second not in self._touched:
            self._told[second] = self._sealed[second]  # the same values: keep them once

    def percentile(self, second: int, percentile: float) -> int | None:
        """A percentile of a second that is still dense; None when nothing was recorded in it."""
        counts = self._dense.get(second)
        return None if counts is None else Histogram.of_dense(counts).percentile(percentile)

    def encode(self) -> dict[int, bytes]:
        for second in sorted(self._dense):
            self._seal(second)
        return {second: histogram.encode() for second, histogram in sorted(self._sealed.items())}


def merge_series(encoded: Iterable[dict[int, bytes]]) -> dict[int, Histogram]:
    """Add up the results of HistogramSeries.encode() of several tasks, second by second."""
    by_second: dict[int, list[Histogram]] = {}
    for series in encoded:
        for second, histogram in series.items():
            by_second.setdefault(second, []).append(Histogram.decode(histogram))
    return {second: Histogram.merged(histograms) for second, histograms in sorted(by_second.items())}
