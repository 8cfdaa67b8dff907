from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from highwater.results import checksums


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "trials" / "001-base").mkdir(parents=True)
    (tmp_path / "manifest.json").write_text("{}\n")
    (tmp_path / "trials" / "001-base" / "summary.json").write_text("{}\n")
    checksums.write(tmp_path)
    return tmp_path


def test_what_was_written_agrees(directory: Path) -> None:
    assert list(checksums.disagreements(directory, ended=True)) == []


def test_coreutils_read_it(directory: Path) -> None:
    command = ["sha256sum", "--check", "--strict", checksums.FILE_NAME]
    assert subprocess.run(command, cwd=directory, capture_output=True, check=False).returncode == 0


def test_each_change_is_told(directory: Path) -> None:
    (directory / "manifest.json").write_text("{ }\n")
    (directory / "trials" / "001-base" / "summary.json").unlink()
    (directory / "trials" / "001-base" / "added.json").write_text("{}\n")
    assert list(checksums.disagreements(directory, ended=True)) == [
        "manifest.json: changed since the run ended",
        "trials/001-base/summary.json: is missing",
        "trials/001-base/added.json: was not there when the run ended",
    ]


def test_reports_and_notes_may_be_kept_beside(directory: Path) -> None:
    (directory / "report.html").write_text("<p>")
    (directory / "notes.txt").write_text("looked at by hand")
    assert list(checksums.disagreements(directory, ended=True)) == []


def test_a_damaged_list_is_told(directory: Path) -> None:
    (directory / checksums.FILE_NAME).write_text("no digest\n")
    assert list(checksums.disagreements(directory, ended=True)) == ["checksums.sha256:1: not a digest and a file name"]


def test_a_run_that_was_killed_has_no_digests_and_one_that_ended_has(tmp_path: Path) -> None:
    assert list(checksums.disagreements(tmp_path, ended=False)) == []
    (line,) = checksums.disagreements(tmp_path, ended=True)
    assert line.startswith("checksums.sha256: is missing")
