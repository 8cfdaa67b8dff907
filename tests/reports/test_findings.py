"""Findings: the ratio is the paired one, and the words claim no more than the trials bear out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from highwater.bench.results import RunResult, Scalar, TrialSummary
from highwater.reports.cells import Run
from highwater.reports.findings import Finding, caution, findings
from highwater.reports.measures import PRODUCE_P99
from tests.reports.sample_run import Sample, saturated, write_sample

ACKS: dict[str, list[Scalar]] = {"producers.client.acks": ["all", "1"]}


def run_of(directory: Path, sample: Sample) -> Run:
    return Run.of(RunResult(write_sample(directory / "run", sample)))


def with_p99(p99_ms: Callable[[TrialSummary], float]) -> Callable[[TrialSummary], TrialSummary]:
    def change(summary: TrialSummary) -> TrialSummary:
        latency = summary.produce.response_ns.model_copy(update={"p99": round(p99_ms(summary) * 1e6)})
        return summary.model_copy(update={"produce": summary.produce.model_copy(update={"response_ns": latency})})

    return change


def finding(run: Run, subject: str) -> Finding:
    (found,) = [f for group in findings(run) for f in group.findings if f.subject == subject]
    return found


def p99_finding(tmp_path: Path, p99_ms: Callable[[TrialSummary], float], trials: int = 3) -> Finding:
    run = run_of(tmp_path, Sample(axes=ACKS, trials=trials, measure_s=1, change=with_p99(p99_ms)))
    return finding(run, "Produce latency p99")


def test_a_difference_in_every_block_is_given_as_the_median_of_paired_ratios(tmp_path: Path) -> None:
    by_block = {1: (10.0, 5.0), 2: (20.0, 11.0), 3: (30.0, 18.0)}
    found = p99_finding(tmp_path, lambda s: by_block[s.block]["acks=1" in s.cell])
    assert found.shown is True
    assert "lowest in “acks 1” with 11 ms" in found.text
    assert "the baseline is “acks all” with 20 ms" in found.text
    assert "0.55× (0.5–0.6× over 3 blocks), lower in every block" in found.text
    assert "two ranges overlap" in found.text, "11 to 18 ms lies within 10 to 30 ms"


def test_ranges_that_lie_apart_need_no_reservation(tmp_path: Path) -> None:
    found = p99_finding(tmp_path, lambda s: 4.0 + s.block / 10 if "acks=1" in s.cell else 9.0 + s.block / 10)
    assert found.shown is True
    assert found.text.endswith("lower in every block.")


def test_ratios_on_both_sides_of_one_show_no_difference(tmp_path: Path) -> None:
    by_block = {1: (10.0, 9.0), 2: (10.0, 11.0), 3: (10.0, 9.5)}
    found = p99_finding(tmp_path, lambda s: by_block[s.block]["acks=1" in s.cell])
    assert found.shown is False
    assert "0.95× (0.9–1.1× over 3 blocks)" in found.text
    assert found.text.endswith("The ranges overlap: no difference shown by 3 trials of each.")


def test_one_trial_of_each_shows_nothing_however_far_apart(tmp_path: Path) -> None:
    found = p99_finding(tmp_path, lambda s: 1.0 if "acks=1" in s.cell else 50.0, trials=1)
    assert found.shown is False
    assert "no difference shown" in found.text


def test_baseline_that_is_best_is_set_against_the_next(tmp_path: Path) -> None:
    found = p99_finding(tmp_path, lambda s: 8.0 if "acks=1" in s.cell else 4.0)
    assert found.text.startswith("best in the baseline, “acks all” with 4 ms; next is “acks 1” with 8 ms: 2×")
    assert "higher in every block" in found.text


def test_throughput_below_saturation_is_not_called_a_difference(tmp_path: Path) -> None:
    run = run_of(tmp_path, Sample(axes=ACKS, measure_s=1))
    found = finding(run, "Throughput")
    assert found.shown is None
    assert "every cell kept up with the 20,000 records/s offered" in found.text


def test_throughput_is_compared_where_a_cell_fell_behind(tmp_path: Path) -> None:
    def slow_all(summary: TrialSummary) -> TrialSummary:
        return summary if "acks=1" in summary.cell else summary.model_copy(update={"achieved_per_s": 10_000.0})

    found = finding(run_of(tmp_path, Sample(axes=ACKS, measure_s=1, change=slow_all)), "Throughput")
    assert found.shown is True
    assert "highest in “acks 1”" in found.text
    assert "higher in every block" in found.text


def test_invalid_trials_take_no_part_in_ratios(tmp_path: Path) -> None:
    def change(summary: TrialSummary) -> TrialSummary:
        summary = with_p99(lambda s: (5.0 if "acks=1" in s.cell else 10.0) if s.block != 2 else 1000.0)(summary)
        return saturated(summary) if summary.block == 2 and "acks=1" in summary.cell else summary

    found = finding(run_of(tmp_path, Sample(axes=ACKS, measure_s=1, change=change)), "Produce latency p99")
    assert "0.5× (0.5–0.5× over 2 blocks)" in found.text


def test_no_valid_trial_no_finding(tmp_path: Path) -> None:
    run = run_of(tmp_path, Sample(axes=ACKS, measure_s=1, change=saturated))
    assert findings(run) == []
    assert caution(run) == ""


def test_one_cell_is_described_and_compared_with_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path, Sample(axes={}, trials=2, measure_s=1))
    ((only,),) = [group.findings for group in findings(run)]
    assert "nothing to compare it with" in only.text
    assert "Produce latency p99" in only.text
    assert caution(run) == ""


def test_offered_loads_are_never_compared_with_each_other(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {"load.rate": [10_000, 20_000, 50_000], **ACKS}

    def change(summary: TrialSummary) -> TrialSummary:
        return saturated(summary) if summary.offered_per_s == 50_000 else summary

    run = run_of(tmp_path, Sample(axes=axes, measure_s=1, change=change))
    assert run.load_axes == ["load.rate"]
    highest, compared = findings(run)
    assert [f.subject for f in highest.findings] == ["acks all", "acks 1"]
    assert (
        "20,000 records/s is the highest offered load with a usable trial (1 higher load had none)"
        in highest.findings[0].text
    )
    assert compared.heading == "At rate 20,000"
    assert all("50,000" not in f.text and "10,000" not in f.text for f in compared.findings)


def test_caution_names_what_chance_alone_would_do(tmp_path: Path) -> None:
    run = run_of(tmp_path, Sample(measure_s=1))
    assert "3 blocks agree by chance 1 time in 4, and more often here, where the best of 4 cells" in caution(run)


def test_findings_call_nothing_a_difference_that_the_analysis_does_not(tmp_path: Path) -> None:
    """Two blocks agree by chance every other time; the range of their ratios alone would look like a difference."""
    sample = Sample(axes=ACKS, trials=2, measure_s=1, analysed=True, change=with_p99(lambda s: 9.0 + (s.trial % 2)))
    run = run_of(tmp_path / "two", sample)
    found = finding(run, "Produce latency p50")
    assert found.shown is False
    assert "undecided: too few blocks to tell" in found.text
    run = run_of(tmp_path / "six", Sample(axes=ACKS, trials=6, measure_s=1, analysed=True))
    judged = run.comparison(run.cells[0], run.cells[1], PRODUCE_P99)
    assert judged
    assert finding(run, "Produce latency p99").shown is (judged.verdict in ("better", "worse"))
    assert f"over {judged.n_pairs} blocks, 95 % interval" in finding(run, "Produce latency p99").text
