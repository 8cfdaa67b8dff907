"""The page of a matrix: its sentence, a grid that reads without colour, every cell in a table; the same in Markdown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.bench.matrix.running import run_matrix
from highwater.bench.matrix.stored import MATRIX_FILE
from highwater.cli import app
from highwater.reports import markdown, page
from highwater.reports.matrix import matrix_document
from tests.bench.matrix.sample import begun, here
from tests.bench.prove.test_proving import Runner


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matrix")
    out, host = folder / "out", folder / "host"
    run_matrix(out, begun(out, host), here(host, Runner(slow="vm.swappiness")))
    return out


def test_the_answer_comes_first_then_the_grid_then_every_cell(measured: Path) -> None:
    text = page.render(matrix_document(measured))
    places = [
        text.index(part)
        for part in (
            "On this host 1 of 5 settings matters: 1 harms (vm.swappiness).",
            "The others: ",
            "Each setting under each load, on each disk",
            "Every cell",
            "How it was measured",
            "ext4 on hdd",
        )
    ]
    assert places == sorted(places)


def test_the_grid_has_marks_and_words_and_not_colour_alone(measured: Path) -> None:
    text = page.render(matrix_document(measured))
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 2, "one for each disk"
    for drawing in drawings:
        labels = re.findall(r'<text class="end faint"[^>]*>([^<]+)<', drawing)
        assert (labels[0], labels[-1]) == ("vm.swappiness", "cpu.governor"), "in the order of effect"
        assert len(re.findall(r'class="answer worse"', drawing)) == 2
        assert re.search(r'class="mid said worse"[^>]*>✕ \+5\d %<', drawing)
        assert re.search(r'class="mid said none"[^>]*>= &lt;\d+ %<', drawing)
        assert re.search(r'class="mid said cannot"[^>]*>–<', drawing)
        assert re.search(r"<title>vm\.swappiness, cpu on \w+: worse: produce\.p99 \+", drawing)


def test_what_is_undecided_looks_undecided(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    run_matrix(out, begun(out, host, quick=True), here(host, Runner(slow="vm.swappiness")))
    text = page.render(matrix_document(out))
    assert re.search(r'class="mid said undecided"[^>]*>\?<', text)
    assert "This was a first look alone: what may differ was not measured again." in text
    assert "? undecided" in text
    assert 'class="mid said worse"' not in text


def test_markdown_has_the_same(measured: Path) -> None:
    text = markdown.render(matrix_document(measured))
    assert "On this host 1 of 5 settings matters: 1 harms (vm.swappiness)." in text
    assert re.search(r"\| vm\.swappiness \| ✕ \+5\d % \|", text)
    assert "cannot be set here: durability" in text


def test_the_command_writes_it_twice_the_same(measured: Path, tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        result = CliRunner().invoke(app, ["report", str(measured), "--out", str(tmp_path / name)])
        assert (result.exit_code, result.stdout) == (0, f"{tmp_path / name}\n"), result.output
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_a_damaged_matrix_is_one_line(tmp_path: Path) -> None:
    (tmp_path / MATRIX_FILE).write_text("[]")
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path / MATRIX_FILE} cannot be read")
    assert result.stderr.count("\n") == 1
