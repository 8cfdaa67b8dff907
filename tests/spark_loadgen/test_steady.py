from __future__ import annotations

import math
import random

import pytest

from highwater.spark_loadgen.steady import Finding, fit, judge_window

LATENCY = [[1e6] * 20, [2e6] * 20]


def noisy(mean: float, scatter: float, seed: int = 1, count: int = 20) -> list[float]:
    draw = random.Random(seed)
    return [mean * (1 + scatter * draw.gauss(0, 1)) for _ in range(count)]


def ramp(start: float, end: float, count: int = 20) -> list[float]:
    return [start + (end - start) * second / (count - 1) for second in range(count)]


def judge(rate: list[float], latencies: list[list[float]] | None = None, change_max: float = 0.005) -> Finding:
    median, tail = latencies or LATENCY
    return judge_window([rate], median, tail, change_max)


def test_the_line_through_a_ramp_is_the_ramp() -> None:
    line = fit(ramp(90, 110))
    assert line is not None
    assert line.change_ratio == pytest.approx(0.2)
    assert line.change_error_ratio == pytest.approx(0, abs=1e-12)


def test_there_is_no_line_through_next_to_nothing() -> None:
    assert fit([1.0, 1.0]) is None
    assert fit([0.0] * 5) is None


def test_a_constant_rate_is_steady() -> None:
    finding = judge([50_000.0] * 20)
    assert finding.steady
    assert finding.change_ratio == pytest.approx(0)
    assert finding.scatter_ratio == 0


@pytest.mark.parametrize("end", [101.0, 99.0])
def test_a_rate_that_still_rises_or_falls_is_not(end: float) -> None:
    finding = judge(ramp(100, end))
    assert not finding.steady
    assert "over the window (limit 0.5 %)" in finding.because


def test_the_limit_of_the_slope_decides() -> None:
    assert judge(ramp(100, 101), change_max=0.02).steady


def test_a_rate_that_swings_around_its_mean_is_not_steady() -> None:
    finding = judge([80.0, 120.0, 120.0, 80.0] * 5)
    assert abs(finding.change_ratio) < 0.005
    assert "scatters by 20" in finding.because


def test_a_stall_in_the_window_is_not_steady() -> None:
    assert not judge([50_000.0] * 10 + [0.0] + [50_000.0] * 9).steady


def test_silence_is_not_steady() -> None:
    finding = judge([0.0] * 20)
    assert not finding.steady
    assert math.isinf(finding.change_ratio)


def test_consumers_that_do_not_keep_up_are_not_steady() -> None:
    falling = ramp(100, 80)
    finding = judge_window([[100.0] * 20, falling], LATENCY[0], LATENCY[1], 0.005)
    assert not finding.steady
    assert finding.change_ratio == pytest.approx(-0.2 / 0.9)


def test_a_latency_that_clearly_grows_is_not_steady() -> None:
    growing = [value + noise for value, noise in zip(ramp(1e6, 2e6), noisy(0.0, 0.0), strict=True)]
    finding = judge([100.0] * 20, [growing, [2e6] * 20])
    assert not finding.steady
    assert "latency percentile changes by +66.7 %" in finding.because


def test_a_latency_that_only_scatters_is_steady() -> None:
    steady = [judge([100.0] * 20, [noisy(1e6, 0.1, seed), noisy(5e6, 0.6, seed + 500)]).steady for seed in range(200)]
    # Two fits, each within two standard errors in about 95 of 100 cases.
    assert sum(steady) > 160


def test_scatter_explains_no_large_change_of_a_median() -> None:
    # The line's standard error is about 30 % of the mean.
    falling = [value * (1.6 if second % 2 else 0.4) for second, value in enumerate(ramp(1.4e6, 0.8e6))]
    assert not judge([100.0] * 20, [falling, [2e6] * 20]).steady
    assert judge([100.0] * 20, [[1e6] * 20, falling]).steady


def test_a_second_without_latency_is_not_steady() -> None:
    assert not judge_window([[100.0] * 20], [1e6] * 19 + [None], [2e6] * 20, 0.005).steady
