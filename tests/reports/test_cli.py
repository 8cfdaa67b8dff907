"""`highwater report`: where it writes, and one clear line with exit code 2 for what it cannot read or write.

Of a damaged directory, the rest is shown: exit code 4.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from highwater.reports.cli import report
from highwater.results import checksums
from tests.reports.parsing import parse
from tests.reports.sample_run import Sample, write_sample
from tests.reports.test_golden import comparable


def run(*arguments: str | Path) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(report)
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def copied_run(golden_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden_run, tmp_path / "run"))


def test_writes_beside_the_results_and_prints_the_path(copied_run: Path, golden_page: str) -> None:
    done = run(copied_run)
    assert done.exit_code == 0
    assert done.stdout == f"{copied_run / 'report.html'}\n"
    page = (copied_run / "report.html").read_text("utf-8")
    assert comparable(page) == comparable(golden_page)
    assert f"--resume {copied_run}<" in page, "a copy names its own place"


def test_a_second_report_is_the_same_though_the_first_lies_in_the_directory(copied_run: Path) -> None:
    run(copied_run)
    first = (copied_run / "report.html").read_bytes()
    run(copied_run)
    assert (copied_run / "report.html").read_bytes() == first
    assert not list(copied_run.glob("*.tmp"))


def test_out_names_another_file(copied_run: Path, tmp_path: Path) -> None:
    done = run(copied_run, "--out", tmp_path / "elsewhere.html")
    assert done.exit_code == 0
    parse((tmp_path / "elsewhere.html").read_text("utf-8"))
    assert not (copied_run / "report.html").exists()


def test_markdown_stands_beside_the_page(copied_run: Path) -> None:
    done = run(copied_run, "--markdown")
    assert (done.exit_code, done.stdout) == (0, f"{copied_run / 'report.md'}\n")
    assert (copied_run / "report.md").read_text("utf-8").startswith("# quickstart\n")
    assert not (copied_run / "report.html").exists()


def test_two_directories_make_one_comparison(copied_run: Path, golden_run: Path) -> None:
    done = run(golden_run, copied_run)
    assert (done.exit_code, done.stdout) == (0, f"{copied_run / 'comparison.html'}\n")
    document = parse((copied_run / "comparison.html").read_text("utf-8"))
    assert "o difference" in document.with_id("answer").text


def test_factors_of_the_chart_may_be_chosen(copied_run: Path) -> None:
    done = run(copied_run, "--x", "compression", "--rows", "acks")
    assert done.exit_code == 0
    figure = parse((copied_run / "report.html").read_text("utf-8")).with_id("facets")
    assert [e.text for e in figure.find("h4")][:2] == ["acks all", "acks 1"]


def test_a_factor_that_is_not_there_is_a_mistake_of_one_line(copied_run: Path) -> None:
    done = run(copied_run, "--colour", "linger")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "its factors are producers.client.acks, producers.client.compression.type" in done.stderr


@pytest.mark.parametrize("arguments", [["--most", "5000"], [".", "--rows", "acks"]])
def test_options_that_would_do_nothing_are_refused(copied_run: Path, arguments: list[str]) -> None:
    done = run(copied_run, *arguments)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def no_manifest(directory: Path) -> None:
    (directory / "manifest.json").unlink()


def broken_manifest(directory: Path) -> None:
    (directory / "manifest.json").write_text("{", "utf-8")


def binary_manifest(directory: Path) -> None:
    (directory / "manifest.json").write_bytes(b"\xff\xfe\x00")


def foreign_field(directory: Path) -> None:
    path = directory / "trials" / "c1-t1" / "summary.json"
    path.write_text(path.read_text("utf-8").replace('"offered_per_s"', '"offered"'), "utf-8")


def missing_histogram(directory: Path) -> None:
    (directory / "trials" / "c1-t1" / "hist" / "produce_response.hlog").unlink()


def broken_window(directory: Path) -> None:
    path = directory / "trials" / "c1-t1" / "windows.jsonl"
    path.write_text(path.read_text("utf-8")[:-20], "utf-8")


def missing_summary(directory: Path) -> None:
    (directory / "trials" / "c1-t1" / "summary.json").unlink()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (no_manifest, "is not a result directory"),
        (broken_manifest, "manifest.json"),
        (binary_manifest, "cannot read"),
    ],
)
def test_without_a_manifest_there_is_one_line_that_names_it(
    copied_run: Path, damage: Callable[[Path], None], named: str
) -> None:
    damage(copied_run)
    done = run(copied_run)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert named in done.stderr
    assert not (copied_run / "report.html").exists()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (foreign_field, "trials/c1-t1/summary.json: offered_per_s is missing"),
        (missing_summary, "trials/c1-t1/summary.json: is missing"),
        (missing_histogram, "trials/c1-t1/hist/produce_response.hlog: cannot read the histogram log: "),
        (broken_window, "trials/c1-t1/windows.jsonl: the file: Invalid JSON"),
    ],
)
def test_the_rest_of_a_damaged_directory_is_shown(copied_run: Path, damage: Callable[[Path], None], named: str) -> None:
    damage(copied_run)
    done = run(copied_run)
    assert (done.exit_code, done.stdout) == (4, f"{copied_run / 'report.html'}\n")
    assert done.stderr.startswith(f"error: {copied_run} is damaged: {named}")
    assert done.stderr.count("\n") == 1
    document = parse((copied_run / "report.html").read_text("utf-8"))
    assert document.find("section")[0].attributes["id"] == "damage"
    assert named.partition(":")[0] in document.with_id("damage").text
    assert len(document.with_id("cells").find("tbody")[0].rows()) == 4
    assert run(copied_run, "--markdown").exit_code == 4
    assert "Damaged directory: 1 file" in (copied_run / "report.md").read_text("utf-8")


def test_whatever_file_is_damaged_the_report_names_it(tmp_path: Path) -> None:
    directory = write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=1, analysed=True))
    checksums.write(directory)
    trial = directory / "trials" / "c1-t1"
    files = [path for folder in (directory, trial, trial / "hist") for path in folder.iterdir() if path.is_file()]
    assert len(files) > 8
    for path in files:
        if path.name in ("manifest.json", checksums.FILE_NAME):
            continue
        name, content = path.relative_to(directory).as_posix(), path.read_bytes()
        for damaged in (b"", content[: len(content) // 2], b"\xff\x00", None):
            if damaged == content:
                continue  # a file that was empty
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            done = run(directory, "--out", directory / "report.html")
            assert (done.exit_code, name in done.stderr) == (4, True), name
            path.write_bytes(content)
    assert run(directory).exit_code == 0


def test_a_file_that_changed_since_the_run_ended_is_named(copied_run: Path) -> None:
    checksums.write(copied_run)
    path = copied_run / "trials" / "c2-t1" / "windows.jsonl"
    path.write_text(path.read_text("utf-8").replace('"failed":0', '"failed":1'), "utf-8")
    done = run(copied_run)
    assert done.exit_code == 4
    assert "trials/c2-t1/windows.jsonl: changed since the run ended" in done.stderr


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    done = run(tmp_path / "nowhere")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "nowhere is not a result directory" in done.stderr


def test_output_that_cannot_be_written(copied_run: Path, tmp_path: Path) -> None:
    for out in (tmp_path / "missing" / "report.html", copied_run):
        done = run(copied_run, "--out", out)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert f"cannot write {out}" in done.stderr
    assert not list(tmp_path.glob("*.tmp"))


def test_a_run_is_followed_by_another_command(copied_run: Path) -> None:
    done = run(copied_run, "--watch")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert f"highwater watch {copied_run}" in done.stderr
