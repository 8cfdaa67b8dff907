"""The page of live figures, from a store that a stream has written."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
from typer.testing import CliRunner

from highwater.cli import app
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf
from highwater.reports import page
from highwater.reports.live import live_document
from highwater.studies.telemetry.live import Live
from highwater.studies.telemetry.rows import rows_of
from highwater.studies.telemetry.store import Store
from highwater.studies.telemetry.sums import summed
from tests.studies.telemetry.messages import imagined_load, trial_note


def write(state: Path, *trials: str, share: float = 1.0) -> None:
    with Store(state, create=True) as store:
        live = Live(store)
        for number, trial in enumerate(trials):
            note = trial_note(trial=trial, trial_id=trial, t0_unix_ns=1_700_000_000_000_000_000 + number)
            messages = list(imagined_load(number, note).encoded())
            rows = summed(pa.Table.from_batches([rows_of(messages[: int(len(messages) * share)])]))
            offsets = [Offsets({("hw.telemetry", 0): end}) for end in (number, number + 1)]
            live.take(rows, BatchOf("q", number, (offsets[1],), (offsets[0],)))


def test_the_page_answers_first_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    write(tmp_path, "base-1", "base-2")
    document, _, ended = live_document(tmp_path)
    html = page.render(document, 3)
    assert ended
    assert (
        html.index("Objectives MISSED, final") < html.index("Second by second") < html.index("What the figures rest on")
    )
    assert "base-1" in html.partition("Earlier trials")[2]
    assert re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"", html) == []
    assert 'http-equiv="refresh" content="3"' in html
    for chart in ("Throughput", "Produce latency", "End-to-end latency", "Lag", "CPU of the busiest hosts"):
        assert f"<h3>{chart}</h3>" in html
    # No chart has a least width, so its latest second is in sight on a telephone.
    assert set(re.findall(r'<figure[^>]* class="([^"]*)"', html)) == {"narrow"}


def test_a_load_that_has_just_begun_or_not_yet(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    Store(tmp_path / "empty", create=True).__exit__()
    document, _, ended = live_document(tmp_path / "empty")
    assert not ended
    assert "No load has published anything yet." in page.render(document)
    (tmp_path / "begun").mkdir()
    write(tmp_path / "begun", "base-1", share=0.6)
    document, _, ended = live_document(tmp_path / "begun")
    assert not ended
    assert "The measured phase has not begun<" in page.render(document)
    (tmp_path / "measured").mkdir()
    write(tmp_path / "measured", "base-1", share=0.9)
    document, _, ended = live_document(tmp_path / "measured")
    assert not ended
    assert "of the measured phase" in page.render(document)


def test_the_command_takes_the_directory_of_the_job(tmp_path: Path) -> None:
    write(tmp_path, "base-1")
    found = CliRunner().invoke(app, ["report", str(tmp_path), "--watch"])
    assert found.exit_code == 0, found.output
    assert (tmp_path / "live.html").read_text().startswith("<!DOCTYPE html>")
    found = CliRunner().invoke(app, ["bench", "telemetry", "show", str(tmp_path)])
    assert found.stdout.splitlines()[0] == "run, base-1: objectives MISSED, final"
    found = CliRunner().invoke(app, ["bench", "telemetry", "show", str(tmp_path / "elsewhere")])
    assert found.exit_code == 2
    assert "holds no live figures" in found.output
