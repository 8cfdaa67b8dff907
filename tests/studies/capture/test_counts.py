"""Arrivals by time: fine bins of a short capture, coarse ones of a long one, the same sums in any order."""

from __future__ import annotations

import numpy as np
import pytest

from highwater.studies.capture.counts import BIN_MS, FINE_BIN_MS, FINE_SECONDS_MAX, Arrivals, Int64s

START_MS = 1_790_000_000_000


def every(step_ms: int, seconds: int, from_s: int = 0) -> Int64s:
    return np.arange(START_MS + from_s * 1000, START_MS + (from_s + seconds) * 1000, step_ms)


def arrivals_of(*times: Int64s) -> Arrivals:
    found = Arrivals()
    for each in times:
        found.add(each)
    return found


def test_a_short_capture_keeps_each_millisecond() -> None:
    found = arrivals_of(every(7, FINE_SECONDS_MAX), every(500, FINE_SECONDS_MAX))
    starts_ms, counts = found.series()
    assert (found.bin_ms, starts_ms, counts[:8].tolist()) == (FINE_BIN_MS, START_MS, [2, 0, 0, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("pieces", [1, 3, 40])
def test_a_longer_one_has_coarse_bins_whatever_came_first(pieces: int) -> None:
    times = every(7, FINE_SECONDS_MAX + 10)
    found = arrivals_of(*np.array_split(times, pieces))
    merged = Arrivals()
    for piece in np.array_split(times, pieces):
        merged.merge(arrivals_of(piece))
    starts_ms, counts = np.unique(times // BIN_MS * BIN_MS, return_counts=True)
    for each in (found, merged):
        assert each.bin_ms == BIN_MS
        first_ms, series = each.series()
        assert (first_ms, series.sum()) == (START_MS, len(times))
        assert series[(starts_ms - first_ms) // BIN_MS].tolist() == counts.tolist()


def test_fine_and_coarse_captures_are_merged() -> None:
    fine, coarse = arrivals_of(every(100, 2)), arrivals_of(every(100, FINE_SECONDS_MAX + 1))
    fine.merge(coarse)
    coarse.merge(arrivals_of(every(100, 2)))
    assert fine.bin_ms == coarse.bin_ms == BIN_MS
    assert fine.series()[1].tolist() == coarse.series()[1].tolist()
    assert fine.series()[1][:11].tolist() == [2, *[0] * 9, 2]


def test_a_few_records_far_apart_have_coarse_bins() -> None:
    found = arrivals_of(every(100, 1), every(100, 1, from_s=2 * FINE_SECONDS_MAX))
    _, counts = found.series()
    assert (found.bin_ms, counts.sum()) == (BIN_MS, 20)
