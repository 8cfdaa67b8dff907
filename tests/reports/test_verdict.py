"""Validity before speed: badge, sentences, warnings, and the reason for every trial that is not valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.reports.cells import Run
from highwater.reports.page import render, run_document
from highwater.reports.verdict import Overall, overall
from highwater.results.models import Reason, TrialSummary, Verdict
from highwater.results.reader import RunResult
from highwater.results.run_lock import RunLock
from tests.reports.parsing import Document, parse
from tests.reports.sample_run import Sample, saturated, write_sample

EVERY = ("c1-t1", "c1-t2")


def verdict_of(directory: Path, sample: Sample) -> Overall:
    return overall(Run.of(RunResult(write_sample(directory / "run", sample))))


def inconclusive(summary: TrialSummary) -> TrialSummary:
    reason = Reason(check="steady", value="rising", limit="flat", text="Latency still rose when the warm-up ended.")
    return summary.model_copy(update={"verdict": Verdict(state="inconclusive", reasons=[reason], notes=["Note."])})


def losing(summary: TrialSummary) -> TrialSummary:
    reason = Reason(check="delivery.lost", value=3, limit=0, text="3 acknowledged records were lost.")
    return summary.model_copy(update={"verdict": Verdict(state="invalid", reasons=[reason])})


@pytest.mark.parametrize(
    ("sample", "badge", "tone"),
    [
        (Sample(), "Valid", "good"),
        (Sample(change=saturated), "Invalid", "bad"),
        (Sample(change=inconclusive), "Inconclusive", "warn"),
        (Sample(change=lambda s: saturated(s) if s.trial == 1 else s), "Partly valid", "warn"),
        (Sample(change=lambda s: losing(s) if s.trial == 1 else s), "Records lost", "bad"),
        (Sample(status="interrupted", unfinished=EVERY[:1]), "Partly valid", "warn"),
        (Sample(status="interrupted", unfinished=EVERY), "No result", "bad"),
        (Sample(status="failed"), "Valid, not finished", "warn"),
    ],
)
def test_badge(tmp_path: Path, sample: Sample, badge: str, tone: str) -> None:
    small = Sample(
        axes={}, trials=2, measure_s=1, status=sample.status, unfinished=sample.unfinished, change=sample.change
    )
    found = verdict_of(tmp_path, small)
    assert (found.badge, found.tone) == (badge, tone)


def test_every_trial_that_is_not_valid_is_named_with_check_value_limit_and_reason(golden_document: Document) -> None:
    section = golden_document.with_id("verdict")
    assert section.text.startswith(
        "Partly valid 22 of 24 trials valid · 1 trial: generator_cpu beyond 0.85 · 1 warning"
    )
    assert "22 of 24 trials are valid. 1 is invalid." in section.text
    (table,) = section.find("table")
    _, invalid, missing = table.rows()
    assert invalid[:6] == ["c2-t2", "acks all · compression lz4", "invalid", "generator_cpu", "0.97", "0.85"]
    assert invalid[6].startswith("A load worker used 0.97 of a core")
    assert missing == [
        "c3-t3",
        "acks 1 · compression none",
        "no result",
        "",
        "",
        "",
        "It was interrupted. Reason: stopped by Ctrl-C",
    ]


def test_smoke_profile_is_marked_as_not_for_quoting(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, Sample(axes={}, trials=1, measure_s=1, for_measurement=False))
    assert found.notes[0].startswith("Smoke profile: figures are not for quoting.")


def test_run_that_never_ended_says_so(tmp_path: Path) -> None:
    sample = Sample(axes={}, trials=1, measure_s=1, status="running")
    directory = write_sample(tmp_path / "run", sample)
    killed = overall(Run.of(RunResult(directory)))
    assert killed.notes[0] == "This run was killed: trials that had not finished are missing."
    lock = RunLock.take(directory)
    running = overall(Run.of(RunResult(directory)))
    assert "had not ended" in running.notes[0], "while somebody works in its directory"
    lock.release()


def test_notes_that_differ_in_their_figures_alone_are_one_with_the_range(tmp_path: Path) -> None:
    def noted(summary: TrialSummary) -> TrialSummary:
        note = f"produce p99.9: fewer than 10 of {7 + 4 * summary.trial} samples lie beyond"
        return summary.model_copy(update={"verdict": Verdict(state="valid", reasons=[], notes=[note])})

    found = verdict_of(tmp_path, Sample(axes={}, trials=3, measure_s=1, change=noted))
    assert found.remarks == ["produce p99.9: fewer than 10 of 11 to 19 samples lie beyond (3 trials)"]


def test_notes_of_trials_are_told_once_with_their_number(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, Sample(axes={}, trials=3, measure_s=1, change=inconclusive))
    assert found.remarks == ["Note. (3 trials)"]
    assert [p.value for p in found.problems] == ["rising"] * 3


def test_like_causes_are_one_line_in_units_people_read(tmp_path: Path) -> None:
    def late(summary: TrialSummary) -> TrialSummary:
        reasons = [
            Reason(check="host.cpu_ratio", value=0.97, limit=0.95, text="The host was busy."),
            Reason(check="generator.send_delay_p99_ns", value=6_025_215, limit=5_000_000, text="Records left late."),
        ]
        return summary.model_copy(update={"verdict": Verdict(state="invalid", reasons=reasons)})

    directory = write_sample(tmp_path / "run", Sample(axes={}, trials=3, measure_s=1, change=late))
    section = parse(render(run_document(RunResult(directory)))).with_id("verdict")
    assert [item.text for item in section.find("li")] == [
        "3 trials: host CPU above 95 %; median 97 %",
        "3 trials: records left late: p99 above 5 ms; median 6.03 ms",
    ]
    assert section.find("summary")[0].text == "Invalid 0 of 3 trials valid · 3 trials: host CPU above 95 %; median 97 %"
    assert [row[4:6] for row in section.find("table")[0].rows()[1:3]] == [["97 %", "95 %"], ["6.03 ms", "5 ms"]]
    assert "6,025,215" not in section.text
