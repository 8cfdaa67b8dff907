"""The page of a history: the answer first, trends with marked changes, environments, acknowledged changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli import app
from highwater.common.errors import UsageError
from highwater.reports.history import history_document
from highwater.reports.page import render
from highwater.results.models import Scalar
from highwater.results.reader import RunResult
from highwater.studies.history.detection import Rules
from highwater.studies.history.series import Acknowledgement, add, all_series, kept_series
from tests.reports.parsing import parse, parse_drawing
from tests.reports.sample_run import Sample, write_sample
from tests.studies.history.test_series import otava, run

__all__ = ["otava"]
RATE = "produce.achieved_per_s"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history") / "run"
    return write_sample(directory, Sample(axes={}, trials=2, measure_s=3, rate_per_s=200.0))


def keep(result: RunResult, history: Path) -> None:
    commit = f"c{result.manifest.created_utc[8:10]}"
    add(result, history, branch="main", commit=commit, new_environment=True)


@pytest.fixture
def history(sample: Path, tmp_path: Path) -> Path:
    for day in range(1, 9):
        keep(run(sample, day, 200.0 if day < 5 else 180.0), tmp_path / "history")
    return tmp_path / "history"


def page(history: Path, command: Callable[[], list[str] | None]) -> str:
    return render(history_document(history, kept_series(history), Rules.of_file(None), command))


def test_the_page_says_what_changed_and_marks_it(history: Path, otava: Path) -> None:
    text = page(history, lambda: [str(otava)])
    assert f"{RATE} is worse since 2026-01-05 (commit c05): 200/s → 180/s, −10" in text
    assert f"{RATE}: last 180/s, between 180/s and 200/s; worse since 2026-01-05, −10" in text
    sections = text.partition("</nav>")[2]
    assert sections.index("What changed") < sections.index("Change points") < sections.index("Throughput")
    marked = [
        drawing for drawing in re.findall(r'<svg [^>]*class="chart".*?</svg>', text, re.DOTALL) if "c05" in drawing
    ]
    assert len(marked) == 1
    assert parse_drawing(marked[0]).get("role") == "img"
    assert "storage: filesystem" in text
    ids = Counter(element.attributes["id"] for element in parse(text) if "id" in element.attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    assert not re.search(r'(?:src|href)="(?!#)', text), "the page is self-contained"


def test_environments_and_acknowledged_changes_are_listed(sample: Path, history: Path, otava: Path) -> None:
    keep(run(sample, 9, kernel="6.2"), history)
    document = history_document(history, kept_series(history), Rules.of_file(None), lambda: [str(otava)])
    text = render(document)
    assert "kernel: 6.1 → 6.2" in text
    assert "too few: 1 run; change points need 7" in text
    assert not any(section.id == "acknowledged" for section in document.sections)
    series = next(one for one in all_series(history) if len(one.rows()) == 8)
    series.acknowledge(Acknowledgement(RATE, "c05", "checksums are verified now", "2026-01-09"))
    assert "acknowledged: checksums are verified now" in page(history, lambda: [str(otava)])


def test_cells_are_panels_of_one_chart(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {"producers.client.acks": ["1", "all"]}
    write_sample(tmp_path / "run", Sample(axes=axes, trials=1, measure_s=3, rate_per_s=200.0))
    keep(RunResult(tmp_path / "run"), tmp_path / "history")
    text = page(tmp_path / "history", lambda: None)
    assert text.count("<h3>Produce latency p99</h3>") == 1
    assert "<h4>acks=all</h4>" in text


def test_the_verb_is_one_of_bench_history(history: Path, otava: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    found = CliRunner().invoke(
        app, ["bench", "history", "report", "--history", str(history), "--out", str(out), "--otava", str(otava)]
    )
    assert (found.exit_code, found.stdout) == (0, f"{out}\n")
    assert out.read_text("utf-8").startswith("<!DOCTYPE html>")
    nothing = CliRunner().invoke(app, ["bench", "history", "report", "--history", str(tmp_path / "nowhere")])
    assert nothing.exit_code == 2
    assert nothing.stderr.startswith(f"error: {tmp_path / 'nowhere'}: no such history; begin one with")
    with pytest.raises(UsageError):
        kept_series(tmp_path / "nowhere")
