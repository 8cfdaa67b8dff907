"""Histograms read back: our quick percentile spectrum is the library's slow one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.results.histogram_log import empty_histogram, percentile_spectrum


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**5)), min_size=1, max_size=40),
    st.integers(1, 10),
)
def test_the_spectrum_is_that_of_hdrhistogram(values: list[tuple[int, int]], ticks: int) -> None:
    histogram = empty_histogram()
    for value, count in values:
        histogram.record_value(value, count)
    wanted = [
        (item.percentile_level_iterated_to, item.value_iterated_to, item.total_count_to_this_value)
        for item in histogram.get_percentile_iterator(ticks)
    ]
    assert list(percentile_spectrum(histogram, ticks)) == wanted


def test_nothing_recorded_is_no_spectrum() -> None:
    assert list(percentile_spectrum(empty_histogram(), 5)) == []
