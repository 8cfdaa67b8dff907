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


def test_the_answer_comes_first_then_dots_for_each_load_then_every_cell(measured: Path) -> None:
    text = page.render(matrix_document(measured))
    places = [
        text.index(part)
        for part in (
            "On this host 1 of 5 settings matters: 1 harms (vm.swappiness).",
            "What matters or may matter: the largest change of each setting",
            "No difference: vm.dirty_expire_centisecs up to ",
            "Noise alone: of 32 effects of settings that do not exist (dummies)",
            "No difference was seen",
            "ext4 on hdd",
            "All at once",
            "Every cell",
            "How it was measured",
        )
    ]
    assert places == sorted(places)


def test_every_setting_is_a_dot_with_its_interval_and_words_under_each_load(measured: Path) -> None:
    text = page.render(matrix_document(measured))
    strips = re.findall(r'<div class="strips">.*?</div>', text, re.DOTALL)
    assert len(strips) == 1 + 2 * 2, "what matters, then two loads on two disks"
    on_host = next(part for part in strips if "cpu: change of the figure beside it" in part)
    rows = re.findall(r'<li class="(\w+)"><span class="cell">(.*?)</span><span class="said">(.*?)</span>', on_host)
    assert [look for look, _, _ in rows] == ["bad", "plain", *["plain"] * 9]
    assert "vm.<wbr>swappiness" in rows[0][1]
    assert re.fullmatch(r"<b>\+5\d(\.\d+)? %</b> worse: produce\.p99, measured alone", rows[0][2]), rows[0]
    assert "no difference above " in rows[1][2]
    assert "nothing 1" in rows[2][1]
    assert on_host.count('class="span"') >= len(rows), "an interval each"
    assert "estimated change" in on_host


def test_what_showed_no_difference_is_listed_with_the_size_that_would_have_been_seen(measured: Path) -> None:
    text = markdown.render(matrix_document(measured))
    assert re.search(
        r"cpu on hdd:\*\* produce\.p99 changed by \d(\.\d+)? % at most with any of .*filesystem\.type", text
    )
    assert re.search(
        r"cpu on host:\*\* produce\.p99 .* with any of vm\.dirty\\_expire\\_centisecs$", text, re.MULTILINE
    )


def test_a_first_look_says_that_it_is_one(tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    run_matrix(out, begun(out, host, quick=True), here(host, Runner(slow="vm.swappiness")))
    text = page.render(matrix_document(out))
    assert "This was a first look alone: what may differ was not measured again, alone." in text
    assert "; first look" in text


def test_the_table_has_marks_and_words_and_not_colour_alone(measured: Path) -> None:
    text = markdown.render(matrix_document(measured))
    assert re.search(r"\| vm\.swappiness \| ✕ \+5\d % \| ✕ \+5\d % \| ✕", text)
    assert "| cpu.governor | – | – | – | – |" in text
    assert re.search(r"\| = \\<\d+ % \|", text)


def test_markdown_has_the_same(measured: Path) -> None:
    text = markdown.render(matrix_document(measured))
    assert "On this host 1 of 5 settings matters: 1 harms (vm.swappiness)." in text
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
