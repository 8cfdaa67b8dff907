"""The table of aims: what is reached, and what the evidence leaves open."""

from __future__ import annotations

from pathlib import Path

from highwater.reports.aims import aim_rows
from highwater.reports.cells import Run
from tests.bench.summaries import summary
from tests.results.analysis.runs import run_of

STEADY_MS = (2.0,) * 6
SCATTERED_MS = (1.0, 1.0, 1.0, 1.0, 3.9, 3.9)
BESIDE_MS = 4.0


def aimed_run(directory: Path, times_ms: tuple[float, ...]) -> Run:
    trials = [
        summary(block, {"variant": variant}, p99_ns=round(p99_ms * 1_000_000) + block)
        for block, ours_ms in enumerate(times_ms, 1)
        for variant, p99_ms in (("ours", ours_ms), ("theirs", BESIDE_MS))
    ]
    aims = [{"of": "ours", "beside": ["theirs"], "ratio": {"produce.p99": "<=0.7"}}]
    return Run.of(run_of(directory, trials, aims=aims))


def test_an_aim_is_not_decided_while_a_part_of_the_interval_says_otherwise(tmp_path: Path) -> None:
    steady, scattered = aimed_run(tmp_path / "steady", STEADY_MS), aimed_run(tmp_path / "scattered", SCATTERED_MS)
    outcomes = [aim_rows(run)[0].fields[-1] for run in (steady, scattered)]
    assert [(field.text, field.small, field.tone) for field in outcomes] == [
        ("reached", "", "good"),
        ("reached", "not decided", "warn"),
    ]
