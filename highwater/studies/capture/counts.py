"""Counts of sizes and of records by time, as values that are merged by addition. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

FINE_BIN_MS: Final = 1
BIN_MS: Final = 10
FINE_SECONDS_MAX: Final = 1000
"""The longest trace with bins of FINE_BIN_MS: a second takes 4 KiB of memory, and far more in a replay."""
SECONDS_MAX: Final = 400_000
"""The longest trace, four and a half days: the arrivals of each second take 0.4 KiB of memory."""
_FINE_IN_BIN: Final = BIN_MS // FINE_BIN_MS
_EXACT_BITS: Final = 10
_NO_TIME_MS: Final = 0


class SpanError(Exception):
    """The timestamps of records lie further apart than one trace can hold."""

    def __init__(self, first_s: int, last_s: int) -> None:
        super().__init__(first_s, last_s)
        self.first_s = first_s
        self.last_s = last_s

    def __str__(self) -> str:
        first, last = (
            datetime.fromtimestamp(each, UTC).isoformat(timespec="seconds") for each in (self.first_s, self.last_s)
        )
        return (
            f"the times of the records reach from {first} to {last}, more than a trace can hold; name a part of it "
            "with --from and --to"
        )


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
    """How many records have their timestamp in each bin; `without_time` have none (before 1970 counts as none).

    The width of a bin is the resolution at which bursts are kept: a millisecond, and ten once there are more than
    FINE_SECONDS_MAX seconds.
    """

    by_second: dict[int, NDArray[np.int32]] = field(default_factory=dict)
    without_time: int = 0
    bin_ms: int = FINE_BIN_MS

    def add(self, timestamps_ms: Int64s) -> None:
        """Raises SpanError."""
        timed = timestamps_ms[timestamps_ms > _NO_TIME_MS]
        self.without_time += len(timestamps_ms) - len(timed)
        if not len(timed):
            return
        if self.bin_ms == FINE_BIN_MS:
            self._coarsen(len(set(np.unique(timed // 1000).tolist()) - self.by_second.keys()))
        bins, counts = np.unique(timed // self.bin_ms, return_counts=True)
        bins_per_s = 1000 // self.bin_ms
        seconds = bins // bins_per_s
        firsts = np.flatnonzero(np.diff(seconds, prepend=seconds[0] - 1))
        ends = np.append(firsts[1:], len(bins))
        for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
            self._of_second(int(seconds[first]))[bins[first:end] % bins_per_s] += counts[first:end].astype(np.int32)

    def _of_second(self, second: int) -> NDArray[np.int32]:
        row = self.by_second.get(second)
        if row is None:
            if len(self.by_second) >= SECONDS_MAX:
                raise SpanError(min(self.by_second), max(self.by_second))
            row = self.by_second[second] = np.zeros(1000 // self.bin_ms, np.int32)
        return row

    def _coarsen(self, more_seconds: int) -> None:
        """Make bins of BIN_MS, unless so many seconds more still fit with fine ones."""
        if self.bin_ms == FINE_BIN_MS and len(self.by_second) + more_seconds > FINE_SECONDS_MAX:
            self.bin_ms = BIN_MS
            self.by_second = {second: _in_bins(row) for second, row in self.by_second.items()}

    def merge(self, other: Arrivals) -> None:
        """Add the counts of `other`. Raises SpanError."""
        self.without_time += other.without_time
        self._coarsen(FINE_SECONDS_MAX + 1 if other.bin_ms == BIN_MS else len(other.by_second.keys() - self.by_second))
        for second, row in other.by_second.items():
            self._of_second(second)[:] += row if other.bin_ms == self.bin_ms else _in_bins(row)

    def series(self) -> tuple[int, NDArray[np.int32]]:
        """The start of the first bin with a record in ms since 1970, and the counts of all bins up to the last one.

        Raises SpanError.
        """
        if not self.by_second:
            return 0, np.zeros(0, np.int32)
        first_s, last_s = min(self.by_second), max(self.by_second)
        if last_s - first_s >= SECONDS_MAX:
            raise SpanError(first_s, last_s)
        self._coarsen(last_s - first_s + 1 - len(self.by_second))
        bins_per_s = 1000 // self.bin_ms
        counts = np.zeros((last_s - first_s + 1) * bins_per_s, np.int32)
        for second, row in self.by_second.items():
            start = (second - first_s) * bins_per_s
            counts[start : start + bins_per_s] = row
        filled = np.flatnonzero(counts)
        return first_s * 1000 + int(filled[0]) * self.bin_ms, counts[filled[0] : filled[-1] + 1]


def _in_bins(fine: NDArray[np.int32]) -> NDArray[np.int32]:
    counts: NDArray[np.int32] = fine.reshape(-1, _FINE_IN_BIN).sum(axis=1).astype(np.int32)
    return counts
