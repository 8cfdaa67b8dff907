"""Fewer points, the same picture: extremes stay, gaps stay, no more points than asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from highwater.drawing.downsample import Point, downsampled
from highwater.drawing.plot import path_data
from tests.drawing.test_plot import drawn_points


def test_a_spike_of_one_second_in_half_an_hour_is_drawn() -> None:
    points = [Point(i * 300 / 1800, 50.0) for i in range(1800)]
    points[777] = Point(points[777].x, 3.0)
    points[1203] = Point(points[1203].x, 97.0)
    kept = downsampled(points, 100)
    assert points[777] in kept
    assert points[1203] in kept
    assert len(kept) <= 102


@given(st.lists(st.floats(0, 200), min_size=1, max_size=500), st.integers(4, 80))
def test_lowest_and_highest_first_and_last_always_stay(values: list[float], most: int) -> None:
    points = [Point(i / 7, value) for i, value in enumerate(values)]
    kept = downsampled(points, most)
    heights = [p.y for p in kept if p.y is not None]
    assert (min(heights), max(heights)) == (min(values), max(values))
    assert set(kept) <= set(points)
    assert [p.x for p in kept] == sorted(p.x for p in kept)
    assert len(kept) <= max(most + 2, 4)


def test_few_points_are_left_alone() -> None:
    points = [Point(float(i), None if i == 3 else float(i)) for i in range(10)]
    assert downsampled(points, 10) == points


def test_the_point_that_bends_the_line_is_the_one_that_stays() -> None:
    points = [Point(float(x), 0.0 if x < 50 else float(x - 50)) for x in range(101)]
    assert any(abs(p.x - 50) < 5 for p in downsampled(points, 6))


def test_a_gap_stays_a_gap() -> None:
    points = [Point(float(i), None if 40 <= i < 60 else 10.0) for i in range(100)]
    path = path_data(downsampled(points, 50))
    assert path.count("M") == 2
    assert not [x for x, _ in drawn_points(path) if 40 <= x < 60]
