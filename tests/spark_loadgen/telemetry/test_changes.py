from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from highwater.results.histogram import Histogram, HistogramSeries, merge_series
from highwater.spark_loadgen.telemetry.changes import Changed, Changes
from highwater.spark_loadgen.windows import SECOND_NS, SecondMeter, Windows

# What happens in a second: records due in a second, each with its latency; and how late it is until it is told.
happenings = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1 << 40)), max_size=6), st.booleans()), max_size=12
)


@given(happenings)
def test_all_changes_together_are_what_was_recorded(seconds: list[tuple[list[tuple[int, int]], bool]]) -> None:
    """With any number of seconds skipped, and records that come after their second was sealed."""
    windows, series, meter = Windows(), HistogramSeries(), SecondMeter()
    changes = Changes(windows, {"e2e_response": series}, meter)
    taken: list[Changed] = []
    for second, (records, asked) in enumerate(seconds):
        for due, latency_ns in records:
            series.record(np.array([latency_ns]), np.array([due]))
            windows.add("received", second, 1)
        meter.advance((second + 1) * SECOND_NS)
        if asked:
            taken += changes.take().parts()
    taken += changes.take(last=True).parts()

    told: defaultdict[int, list[Histogram]] = defaultdict(list)
    received: Counter[int] = Counter()
    cpu: list[float] = []
    for changed in taken:
        for (_, second), histogram in changed.histograms.items():
            assert (histogram.counts > 0).all()
            told[second].append(histogram)
        for position, count in enumerate(changed.counts.get("received", [])):
            received[changed.first + position] += count
        cpu += changed.cpu_ratio
    expected = merge_series([series.encode()])
    assert {s: list(Histogram.merged(items).items()) for s, items in told.items()} == {
        s: list(item.items()) for s, item in expected.items()
    }
    assert [received[second] for second in range(windows.seconds)] == windows.received
    assert cpu == meter.cpu_ratio
    assert [changed.last for changed in taken] == [False] * (len(taken) - 1) + [True]


def test_what_is_told_after_a_long_silence_fits_into_messages() -> None:
    windows, series = Windows(), HistogramSeries()
    meter = SecondMeter()
    changes = Changes(windows, {"e2e_response": series}, meter)
    for second in range(100):
        series.record(np.array([1000]), np.array([second]))
        windows.add("received", second, 1)
    meter.advance(100 * SECOND_NS)
    parts = list(changes.take().parts())
    assert [len(part.histograms) for part in parts] == [32, 32, 32, 4]
    assert [len(part.counts) for part in parts] == [1, 0, 0, 0]
    assert {part.second for part in parts} == {99}


def test_memory_is_not_taken_twice_for_a_second_that_is_over() -> None:
    series = HistogramSeries()
    series.follow()
    for second in range(20):
        series.record(np.array([second + 5]), np.array([second]))
        series.changes()
    series.encode()
    assert series._told is not None
    assert all(series._told[second] is series._sealed[second] for second in range(20))
