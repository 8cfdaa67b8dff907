"""What a lab asks of the machine before it makes anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from highwater.common.errors import UsageError
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


@pytest.mark.parametrize("exit_status", [0, 100])
def test_what_is_missing_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exit_status: int) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\necho "E: no such package" >&2\nexit {exit_status}\n')
    apt.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(processes, "environment", lambda: {"PATH": str(tmp_path)})
    if exit_status == 0:
        processes.require_root_and_tools({"qemu-system-x86_64": "qemu-system-x86"})
        asked = (tmp_path / "asked").read_text().splitlines()
        assert [line.split()[0] for line in asked] == ["update", "install"]
        assert {"debootstrap", "systemd-container", "qemu-system-x86"} <= set(asked[1].split())
    else:
        with pytest.raises(UsageError, match=r"^apt-get update -q failed: E: no such package$"):
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
