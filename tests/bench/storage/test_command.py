"""`highwater bench storage …` as a person meets it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.bench.cli import app
from highwater.bench.storage import emulated_hdd, fio

requires_fio = pytest.mark.skipif(shutil.which("fio") is None, reason=fio.HOW_TO_INSTALL)


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["storage", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_list_shows_where_this_test_runs() -> None:
    code, printed, _ = call("list", "--json")
    assert code == 0
    targets = json.loads(printed)
    assert targets
    assert {"name", "path", "medium", "emulated", "filesystem", "mount_options"} <= set(targets[0])
    code, printed, _ = call("list")
    assert code == 0
    assert "medium" in printed


@requires_fio
def test_probe_prints_what_fio_measured(tmp_path: Path) -> None:
    code, printed, _ = call("probe", str(tmp_path), "--runtime", "100ms", "--json")
    assert code == 0
    probe = json.loads(printed)
    assert [job["name"] for job in probe["jobs"]] == ["sequential_append", "fsync", "sequential_read", "random_read"]
    code, printed, _ = call("probe", str(tmp_path), "--runtime", "100ms")
    assert code == 0
    assert "random read" in printed


def test_probe_needs_fio_and_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, complaint = call("probe", str(tmp_path))
    assert (code, complaint) == (2, f"error: {fio.HOW_TO_INSTALL}\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["probe", "/nonexistent"], "error: /nonexistent is not a directory; make it first, or name another one\n"),
        (["probe", "/", "--runtime", "1"], "error: --runtime: '1' is not a duration with its unit"),
        (
            ["probe", "/", "--files", "8,many"],
            "error: --files: '8,many' is not a list of numbers from 2 to 4096, for example",
        ),
        (
            ["probe", "/", "--files", "1"],
            "error: --files: '1' is not a list of numbers from 2 to 4096, for example 8,64,512",
        ),
        (["probe", "/", "--runtime", "1ms"], "error: --runtime: 1ms is not between 100ms and 1h\n"),
        (["emulate-hdd", "make", "x", "--size", "8"], "error: --size: '8' is not a size with its unit"),
        (["emulate-hdd", "make", "x", "--bandwidth", "fast"], "error: --bandwidth: 'fast' is not a size with its unit"),
        (["emulate-hdd", "remove", "x"], "error: there is no emulated disk 'x' (there is: none)\n"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulated_hdd, "STATE_DIRECTORY", str(tmp_path / "records"))
    monkeypatch.setattr(emulated_hdd.DiskHost.__init__, "__defaults__", (str(tmp_path / "records"),))
    monkeypatch.setattr(emulated_hdd, "_require_root", lambda _: None)
    code, _, said = call(*arguments)
    assert code == 2
    assert said.startswith(complaint)
    assert said.count("\n") == 1


def test_there_are_no_disks_until_one_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated_hdd.DiskHost.__init__, "__defaults__", (str(tmp_path / "records"),))
    assert call("emulate-hdd", "list") == (0, "no emulated disks\n", "")
    code, printed, _ = call("emulate-hdd", "list", "--json")
    assert (code, json.loads(printed)) == (0, [])
