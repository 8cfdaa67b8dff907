"""Held against the hdrhistogram package, which nobody here wrote."""

from __future__ import annotations

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.results.histogram import (
    COUNTS_LENGTH,
    HIGHEST_VALUE_NS,
    Histogram,
    HistogramSeries,
    bucket_indices,
    lowest_values_ns,
    merge_series,
)

values_ns = st.integers(0, HIGHEST_VALUE_NS)


def hdr(values: list[int]) -> HdrHistogram:
    histogram = HdrHistogram(1, HIGHEST_VALUE_NS, 3)
    for value in values:
        assert histogram.record_value(value)
    return histogram


@given(st.lists(values_ns, min_size=1))
def test_bucket_indices_are_hdrhistograms(values: list[int]) -> None:
    reference = hdr([])
    indices = bucket_indices(np.array(values, dtype=np.int64))
    assert indices.tolist() == [reference._counts_index_for(value) for value in values]
    assert lowest_values_ns(indices).tolist() == [reference.get_lowest_equivalent_value(value) for value in values]


def test_bucket_indices_at_the_edges_of_every_bucket() -> None:
    reference = hdr([])
    edges = sorted({v for bits in range(42) for v in ((1 << bits) - 1, 1 << bits, (1 << bits) + 1)} | {0})
    edges = [value for value in edges if value <= HIGHEST_VALUE_NS]
    expected = [reference._counts_index_for(value) for value in edges]
    assert bucket_indices(np.array(edges, dtype=np.int64)).tolist() == expected
    assert reference.counts_len == COUNTS_LENGTH


@settings(max_examples=15)
@given(st.lists(values_ns, min_size=1), st.floats(0, 100))
def test_percentiles_are_hdrhistograms(values: list[int], percentile: float) -> None:
    ours, reference = Histogram.of_values(values), hdr(values)
    assert ours.percentile(percentile) == reference.get_value_at_percentile(percentile)
    assert ours.mean == pytest.approx(reference.get_mean_value())
    assert ours.count == reference.get_total_count()


@given(st.lists(values_ns), st.lists(values_ns))
def test_merging_equals_recording_together(first: list[int], second: list[int]) -> None:
    merged = Histogram.merged([Histogram.of_values(first), Histogram.of_values(second)])
    together = Histogram.of_values(first + second)
    assert list(merged.items()) == list(together.items())


@given(st.lists(values_ns))
def test_encoding_loses_nothing(values: list[int]) -> None:
    histogram = Histogram.of_values(values)
    decoded = Histogram.decode(histogram.encode())
    assert list(decoded.items()) == list(histogram.items())


def test_values_outside_the_range_count_as_the_nearest_end() -> None:
    histogram = Histogram.of_values([-5, HIGHEST_VALUE_NS * 3])
    assert histogram.count == 2
    assert histogram.percentile(0) == 0
    assert histogram.max >= HIGHEST_VALUE_NS


@given(st.lists(st.tuples(values_ns, st.integers(0, 12)), min_size=1), st.integers(1, 7))
def test_a_series_files_every_value_under_its_second(samples: list[tuple[int, int]], batch: int) -> None:
    series = HistogramSeries()
    for start in range(0, len(samples), batch):
        values, seconds = zip(*samples[start : start + batch], strict=True)
        series.record(np.array(values, dtype=np.int64), np.array(seconds, dtype=np.int64))
    by_second = merge_series([series.encode()])
    assert sorted(by_second) == sorted({second for _, second in samples})
    for second, histogram in by_second.items():
        expected = Histogram.of_values(value for value, s in samples if s == second)
        assert list(histogram.items()) == list(expected.items())


def test_nothing_recorded_is_an_empty_histogram() -> None:
    empty = Histogram.merged([])
    assert (empty.count, empty.percentile(99), empty.max, empty.mean) == (0, 0, 0, 0.0)
