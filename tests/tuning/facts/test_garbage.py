"""Whatever a file holds, facts are collected, knobs judged and a plan made: nothing but a TuningError is raised."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from highwater.tuning.catalogue import KNOBS
from highwater.tuning.check import evaluate
from highwater.tuning.effects import verify
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect
from highwater.tuning.planning import make_plan
from highwater.tuning.runner import CapturedTreeRunner
from highwater.tuning.sizing import size_host
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import make_big_host, write

_GARBAGE = (
    "",
    "\0\n",
    "-1\n",
    "9" * 5000,
    "9" * 400,
    "0-99999999999\n",
    "max\n",
    "a b c d e f\n" * 3,
    ":::\n",
    "[Service]\n=\n[\n",
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_big_host(tmp_path_factory.mktemp("garbage"), disks=2, queues=1, cpus=2)
    write(root, "/proc/self/cgroup", "0::/a\n")
    write(root, "/proc/self/uid_map", "0 0 4294967295\n")
    write(root, "/proc/vmstat", "nr_free_pages 7\n")
    write(root, "/etc/fstab", "/dev/sda1 /data/0 ext4 defaults 0 2\n")
    write(root, "/etc/systemd/zram-generator.conf", "[zram0]\n")
    write(root, "/etc/dphys-swapfile", "CONF_SWAPSIZE=1\n")
    write(root, "/etc/sysctl.d/99-late.conf", "vm.swappiness = 3\n")
    write(root, "/etc/systemd/system/highwater-broker@.service.d/50-x.conf", "[Service]\nLimitNOFILE=5\n")
    write(root, "/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc\n")
    for file in ("memory.max", "cpu.max", "cpuset.cpus.effective", "pids.max", "io.max"):
        write(root, f"/sys/fs/cgroup/a/{file}", "max\n")
    with (root / "proc/self/mountinfo").open("a") as mountinfo:
        mountinfo.write("90 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    return root


def _go_through(root: Path) -> None:
    workload = Workload(data_dirs=("/data/0", "/data/1"))
    facts = collect(root)
    json.dumps(facts.as_json())
    evaluate(facts, workload)
    with suppress(TuningError):
        make_plan(facts, workload, KNOBS)
        verify(facts, workload, KNOBS, CapturedTreeRunner())
    size_host(facts, workload)


@pytest.mark.slow
def test_garbage_in_any_one_file(host: Path) -> None:
    for path in sorted(path for path in host.rglob("*") if path.is_file() and not path.is_symlink()):
        text = path.read_text("utf-8")
        for number, garbage in enumerate(_GARBAGE):
            # Every file gets one or two of them, every garbage a sixth of the files: all pairs would take a minute.
            if (len(text) + number) % 6 == 0:
                path.write_text(garbage, "utf-8")
                _go_through(host)
        path.write_text(text, "utf-8")


@pytest.mark.parametrize("file", ["proc/meminfo", "etc/fstab", "etc/sysctl.d/99-late.conf", "sys/block/sda/size"])
def test_a_pipe_that_nobody_writes_to_or_an_endless_device_is_no_file(host: Path, file: str) -> None:
    path = host / file
    text = path.read_text("utf-8")
    path.unlink()
    os.mkfifo(path)
    _go_through(host)
    path.unlink()
    path.symlink_to(os.path.relpath("/dev/zero", path.parent))
    _go_through(host)
    path.unlink()
    path.write_text(text, "utf-8")


def test_numbers_beyond_all_kernels(host: Path) -> None:
    """Of settings and ranges, in the files that knobs read."""
    texts = {path: path.read_text("utf-8") for path in (host / "proc/sys").rglob("*") if path.is_file()}
    for garbage in ("9" * 400, "9" * 5000, "1-" + "9" * 19):
        for path in texts:
            path.write_text(garbage, "utf-8")
        _go_through(host)
    for path, text in texts.items():
        path.write_text(text, "utf-8")


def test_any_one_file_is_missing_or_a_folder(host: Path) -> None:
    for path in sorted(path for path in host.rglob("*") if path.is_file() and not path.is_symlink()):
        text = path.read_text("utf-8")
        path.unlink()
        collect(host).as_json()
        path.mkdir()
        collect(host).as_json()
        path.rmdir()
        path.write_text(text, "utf-8")


def test_any_one_folder_is_missing(host: Path, tmp_path: Path) -> None:
    for folder in sorted(path for path in host.rglob("*") if path.is_dir() and not path.is_symlink()):
        if folder.exists():
            away = tmp_path / "away"
            shutil.move(folder, away)
            _go_through(host)
            shutil.move(away, folder)
