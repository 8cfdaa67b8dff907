"""Results are kept by cell, and the page follows from them alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.bench.comparison import __main__ as command
from highwater.bench.comparison import results
from highwater.bench.comparison.cells import MB_PER_S, at_least, at_most
from highwater.bench.comparison.report import render
from highwater.bench.comparison.results import CellResult, Comparison, Sample, ThrownOut
from highwater.bench.errors import UsageError


def cell(ours: list[float], theirs: list[float], **changes: object) -> CellResult:
    samples = [
        Sample(repeat=at + 1, figures={"highwater": {"mb_per_s": ours[at]}, "apache-kafka-3.9": {"mb_per_s": their}})
        for at, their in enumerate(theirs)
    ]
    result = CellResult(
        title="Produce",
        how="As it says.",
        measures=[MB_PER_S],
        aims=[at_least(MB_PER_S, 1.5)],
        measured_at="2026-01-01 00:00 UTC",
        command="make bench-broker",
        environment={"kernel": "6"},
        systems={"highwater": "0.1.0", "apache-kafka-3.9": "3.9.2"},
        samples=samples,
        thrown_out=[],
    )
    return result.model_copy(update=changes)


def test_ratios_are_of_one_repeat_each() -> None:
    # The host became ten times slower in between; the ratio did not.
    result = cell([200.0, 20.0, 30.0], [100.0, 10.0, 10.0])
    assert result.ratios("highwater", "apache-kafka-3.9", "mb_per_s") == [2.0, 2.0, 3.0]
    page = render(Comparison(cells={"produce": result}))
    assert "| `produce` | throughput | Apache Kafka 3.9.2 | 2 (2–3) | ≥ 1.5 | reached |" in page
    assert "| highwater 0.1.0 | 30 (20–200) | 3 |" in page


def test_falling_short_is_said() -> None:
    page = render(Comparison(cells={"produce": cell([1.0], [1.0])}))
    assert "| 1 (1–1) | ≥ 1.5 | **short** |" in page
    page = render(Comparison(cells={"produce": cell([1.0], [1.0], aims=[at_most(MB_PER_S, 0.5)])}))
    assert "| 1 (1–1) | ≤ 0.5 | **short** |" in page


def test_what_was_thrown_out_stands_on_the_page() -> None:
    thrown = ThrownOut(repeat=2, system="apache-kafka-3.9", reason="a record was lost")
    page = render(Comparison(cells={"produce": cell([], [], thrown_out=[thrown])}))
    assert "- thrown out: repeat 2, apache-kafka-3.9: a record was lost" in page


def test_a_cell_measured_again_replaces_itself_only(tmp_path: Path) -> None:
    command._write(tmp_path, {"produce-16k-1p": cell([1.0], [1.0]), "memory": cell([3.0], [1.0])})
    command._write(tmp_path, {"produce-16k-1p": cell([2.0], [1.0])})
    cells = results.read(tmp_path / "broker-versus-kafka.json").cells
    assert list(cells) == ["produce-16k-1p", "memory"]
    assert cells["produce-16k-1p"].values("highwater", "mb_per_s") == [2.0]
    assert cells["memory"].values("highwater", "mb_per_s") == [3.0]
    assert (tmp_path / "broker-versus-kafka.md").read_text() == render(Comparison(cells=cells))


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "broker-versus-kafka.json"
    path.write_text(json.dumps({"benchmarks": []}))
    with pytest.raises(UsageError, match="is not a comparison of brokers"):
        results.read(path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "produce-16k"], "unknown cell produce-16k; there are produce-16k-1p"),
        (["--systems", "redpanda"], "unknown system redpanda; there are highwater"),
        (["--storage", "/nowhere"], "--storage /nowhere is not a directory"),
        (["--quick", "--out", "/nowhere"], "--out /nowhere is not a directory"),
        (["--quick", "--systems", "bare-loop"], "nothing can be compared without --systems highwater"),
    ],
)
def test_bad_options_are_one_line_and_exit_status_2(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(command.app, arguments)
    assert done.exit_code == 2
    assert says in done.output
    assert "Traceback" not in done.output


def test_a_system_that_the_host_cannot_run_is_left_out_and_a_missing_client_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    arguments = ["--quick", "--only", "memory", "--systems", "highwater", "--systems", "apache-kafka-3.9"]
    done = CliRunner().invoke(command.app, arguments)
    assert done.exit_code == 2
    left_out, ended = (line for line in done.output.splitlines() if line.startswith("bench-broker: "))
    assert "apache-kafka-3.9 is left out: no mvn here" in left_out
    assert "no npm here" in ended
