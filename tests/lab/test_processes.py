"""What a lab asks of the machine before it makes anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.errors import UsageError
from tests.lab import groups, processes


def test_without_root_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=r"by root alone .*; use sudo$"):
        processes.require_root_and_tools({})


def test_a_tool_that_is_missing_and_cannot_be_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(processes, "environment", lambda: {"PATH": str(tmp_path)})
    with pytest.raises(UsageError, match=r"missing here: debootstrap, .*; install them, then run this again"):
        processes.require_root_and_tools({})


def test_a_process_joins_its_groups_before_it_does_anything(tmp_path: Path) -> None:
    members = [tmp_path / "one", tmp_path / "two"]
    for path in members:
        path.mkdir()
    command = processes.in_groups(members, ["cat", *(str(path / "cgroup.procs") for path in members)])
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0\n0\n"
    members.append(tmp_path / "gone")
    done = subprocess.run(processes.in_groups(members, ["echo", "ran"]), capture_output=True, text=True, check=False)
    assert (done.returncode != 0, done.stdout) == (True, "")


def test_of_a_lab_that_is_not_there_nothing_runs() -> None:
    assert groups.processes("nolab1") == set()
