"""That trials shared a processor is said wherever results are shown, and CPU time is what is told of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.display.tables import print_end, results_as_json
from highwater.bench.gate.run import judge_recorded
from highwater.bench.gate.sides import Recorded
from highwater.reports import markdown, page
from highwater.results.models import AtOnce, TrialSummary
from highwater.results.reader import RunResult
from tests.bench.gate.test_run import RULES
from tests.reports.sample_run import Sample, write_sample
from tests.results.analysis.comparing import compare

NOTE = "trials ran at once on one processor: compare their CPU time"


def at_once(summary: TrialSummary) -> TrialSummary:
    host = summary.host.model_copy(update={"system_cpu_s_per_gib": 20.0 + summary.trial})
    return summary.model_copy(update={"at_once": AtOnce(processor=1, trials=["other"]), "host": host})


@pytest.fixture
def shared(tmp_path: Path) -> RunResult:
    return RunResult(write_sample(tmp_path / "shared", Sample(axes={}, trials=3, measure_s=1, change=at_once)))


@pytest.fixture
def alone(tmp_path: Path) -> RunResult:
    return RunResult(write_sample(tmp_path / "alone", Sample(axes={}, trials=2, measure_s=1)))


def test_the_end_of_a_run_tells_cpu_time(
    shared: RunResult, alone: RunResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_end(shared)
    told = capsys.readouterr().out
    assert NOTE in told
    assert "CPU per GiB" in told
    assert "22 s" in told
    assert "21–23" in told
    assert "produce p50" not in told
    assert [note.startswith(NOTE) for note in results_as_json(shared)["at_once"]] == [True]
    print_end(alone)
    told = capsys.readouterr().out
    assert "processor" not in told
    assert "produce p50" in told


def test_comparisons_gates_and_reports(shared: RunResult, alone: RunResult) -> None:
    assert any(NOTE in warning for warning in compare(alone, shared).warnings)
    gate = judge_recorded(Recorded("alone", alone, None), Recorded("shared", shared, None), RULES)
    assert any(NOTE in note for note in gate.notes)
    document = page.run_document(shared)
    assert "Trials ran at once on one processor" in page.render(document)
    assert "Trials ran at once on one processor" in markdown.render(document)
