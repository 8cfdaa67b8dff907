"""Settings that trade crash safety for speed are said wherever results are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.display.tables import print_end, results_as_json
from highwater.bench.gate.run import judge_recorded
from highwater.bench.gate.sides import Recorded
from highwater.reports import markdown, page
from highwater.reports.side_by_side import comparison_document
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult
from tests.bench.gate.test_run import RULES
from tests.reports.sample_run import Sample, write_sample
from tests.results.analysis.comparing import compare

TRADE = "commit=60 on /data: a crash may cost 60 s of metadata instead of 5"
NOTE = f"durability traded away: {TRADE}"


def with_trade(summary: TrialSummary) -> TrialSummary:
    return summary.model_copy(update={"durability_trades": [TRADE]})


@pytest.fixture
def traded(tmp_path: Path) -> RunResult:
    return RunResult(write_sample(tmp_path / "traded", Sample(axes={}, trials=2, measure_s=1, change=with_trade)))


@pytest.fixture
def safe(tmp_path: Path) -> RunResult:
    return RunResult(write_sample(tmp_path / "safe", Sample(axes={}, trials=2, measure_s=1)))


def test_a_note_names_the_cells_that_it_is_of(tmp_path: Path, traded: RunResult, safe: RunResult) -> None:
    def lz4_only(summary: TrialSummary) -> TrialSummary:
        return with_trade(summary) if "lz4" in summary.factors.values() else summary

    axes = Sample(axes={"compression": ["none", "lz4"]}, trials=1, measure_s=1, change=lz4_only)
    assert RunResult(write_sample(tmp_path / "two", axes)).durability_notes() == [
        f"durability traded away in compression=lz4: {TRADE}"
    ]
    assert traded.durability_notes() == [NOTE]
    assert safe.durability_notes() == []


def test_the_end_of_a_run(traded: RunResult, safe: RunResult, capsys: pytest.CaptureFixture[str]) -> None:
    print_end(traded)
    assert NOTE in capsys.readouterr().out
    assert results_as_json(traded)["durability_trades"] == [NOTE]
    print_end(safe)
    assert "durability" not in capsys.readouterr().out


def test_comparisons_and_gates(traded: RunResult, safe: RunResult) -> None:
    assert f"{traded.directory}: {NOTE}" in compare(safe, traded).warnings
    gate = judge_recorded(Recorded("safe", safe, None), Recorded("traded", traded, None), RULES)
    assert any(note.endswith(NOTE) for note in gate.notes)


def test_reports(traded: RunResult, safe: RunResult) -> None:
    for document in (page.run_document(traded), comparison_document(safe, traded)):
        assert f"urability traded away: {TRADE}." in markdown.render(document)
        assert f"urability traded away: {TRADE}." in page.render(document)
    assert "urability traded" not in page.render(page.run_document(safe))
