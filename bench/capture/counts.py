"""Counts of sizes and of records by time, as values that are merged by addition. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

BIN_MS: Final = 10
"""Width of a bin of the arrivals: the resolution at which bursts are kept."""
_BINS_PER_S: Final = 1000 // BIN_MS
SECONDS_MAX: Final = 400_000
"""Of one trace, four and a half days: the arrivals of each take 0.4 KiB of memory."""
_EXACT_BITS: Final = 10
_NO_TIME_MS: Final = 0


class SpanError(Exception):
    """The timestamps of records lie further apart than one trace can hold; the text says from when to when, in ms."""

    def __init__(self, first_s: int, last_s: int) -> None:
        super().__init__(f"{first_s * 1000} to {last_s * 1000}")
        self.first_s = first_s
        self.last_s = last_s


def rounded(values: Int64s) -> Int64s:
    """Values below 1024 as they are, larger ones to the middle of a range of 0.1 to 0.2 % of the value."""
    exponents = np.frexp(np.maximum(values, 1).astype(np.float64))[1].astype(np.int64)
    shifts = np.maximum(exponents - _EXACT_BITS, 0)
    middles: Int64s = (values >> shifts << shifts) + ((np.int64(1) << shifts) >> 1)
    return middles


def count_values(counts: Counter[int], values: Int64s, weights: Int64s | None = None) -> None:
    """Add values (≥ 0), rounded, to a counter; each counts once, or as often as its weight says."""
    if not len(values):
        return
    found, places = np.unique(rounded(values), return_inverse=True)
    sums = np.bincount(places, weights=weights, minlength=len(found)).astype(np.int64)
    for value, count in zip(found.tolist(), sums.tolist(), strict=True):
        counts[value] += count


def quantile(counts: Counter[int], share: float) -> int:
    """The smallest value that at least `share` of all counted are not above; 0 of nothing."""
    total, passed = sum(counts.values()), 0
    for value in sorted(counts):
        passed += counts[value]
        if passed >= share * total:
            return value
    return 0


@dataclass(slots=True)
class Arrivals:
    """How many records have their timestamp in each 10 ms; `without_time` have none (before 1970 counts as none)."""

    by_second: dict[int, NDArray[np.int32]] = field(default_factory=dict)
    without_time: int = 0

    def add(self, timestamps_ms: Int64s) -> None:
        """Raises SpanError."""
        timed = timestamps_ms[timestamps_ms > _NO_TIME_MS]
        self.without_time += len(timestamps_ms) - len(timed)
        if not len(timed):
            return
        bins, counts = np.unique(timed // BIN_MS, return_counts=True)
        seconds = bins // _BINS_PER_S
        firsts = np.flatnonzero(np.diff(seconds, prepend=seconds[0] - 1))
        ends = np.append(firsts[1:], len(bins))
        for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
            self._of_second(int(seconds[first]))[bins[first:end] % _BINS_PER_S] += counts[first:end].astype(np.int32)

    def _of_second(self, second: int) -> NDArray[np.int32]:
        row = self.by_second.get(second)
        if row is None:
            if len(self.by_second) >= SECONDS_MAX:
                raise SpanError(min(self.by_second), max(self.by_second))
            row = self.by_second[second] = np.zeros(_BINS_PER_S, np.int32)
        return row

    def merge(self, other: Arrivals) -> None:
        """Add the counts of `other`. Raises SpanError."""
        self.without_time += other.without_time
        for second, row in other.by_second.items():
            self._of_second(second)[:] += row

    def series(self) -> tuple[int, NDArray[np.int32]]:
        """The start of the first bin with a record in ms since 1970, and the counts of all bins up to the last one.

        Raises SpanError.
        """
        if not self.by_second:
            return 0, np.zeros(0, np.int32)
        first_s, last_s = min(self.by_second), max(self.by_second)
        if last_s - first_s >= SECONDS_MAX:
            raise SpanError(first_s, last_s)
        counts = np.zeros((last_s - first_s + 1) * _BINS_PER_S, np.int32)
        for second, row in self.by_second.items():
            start = (second - first_s) * _BINS_PER_S
            counts[start : start + _BINS_PER_S] = row
        filled = np.flatnonzero(counts)
        return first_s * 1000 + int(filled[0]) * BIN_MS, counts[filled[0] : filled[-1] + 1]
