"""The time of a bench run, cut out of the history into the run's report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.monitor.bench_window import _CHOSEN
from highwater.monitor.cli import app
from highwater.monitor.events import Event, EventKind
from highwater.monitor.history.database import Database, open_history
from highwater.monitor.history.reader import metrics_of
from highwater.monitor.history.writer import TickWriter
from highwater.reports.page import render, run_document
from highwater.results.reader import RunResult
from tests.monitor.history.ticks import tick
from tests.reports.sample_run import Sample, write_sample

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_sample(tmp_path / "run", Sample(axes={"producers.client.acks": ["all", "1"]}, trials=1))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_history("sqlite", tmp_path / "data")
    yield opened
    opened.close()


def watch(database: Database, run: Path) -> tuple[int, int]:
    """A history from 10 minutes before the run to 10 after it; returns Unix time of the run's begin and end."""
    starts = [datetime.fromisoformat(trial.summary.started_utc).timestamp() for trial in RunResult(run).trials]
    begin_ms, end_ms = round(min(starts) * 1000), round(max(starts) * 1000) + 60_000
    writer = TickWriter(database)
    for at_ms in range(begin_ms - 600_000, end_ms + 600_000, 5_000):
        is_first = begin_ms <= at_ms < begin_ms + 5_000
        text = f"group {HOSTILE} rebalanced"
        events = [Event(at_ms, EventKind.GROUP_REBALANCE, "group", HOSTILE, text)] if is_first else []
        writer.write(tick(at_ms, end_offsets=at_ms // 100, lag=at_ms % 700, events=events))
    return begin_ms, end_ms


def test_the_report_of_a_run_has_what_the_monitor_saw_meanwhile(run: Path, database: Database, tmp_path: Path) -> None:
    begin_ms, _ = watch(database, run)
    called = CliRunner().invoke(app, ["attach", str(run), "--data", str(tmp_path / "data")])
    assert called.exit_code == 0, called.output
    assert f"highwater report {run}" in called.output.replace("\n", "")
    window = RunResult(run).monitor()
    assert window is not None
    assert window.cluster == "c"
    lag = next(line for line in window.lines if (line.kind, line.metric) == ("group", "lag"))
    assert lag.name == "billing"
    assert window.from_ms == begin_ms - 30_000
    assert all(window.from_ms <= at_ms <= window.to_ms for at_ms in lag.at_ms)
    assert [event.text for event in window.events] == [f"group {HOSTILE} rebalanced"]
    page = render(run_document(RunResult(run)))
    assert "What the monitor saw meanwhile" in page
    assert "Group: lag of all partitions with a commit, in offsets" in page
    assert "group &lt;script&gt;alert(1)&lt;/script&gt; rebalanced" in page
    assert HOSTILE not in page
    assert "0 all the time:" not in page
    again = CliRunner().invoke(app, ["attach", str(run), "--data", str(tmp_path / "data")])
    assert again.exit_code == 0
    assert RunResult(run).monitor() == window


def test_a_run_without_a_monitor_has_no_such_section(run: Path) -> None:
    assert RunResult(run).monitor() is None
    assert "What the monitor saw meanwhile" not in render(run_document(RunResult(run)))


def test_a_history_of_another_time_changes_nothing_and_is_said(run: Path, database: Database, tmp_path: Path) -> None:
    TickWriter(database).write(tick(1_800_000_000_000))
    called = CliRunner().invoke(app, ["attach", str(run), "--data", str(tmp_path / "data")])
    assert called.exit_code == 2
    assert "has nothing between 2025-03-01 09:" in called.output
    assert RunResult(run).monitor() is None


@pytest.mark.parametrize(
    ("result", "data", "words"),
    [("nowhere", "data", "is not a result directory"), ("run", "nowhere", "there is no history")],
)
def test_wrong_uses_have_one_line(
    run: Path, database: Database, tmp_path: Path, result: str, data: str, words: str
) -> None:
    called = CliRunner().invoke(app, ["attach", str(tmp_path / result), "--data", str(tmp_path / data)])
    assert called.exit_code == 2
    assert words in called.output
    assert "Traceback" not in called.output


def test_a_damaged_file_of_the_monitor_is_named_and_the_rest_is_shown(run: Path) -> None:
    (run / "monitor.json").write_text("{")
    result = RunResult(run, salvage=True)
    assert "What the monitor saw meanwhile" not in render(run_document(result))
    assert any("monitor.json" in str(fault) for fault in result.faults())


def test_what_a_report_shows_is_in_the_history() -> None:
    assert [
        (kind, metric) for kind, chosen in _CHOSEN.items() for metric in chosen if metric not in metrics_of(kind)
    ] == []
