"""The slope of Theil and Sen: exact on lines, deaf to outliers, and honest about its interval."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from highwater.monitor.figures.trend import LEAST_POINTS, slope


def test_a_line_has_its_own_slope_and_no_interval() -> None:
    found = slope(range(0, 300, 15), [3.0 * time + 7 for time in range(0, 300, 15)])
    assert found is not None
    assert (found.low, found.median, found.high) == (3, 3, 3)


def test_one_outlier_changes_nothing() -> None:
    values = [2.0 * time for time in range(12)]
    values[5] = 10_000
    found = slope(range(12), values)
    assert found is not None
    assert found.median == 2


def test_a_zigzag_is_no_trend() -> None:
    found = slope(range(12), [10, 20] * 6)
    assert found is not None
    assert found.low <= 0 <= found.high


def test_few_points_say_nothing() -> None:
    assert slope(range(LEAST_POINTS - 1), range(LEAST_POINTS - 1)) is None
    assert slope([0] * 20, range(20)) is None


@given(st.lists(st.integers(-1000, 1000), min_size=5, max_size=60))
def test_the_median_lies_within_its_interval(values: list[int]) -> None:
    found = slope(range(len(values)), values)
    assert found is not None
    assert found.low <= found.median <= found.high


@given(st.lists(st.integers(-1000, 1000), min_size=5, max_size=60))
def test_the_mirror_image_has_the_opposite_slope(values: list[int]) -> None:
    up, down = slope(range(len(values)), values), slope(range(len(values)), [-value for value in values])
    assert up is not None
    assert down is not None
    assert (up.low, up.median, up.high) == (-down.high, -down.median, -down.low)
