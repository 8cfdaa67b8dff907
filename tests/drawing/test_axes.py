"""Axes: where values lie, and that the ticks are round and cover the data."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.drawing import axes

_VALUES = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=20)


def test_each_nine_of_the_percentile_axis_is_as_wide_as_the_one_before() -> None:
    axis = axes.percentile("percentile", 99.99)
    positions = [axis.position(p) for p in (0, 90, 99, 99.9, 99.99)]
    assert positions == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert [label for _, label in axis.ticks] == ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]


def test_percentile_ticks_end_where_the_samples_end() -> None:
    axis = axes.percentile("percentile", 99.5)
    assert [label for _, label in axis.ticks] == ["0 %", "50 %", "90 %", "99 %"]
    assert axis.position(99.5) == pytest.approx(1)


def test_linear_axis_starts_at_zero_and_ends_on_a_tick() -> None:
    axis = axes.linear("rate", "/s", [19_950.0, 20_100.0])
    assert [tick for tick, _ in axis.ticks] == [0, 5_000, 10_000, 15_000, 20_000, 25_000]
    assert axis.high == 25_000
    assert axis.position(12_500) == 0.5


def test_logarithmic_axis_has_equal_steps_for_equal_ratios() -> None:
    axis = axes.logarithmic("ms", "ms", [1.2, 80.0])
    assert (axis.low, axis.high) == (1, 100)
    assert axis.position(10) == pytest.approx(0.5)
    assert axis.position(0) == 0, "a value that a logarithm cannot show stays on the axis's end"


def test_logarithmic_axis_never_blows_noise_up_to_full_height() -> None:
    axis = axes.logarithmic("ms", "ms", [3.01, 3.05])
    assert axis.high / axis.low >= 9.99


@given(_VALUES)
def test_axes_cover_their_values(values: list[float]) -> None:
    for axis in (axes.linear("", "", values), axes.logarithmic("", "", values)):
        assert axis.low <= min(values) * 1.001
        assert axis.high >= max(values) * 0.998
        assert 2 <= len(axis.ticks) <= 11
        assert all(axis.low <= tick * 1.001 and tick <= axis.high * 1.001 for tick, _ in axis.ticks)
        labels = [label for _, label in axis.ticks]
        assert len(labels) == len(set(labels))
        assert all(0 <= axis.position(value) <= 1 for value in values)


@pytest.mark.parametrize("values", [[], [0.0], [math.inf]])
def test_axes_without_a_usable_value_still_have_two_ends(values: list[float]) -> None:
    for axis in (axes.linear("", "", values), axes.logarithmic("", "", values)):
        assert axis.high > axis.low


@pytest.mark.parametrize(("end_s", "step"), [(12, 2), (60, 10), (300, 60), (1800, 300), (86_400, 14_400)])
def test_time_ticks_are_steps_that_people_count_in(end_s: int, step: int) -> None:
    ticks = [tick for tick, _ in axes.seconds("seconds", 0, end_s).ticks]
    assert ticks[1] - ticks[0] == step


@given(_VALUES)
def test_an_axis_around_values_covers_them_and_has_few_ticks(values: list[float]) -> None:
    axis = axes.around("latency, ms", "ms", values)
    assert axis.low <= min(values) * 1.0001
    assert axis.high >= max(values) * 0.9999
    assert 2 <= len(axis.ticks) <= 8


def test_an_axis_around_one_value_is_not_flat() -> None:
    assert [label for _, label in axes.around("", "", [100.0, 101.0]).ticks] == ["95", "100", "105", "110"]
    assert axes.around("", "", [0.0]).high > 0


@pytest.mark.parametrize(
    ("last", "labels"), [(1, ["1"]), (3, ["1", "2", "3"]), (18, ["2", "4", "6", "8", "10", "12", "14", "16", "18"])]
)
def test_numbers_begin_at_one(last: int, labels: list[str]) -> None:
    assert [label for _, label in axes.numbered("run", last).ticks] == labels
