from __future__ import annotations

import random

import pytest

from highwater.results.analysis.conclusions import analyse, halfwidth_ratio
from highwater.results.analysis_file import Analysis, Comparison, MetricEstimate
from highwater.results.models import AtOnce, Scalar, TrialSummary
from tests.bench.summaries import LATE, summary

ONE, TWO, THREE = ({"codec": codec} for codec in ("none", "lz4", "zstd"))
FACTORS: dict[str, dict[str, Scalar]] = {"codec=none": dict(ONE), "codec=lz4": dict(TWO)}


def analysis_of(summaries: list[TrialSummary], factors: dict[str, dict[str, Scalar]] | None = None) -> Analysis:
    return analyse(factors or FACTORS, summaries, seed=1, complete=True)


def metric_of(analysis: Analysis, cell: int, metric: str) -> MetricEstimate:
    return next(item for item in analysis.cells[cell].metrics if item.metric == metric)


def comparison_of(analysis: Analysis, metric: str, head: str = "codec=lz4") -> Comparison:
    return next(item for item in analysis.comparisons if (item.metric, item.head) == (metric, head))


def two_cells(n: int, ratio: float, noise_ratio: float = 0.01, seed: int = 1) -> list[TrialSummary]:
    """`n` blocks whose weather differs widely, in which the second cell's p99 is `ratio` times the first's."""
    draw = random.Random(seed)
    trials = []
    for block in range(1, n + 1):
        weather = draw.uniform(1, 3)
        for factors, factor in ((ONE, 1.0), (TWO, ratio)):
            p99_ns = 4_000_000 * weather * factor * draw.uniform(1 - noise_ratio, 1 + noise_ratio)
            trials.append(summary(block, dict(factors), p99_ns=round(p99_ns)))
        twin = summary(block, dict(ONE), role="a_a", p99_ns=round(4_000_000 * weather * draw.uniform(0.99, 1.01)))
        trials.append(twin)
    return trials


def test_a_cells_figure_is_the_median_of_its_trials() -> None:
    analysis = analysis_of([summary(block, dict(ONE), p99_ns=p99) for block, p99 in enumerate([5, 1, 4, 2, 9], 1)])
    found = metric_of(analysis, 0, "produce.p99")
    assert (found.value, found.unit, found.better, found.n_trials) == (4.0, "ns", "lower", 5)
    assert found.ci95 == (1.0, 9.0)
    assert found.values == [5.0, 1.0, 4.0, 2.0, 9.0]
    assert found.unstable
    assert not metric_of(analysis, 0, "produce.achieved_per_s").unstable
    assert analysis.cells[1].metrics == []


def test_too_few_trials_give_no_interval_and_say_so() -> None:
    analysis = analysis_of([summary(block, dict(ONE)) for block in (1, 2, 3)])
    assert metric_of(analysis, 0, "produce.p99").ci95 is None
    assert any("only 3 of the 5 trials" in warning for warning in analysis.warnings)


def test_invalid_trials_count_for_nothing_and_twins_for_the_noise_alone() -> None:
    trials = [summary(block, dict(ONE), p99_ns=1000) for block in (1, 2, 3)]
    trials.append(summary(4, dict(ONE), p99_ns=9000, reason=LATE))
    trials += [summary(block, dict(ONE), p99_ns=1100, role="a_a") for block in (1, 2, 3)]
    analysis = analysis_of(trials)
    cell = analysis.cells[0]
    assert (cell.n_trials, cell.n_valid, cell.n_used) == (4, 3, 3)
    assert metric_of(analysis, 0, "produce.p99").values == [1000.0] * 3
    noise = next(item for item in analysis.noise if item.metric == "produce.p99")
    assert noise.ratios == pytest.approx([1.1] * 3)
    assert noise.bound95_ratio == pytest.approx(1.1**3.182 - 1, rel=1e-3)
    assert "codec=none: 1 of 4 trials are invalid and left out" in analysis.warnings


def test_a_cell_without_a_believable_trial_is_named_and_has_no_figures() -> None:
    analysis = analysis_of([summary(1, dict(ONE), reason=LATE)])
    assert analysis.cells[0].metrics == []
    assert any("no trial is a valid measurement" in warning for warning in analysis.warnings)


def test_pairing_by_block_finds_what_the_weather_hides() -> None:
    analysis = analysis_of(two_cells(8, 1.2))
    found = comparison_of(analysis, "produce.p99")
    assert found.ratio == pytest.approx(1.2, rel=0.02)
    assert found.verdict == "worse"
    assert comparison_of(analysis, "produce.achieved_per_s").verdict == "no_change"
    assert metric_of(analysis, 0, "produce.p99").unstable


def test_throughput_of_two_loads_is_no_verdict() -> None:
    trials = [
        summary(block, dict(factors), offered_per_s=rate, achieved_per_s=rate + block)
        for block in range(1, 9)
        for factors, rate in ((ONE, 20_000.0), (TWO, 40_000.0))
    ]
    found = comparison_of(analysis_of(trials), "produce.achieved_per_s")
    assert (found.verdict, found.better) == ("differs", "none")


def test_blocks_of_trials_at_once_may_differ_as_they_like() -> None:
    trials = two_cells(8, 1.2)
    assert any("unstable from trial to trial" in warning for warning in analysis_of(trials).warnings)
    at_once = AtOnce(processor=1, trials=["other"])
    shared = analysis_of([trial.model_copy(update={"at_once": at_once}) for trial in trials])
    assert not any("unstable" in warning for warning in shared.warnings)
    assert comparison_of(shared, "produce.p99").verdict == "worse"


def test_no_change_comes_with_the_change_that_would_have_been_found() -> None:
    found = comparison_of(analysis_of(two_cells(8, 1.0)), "produce.p99")
    assert found.verdict == "no_change"
    assert found.smallest_detectable_ratio is not None
    assert found.delta_ratio < found.smallest_detectable_ratio < 0.2


def test_a_change_within_the_noise_of_the_same_thing_is_none() -> None:
    trials = [s for s in two_cells(8, 1.05, 0.001) if s.role == "measure"]
    draw = random.Random(4)
    for block in range(1, 9):
        base = next(s for s in trials if s.block == block)
        p99_ns = round(base.produce.response_ns.p99 * draw.choice((0.9, 1.1)))
        trials.append(summary(block, dict(ONE), role="a_a", p99_ns=p99_ns))
    assert comparison_of(analysis_of(trials), "produce.p99").verdict == "no_change"


def test_what_counts_is_told_by_the_noise_of_the_two_cells() -> None:
    factors: dict[str, dict[str, Scalar]] = {**FACTORS, "codec=zstd": {"codec": "zstd"}}
    trials, draw = two_cells(8, 1.2), random.Random(5)
    for block in range(1, 9):
        for role in ("measure", "a_a"):
            noisy_ns = round(4_000_000 * draw.uniform(0.5, 2))
            trials.append(summary(block, {"codec": "zstd"}, role=role, p99_ns=noisy_ns))
    analysis = analysis_of(trials, factors)
    quiet = comparison_of(analysis, "produce.p99")
    assert quiet.verdict == "worse"
    assert quiet.delta_ratio < 0.02 < comparison_of(analysis, "produce.p99", "codec=zstd").delta_ratio
    noise = next(item for item in analysis.noise if item.metric == "produce.p99")
    assert (set(noise.cells), len(noise.cells)) == ({"codec=none", "codec=zstd"}, 16)


def test_few_blocks_decide_nothing() -> None:
    assert comparison_of(analysis_of(two_cells(4, 2.0)), "produce.p99").verdict == "undecided"
    assert comparison_of(analysis_of(two_cells(6, 2.0)), "produce.p99").verdict == "worse"


def test_without_known_noise_either_direction_could_be_chance() -> None:
    # Five blocks that agree on a direction that nobody named come about once in 16.
    measured = {n: [item for item in two_cells(n, 2.0) if item.role == "measure"] for n in (5, 6)}
    five = comparison_of(analysis_of(measured[5]), "produce.p99")
    assert five.p_value == pytest.approx(2 / 32)
    assert five.verdict == "undecided"
    assert comparison_of(analysis_of(measured[6]), "produce.p99").verdict == "worse"
    assert comparison_of(analysis_of(two_cells(5, 2.0)), "produce.p99").verdict == "worse"


def test_several_comparisons_ask_for_more_than_one_does() -> None:
    factors: dict[str, dict[str, Scalar]] = {
        **FACTORS,
        **{f"codec=zstd{level}": {"codec": f"zstd{level}"} for level in range(4)},
    }
    trials = two_cells(5, 2.0)
    for level in range(4):
        trials += [summary(block, {"codec": f"zstd{level}"}, p99_ns=8_000_000) for block in range(1, 6)]
    found = comparison_of(analysis_of(trials, factors), "produce.p99")
    assert found.p_value == pytest.approx(1 / 32)
    assert found.p_value_holm is not None
    assert found.p_value_holm > 0.05
    assert found.verdict == "undecided"


def test_the_trials_of_a_single_cell_tell_the_noise() -> None:
    trials = [summary(block, dict(ONE), p99_ns=1000 + 10 * block) for block in range(1, 8)]
    analysis = analysis_of(trials, {"codec=none": dict(ONE)})
    noise = next(item for item in analysis.noise if item.metric == "produce.p99")
    assert noise.n_pairs == 3
    assert noise.ratios[0] == pytest.approx(1020 / 1010)
    assert analysis.comparisons == []


def test_the_half_width_that_stops_a_cell() -> None:
    trials = [summary(block, dict(ONE), p99_ns=1000 + 10 * block) for block in range(5)]
    assert halfwidth_ratio(trials, "produce.p99", seed=1) == pytest.approx(20 / 1020)
    assert halfwidth_ratio(trials[:4], "produce.p99", seed=1) is None
    assert halfwidth_ratio([summary(1, reason=LATE)] * 9, "produce.p99", seed=1) is None
