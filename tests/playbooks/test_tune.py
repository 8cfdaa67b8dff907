"""`ansible-playbook tune.yml` as an operator runs it, against a fake host over the local connection."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.host_tree import make_host, read_sysctl, snapshot

REPOSITORY = Path(__file__).parents[2]
RECORD = "var/lib/highwater/tuning-record.json"
MANAGED = "etc/sysctl.d/90-highwater.conf"
DROP_IN = "etc/systemd/system/highwater-broker@.service.d/90-highwater-limits.conf"
LIMITS = "etc/security/limits.d/90-highwater.conf"


def _run(tmp_path: Path, root: Path, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    settings = {"tuning_root": str(root), "tuning_workload": {"data_dirs": ["/data"]}, **variables}
    environment = {
        **os.environ,
        "ANSIBLE_LOCAL_TEMP": str(tmp_path / "ansible-local"),
        "ANSIBLE_REMOTE_TEMP": str(tmp_path / "ansible-remote"),
        "ANSIBLE_HOME": str(tmp_path / "ansible-home"),
        "ANSIBLE_NOCOLOR": "1",
    }
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        "playbooks/inventories/local",
        "playbooks/tune.yml",
        "-e",
        json.dumps({"ansible_become": False, **settings}),
        *arguments,
    ]
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def _recap(result: subprocess.CompletedProcess[str]) -> dict[str, int]:
    line = result.stdout.strip().splitlines()[-1]
    return {name: int(count) for name, _, count in (word.partition("=") for word in line.split() if "=" in word)}


def test_check_change_and_a_second_run_that_changes_nothing(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    before = snapshot(root)

    checked = _run(tmp_path, root, "--check", "--diff")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert _recap(checked)["changed"] == 1
    assert snapshot(root) == before, "check mode must not write"
    assert "-vm.swappiness = 60\n" in checked.stdout
    assert "-vm.dirty_ratio = 20\n" in checked.stdout
    assert "+vm.dirty_ratio = 0\n" in checked.stdout
    assert "+++ after: /etc/sysctl.d/90-highwater.conf\n" in checked.stdout
    assert "+LimitNOFILE=100000:524288\n" in checked.stdout

    changed = _run(tmp_path, root, "--diff")
    assert changed.returncode == 0, changed.stdout + changed.stderr
    assert _recap(changed)["changed"] == 1
    assert _diffs(changed) == _diffs(checked), "what check mode announced is what was done"
    assert read_sysctl(root, "vm.swappiness") == "1"
    assert read_sysctl(root, "vm.dirty_bytes") == str(3052 * 2**20)
    assert "\nvm.swappiness = 1\n" in (root / MANAGED).read_text()
    assert (root / DROP_IN).is_file()
    assert (root / LIMITS).is_file()
    assert json.loads((root / RECORD).read_text())["settings"]["/proc/sys/vm/swappiness"]["before"] == "60"

    after = snapshot(root)
    again = _run(tmp_path, root, "--diff")
    assert _recap(again)["changed"] == 0
    assert _diffs(again) == []
    assert snapshot(root) == after


def test_knobs_can_be_chosen(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    result = _run(tmp_path, root, tuning_knobs=["vm.swappiness", "unit.limit_nofile"], tuning_login_domains=[])
    assert result.returncode == 0, result.stdout + result.stderr
    assert read_sysctl(root, "vm.swappiness") == "1"
    assert read_sysctl(root, "vm.max_map_count") == "65530"
    assert (root / DROP_IN).is_file()
    assert not (root / LIMITS).exists()


def test_an_unknown_knob_fails_before_anything_is_changed(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    before = snapshot(root)
    result = _run(tmp_path, root, tuning_knobs=["vm.swappiness", "vm.max_map_cuont"])
    assert result.returncode == 2
    assert "unknown knob 'vm.max_map_cuont'; did you mean vm.max_map_count?" in _one_line(result.stdout)
    assert "Traceback" not in result.stdout + result.stderr
    assert snapshot(root) == before


def test_a_container_that_cannot_be_tuned_fails_with_every_reason(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host", read_only_proc_sys=True, pid_namespace="pid:[4026532281]")
    before = snapshot(root)
    result = _run(tmp_path, root)
    assert result.returncode == 2
    message = _one_line(result.stdout)
    for key in ("vm.swappiness", "vm.dirty_bytes", "vm.max_map_count"):
        assert f"{key} cannot be changed here: /proc/sys is mounted read-only in this container" in message
    assert snapshot(root) == before


def test_a_write_that_has_no_effect_is_a_failure(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    with _file_that_always_reads("60") as device:
        setting = root / "proc/sys/vm/swappiness"
        setting.unlink()
        setting.symlink_to(device)
        result = _run(tmp_path, root, tuning_knobs=["vm.swappiness"])
    assert result.returncode == 2
    assert "vm.swappiness: the write of '1' had no effect, it reads '60'" in _one_line(result.stdout)
    assert json.loads((root / RECORD).read_text())["settings"]["/proc/sys/vm/swappiness"]["before"] == "60"
    assert not (root / MANAGED).exists(), "a value that does not take must not be kept for the next boot"


def test_a_later_file_is_warned_about(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    (root / "etc/sysctl.d/99-site.conf").write_text("vm.swappiness = 10\n")
    result = _run(tmp_path, root, "--check", tuning_knobs=["vm.swappiness"])
    assert result.returncode == 0
    assert "/etc/sysctl.d/99-site.conf sets vm.swappiness = 10" in _one_line(result.stdout + result.stderr)


@pytest.mark.parametrize("tool", [("ansible-lint", "--offline"), ("yamllint", "--strict", ".")])
def test_lint(tmp_path: Path, tool: tuple[str, ...]) -> None:
    command = [str(Path(sys.executable).with_name(tool[0])), *tool[1:]]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "ANSIBLE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    result = subprocess.run(
        command, cwd=REPOSITORY / "playbooks", env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stdout + result.stderr


def _diffs(result: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in result.stdout.splitlines() if line[:1] in ("+", "-", "@")]


def _one_line(text: str) -> str:
    """Ansible wraps warnings at the width of a terminal and prints messages escaped."""
    return " ".join(text.replace("\\'", "'").split())


@contextmanager
def _file_that_always_reads(text: str) -> Iterator[str]:
    """A device that takes every write and reads the same ever after, as a kernel that ignores a value does."""
    master, slave = os.openpty()
    stop_reader, stop_writer = os.pipe()
    tty.setraw(master)
    attributes = termios.tcgetattr(slave)
    attributes[tty.LFLAG] |= termios.ICANON  # lines and end-of-file, without echo
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    # Each reader takes one line and one end-of-file (Ctrl-D).
    os.write(master, f"{text}\n\x04".encode() * 50)
    drain = threading.Thread(target=_drain, args=(master, stop_reader))
    drain.start()
    try:
        yield os.ttyname(slave)
    finally:
        os.write(stop_writer, b"x")
        drain.join()
        for descriptor in (master, slave, stop_reader, stop_writer):
            os.close(descriptor)


def _drain(master: int, stop: int) -> None:
    while True:
        ready, _, _ = select.select([master, stop], [], [])
        if stop in ready:
            return
        os.read(master, 4096)
