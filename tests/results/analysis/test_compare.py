"""Ratios, intervals and verdicts of two sets of trials, from figures whose answer is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from highwater.bench.display.comparison_text import header_lines
from highwater.common.atomic_files import write_atomically
from highwater.results.analysis.compare import Limits, Trials, judge, noise_of_both
from highwater.results.analysis_file import AaPair, Analysis, Noise
from highwater.results.environment_key import key_of
from highwater.results.files import dump
from highwater.results.gate import MetricComparison
from highwater.results.models import Scalar, TrialSummary
from highwater.results.reader import RunResult
from tests.bench.summaries import LATE, summary
from tests.reports.sample_run import Sample, write_sample
from tests.results.analysis.comparing import compare

RATE, P99, CPU = "produce.achieved_per_s", "produce.p99", "system.cpu_s_per_gib"


def trials(base: Sequence[float], head: Sequence[float], *, paired: bool = True) -> Trials:
    return Trials(
        "base",
        [summary(block, achieved_per_s=rate) for block, rate in enumerate(base, start=1)],
        [summary(block, achieved_per_s=rate) for block, rate in enumerate(head, start=1)],
        paired,
    )


def rates(middle: float, noise: float, n: int, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [middle * (1 + draw.uniform(-noise, noise)) for _ in range(n)]


def judged(found: Trials, floor: float = 0.05, noise: Sequence[float] = ()) -> MetricComparison:
    return judge(
        [found], [RATE], Limits(floors={RATE: floor}, noise={RATE: [AaPair("", ratio) for ratio in noise]}), seed=1
    )[0]


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(0.80, "worse"), (1.25, "better"), (1.0, "no_change"), (0.95, "undecided"), (1.05, "not_worse")],
)
def test_a_change_counts_when_its_interval_lies_beyond_the_floor(ratio: float, verdict: str, paired: bool) -> None:
    found = judged(trials(rates(20_000, 0.02, 10, 1), rates(20_000 * ratio, 0.02, 10, 2), paired=paired))
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(ratio, rel=0.03)
    assert found.ci95
    assert found.ci95[0] <= (found.ratio or 0) <= found.ci95[1]
    assert found.smallest_detectable_ratio
    assert 0.05 < found.smallest_detectable_ratio < 0.12


def test_not_worse_goes_by_which_way_is_better() -> None:
    cheaper = trials(rates(20_000, 0.02, 10, 1), rates(21_000, 0.02, 10, 2))
    floors, better = {RATE: 0.05}, {RATE: "lower"}
    (found,) = judge([cheaper], [RATE], Limits(floors=floors, better=better), seed=1)  # type: ignore[arg-type]
    assert found.verdict == "undecided"
    (ungated,) = judge([cheaper], [RATE], Limits(), seed=1)
    assert ungated.verdict in ("better", "no_change")


def test_noise_between_trials_of_the_same_thing_widens_what_does_not_count() -> None:
    base, head = rates(20_000, 0.01, 8, 1), rates(18_400, 0.01, 8, 2)
    assert judged(trials(base, head)).verdict == "worse"
    noisy = judged(trials(base, head), noise=[0.85, 1.2, 1.15, 0.9])
    assert noisy.noise_ratio
    assert noisy.delta_ratio == noisy.noise_ratio > 0.08
    assert noisy.verdict == "undecided", "what noise explains is neither a change nor the lack of one"


def test_each_further_gated_metric_asks_for_more_evidence() -> None:
    # Five pairs that all point one way come about by chance once in 32.
    found = trials([20_000.0] * 5, [10_000.0, 10_100.0, 9_900.0, 10_050.0, 9_950.0])
    assert judged(found).verdict == "worse"
    both = judge([found], [RATE, "consume.per_s"], Limits(floors={RATE: 0.05, "consume.per_s": 0.05}), seed=1)
    assert [comparison.p_value_holm for comparison in both] == pytest.approx([2 / 32, 2 / 32])
    assert {comparison.verdict for comparison in both} == {"undecided"}
    tracked = judge([found], [RATE, "consume.per_s"], Limits(floors={RATE: 0.05}), seed=1)
    assert [(comparison.gated, comparison.verdict) for comparison in tracked] == [(True, "worse"), (False, "worse")]


def test_which_way_is_better_comes_from_the_table_of_metrics() -> None:
    slow = [summary(block, p99_ns=8_000_000 + block, system_cpu_ratio=0.9) for block in range(1, 9)]
    fast = [summary(block, p99_ns=4_000_000 + block, system_cpu_ratio=0.5) for block in range(1, 9)]
    for name in (P99, CPU):
        assert judge([Trials("base", fast, slow, paired=True)], [name], Limits(), seed=1)[0].verdict == "worse"
        assert judge([Trials("base", slow, fast, paired=True)], [name], Limits(), seed=1)[0].verdict == "better"


def test_too_few_trials_decide_nothing() -> None:
    found = judged(trials([20_000.0] * 4, [10_000.0] * 4))
    assert (found.ci95, found.smallest_detectable_ratio, found.verdict) == (None, None, "undecided")


def test_nothing_on_both_sides_is_no_change_and_has_no_ratio() -> None:
    found = judge([trials([1.0] * 5, [1.0] * 5)], ["errors"], Limits(), seed=1)[0]
    assert (found.ratio, found.verdict) == (None, "no_change")


def sample(
    directory: Path, change: Callable[[TrialSummary], TrialSummary] = lambda item: item, trials: int = 6
) -> Path:
    return write_sample(directory, Sample(axes={}, trials=trials, measure_s=3, rate_per_s=200.0, change=change))


def test_two_directories_are_compared_unpaired_and_say_so(tmp_path: Path) -> None:
    base = RunResult(sample(tmp_path / "base"))
    head = RunResult(
        sample(tmp_path / "head", lambda item: item.model_copy(update={"achieved_per_s": item.achieved_per_s / 2}))
    )
    result = compare(base, head)
    rate = next(item for item in result.metrics if item.metric == RATE)
    assert (rate.paired, rate.verdict, rate.base.n_trials) == (False, "worse", 6)
    assert rate.ratio == pytest.approx(0.5, rel=0.01)
    assert any("not interleaved" in warning for warning in result.warnings)
    assert result.same_environment
    assert result.base.environment_key == result.head.environment_key


def at_rate(directory: Path, rate_per_s: float, axes: dict[str, list[Scalar]] | None = None) -> RunResult:
    return RunResult(write_sample(directory, Sample(axes=axes or {}, trials=6, measure_s=3, rate_per_s=rate_per_s)))


def test_two_loads_are_no_verdict_on_two_systems(tmp_path: Path) -> None:
    result = compare(at_rate(tmp_path / "base", 200.0), at_rate(tmp_path / "head", 400.0))
    verdicts = {item.metric: item.verdict for item in result.metrics if item.metric in (RATE, "consume.per_s")}
    assert verdicts == {RATE: "differs", "consume.per_s": "differs"}
    assert not result.same_load
    assert [(item.fact, item.base, item.head) for item in result.workload if item.decides] == [
        ("load.rate", "200/s", "400/s")
    ]
    assert "in doubt: the two had different loads (load.rate: 200/s → 400/s)" in result.answer


def test_trials_of_two_loads_have_no_verdict_on_throughput() -> None:
    slow = [summary(block, offered_per_s=20_000.0, achieved_per_s=20_000.0 + block) for block in range(1, 9)]
    fast = [summary(block, offered_per_s=40_000.0, achieved_per_s=40_000.0 + block) for block in range(1, 9)]
    assert judge([Trials("base", slow, fast, paired=True)], [RATE], Limits(), seed=1)[0].verdict == "differs"


def test_the_same_load_in_other_words_is_the_same(tmp_path: Path) -> None:
    base, head = at_rate(tmp_path / "base", 2000.0), at_rate(tmp_path / "head", 2000.0)
    head.manifest.workload["load"] = {"rate": "2k/s", "arrival": "uniform"}
    head.manifest.workload["topics"]["partitions"] = 8
    result = compare(base, head)
    assert result.same_load
    assert [item.fact for item in result.workload] == ["topics.partitions"]


def test_a_factor_is_part_of_the_load_of_its_cell(tmp_path: Path) -> None:
    base = at_rate(tmp_path / "base", 200.0, {"records.size": ["1KiB", "2KiB"]})
    head = at_rate(tmp_path / "head", 200.0, {"records.size": ["2KiB", "4KiB"]})
    assert not compare(base, head, "size=1KiB", "size=2KiB").same_load
    assert compare(base, head, "size=2KiB", "size=2KiB").same_load


def test_sides_of_unequal_size_are_not_called_equal(tmp_path: Path) -> None:
    base = RunResult(sample(tmp_path / "base", trials=4))
    assert header_lines(compare(base, RunResult(sample(tmp_path / "head", trials=5))))[-1].endswith(
        ", 4 and 5 trials, not interleaved"
    )
    assert header_lines(compare(base, RunResult(sample(tmp_path / "same", trials=4))))[-1].endswith(
        ", 4 trials of each, not interleaved"
    )


def with_noise(directory: Path, ratios: list[float], cells: list[str], trials: int = 1) -> RunResult:
    noise = [Noise(metric=P99, n_pairs=len(ratios), ratios=ratios, cells=cells, bound95_ratio=None, method="")]
    analysis = Analysis(complete=True, seed=1, cells=[], noise=noise, comparisons=[], warnings=[])
    write_atomically(sample(directory, trials=trials) / "analysis.json", dump(analysis))
    return RunResult(directory)


def test_the_noise_of_two_runs_is_that_of_both(tmp_path: Path) -> None:
    base = with_noise(tmp_path / "base", [0.9, 1.1], ["one", "two"])
    head = with_noise(tmp_path / "head", [1.0], [])  # as before the cells of pairs were kept
    assert noise_of_both(base, head) == {P99: [("one", 0.9), ("two", 1.1), ("", 1.0)]}
    assert noise_of_both(base, base) == {P99: [("one", 0.9), ("two", 1.1)]}


@pytest.mark.parametrize(("pairs", "lines"), [(1, 1), (2, 0)])
def test_noise_that_is_not_known_is_said_to_be(tmp_path: Path, pairs: int, lines: int) -> None:
    base, head = (with_noise(tmp_path / side, [0.9, 1.1][:pairs], ["only"] * pairs, trials=6) for side in "ab")
    assert sum("is not known" in warning for warning in compare(base, head).warnings) == lines


def test_cells_of_one_run_are_paired_by_block(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {"storage.target": ["ssd", "hdd"]}
    run = RunResult(write_sample(tmp_path / "run", Sample(axes=axes, trials=6, measure_s=3, rate_per_s=200.0)))
    result = compare(run, run, "target=ssd", "target=hdd")
    p99 = next(item for item in result.metrics if item.metric == P99)
    assert (p99.paired, p99.n_pairs, p99.cell) == (True, 6, "target=ssd → target=hdd")
    assert p99.verdict == "worse"
    assert not result.environment
    with pytest.raises(ValueError, match=r"has no cell 'target=tape'; it has target=ssd, target=hdd"):
        compare(run, run, "target=ssd", "target=tape")


def over_tls(item: TrialSummary) -> TrialSummary:
    connection = {"security.protocol": "SSL"}
    return item.model_copy(update={"system": item.system.model_copy(update={"connection": connection})})


def test_cells_that_were_reached_in_another_way_say_so(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {"storage.target": ["ssd", "hdd"]}

    def one_over_tls(item: TrialSummary) -> TrialSummary:
        return over_tls(item) if item.cell.endswith("hdd") else item

    asked = Sample(axes=axes, trials=2, measure_s=3, rate_per_s=200.0, change=one_over_tls)
    run = RunResult(write_sample(tmp_path / "run", asked))
    told = "target=ssd → target=hdd: clients came in by PLAINTEXT there and by SSL here, and TLS has its price"
    assert told in compare(run, run, "target=ssd", "target=hdd").warnings
    assert key_of(run).facts["connection.security.protocol"] == "PLAINTEXT, SSL"


def test_tls_is_another_environment_and_none_is_as_before(tmp_path: Path) -> None:
    plain = RunResult(sample(tmp_path / "plain", trials=2))
    secured = RunResult(sample(tmp_path / "secured", over_tls, trials=2))
    assert not [fact for fact in key_of(plain).facts if fact.startswith("connection")]
    found = [item for item in compare(plain, secured).environment if item.decides]
    assert [(item.fact, item.base, item.head) for item in found] == [("connection.security.protocol", None, "SSL")]


def test_invalid_trials_are_left_out_with_a_word(tmp_path: Path) -> None:
    def spoil(item: TrialSummary) -> TrialSummary:
        if item.trial != 2:
            return item
        return item.model_copy(
            update={
                "achieved_per_s": 1.0,
                "verdict": item.verdict.model_copy(update={"state": "invalid", "reasons": [LATE]}),
            }
        )

    run = RunResult(sample(tmp_path / "run", spoil))
    other = RunResult(sample(tmp_path / "other"))
    result = compare(run, other)
    rate = next(item for item in result.metrics if item.metric == RATE)
    assert (rate.base.n_trials, rate.head.n_trials) == (5, 6)
    assert f"{run.directory}: 1 of 6 trials are invalid: left out" in result.warnings


def test_another_kernel_is_another_environment(tmp_path: Path) -> None:
    base = RunResult(sample(tmp_path / "base", trials=2))
    head = RunResult(sample(tmp_path / "head", trials=2))
    head.environment.facts["kernel_release"] = "6.99"
    result = compare(base, head)
    assert not result.same_environment
    assert [(item.fact, item.head) for item in result.environment if item.decides] == [("kernel.release", "6.99")]


def test_directories_without_a_cell_in_common(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {"storage.target": ["ssd", "hdd"]}
    run = RunResult(write_sample(tmp_path / "run", Sample(axes=axes, trials=1, measure_s=3, rate_per_s=200.0)))
    other = RunResult(sample(tmp_path / "other", trials=1))
    with pytest.raises(ValueError, match=r"share no cell; name one of each with DIR:CELL"):
        compare(run, other)
