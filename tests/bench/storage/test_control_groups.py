"""Limits written where each version of control groups has them, in a tree that stands for /sys/fs/cgroup."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.bench.storage.control_groups import DiskLimits, SystemGroup, hierarchies, root_limits, set_root_limits
from highwater.bench.storage.page_cache import cache_state
from highwater.common.errors import UsageError
from highwater.tuning.facts import collect
from highwater.tuning.hostfiles import HostFiles

LIMITS = DiskLimits(bandwidth_bytes_per_s=1 << 20, operations_per_s=100)


def host(root: Path, mounts: str, controllers: str = "") -> HostFiles:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    for name in ("blkio", "memory", "unified"):
        (root / "sys/fs/cgroup" / name).mkdir(parents=True)
    (root / "sys/fs/cgroup/unified/cgroup.controllers").write_text(controllers)
    return HostFiles(root)


VERSION_1 = """\
30 1 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 1 0:31 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio
32 1 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
VERSION_2 = "32 1 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


def test_controllers_are_found_where_they_are(tmp_path: Path) -> None:
    host(tmp_path, VERSION_1, "hugetlb")
    found = hierarchies(collect(tmp_path))
    assert (found.blkio_v1, found.memory_v1, found.unified) == ("/sys/fs/cgroup/blkio", "/sys/fs/cgroup/memory", None)


def test_version_2_serves_when_it_has_both_controllers(tmp_path: Path) -> None:
    host(tmp_path, VERSION_2, "cpu io memory pids")
    found = hierarchies(collect(tmp_path))
    assert (found.blkio_v1, found.memory_v1, found.unified) == (None, None, "/sys/fs/cgroup/unified")


def test_limits_of_the_root_group_are_read_back_as_they_stand(tmp_path: Path) -> None:
    files = host(tmp_path, VERSION_1)
    for name in ("read_bps", "write_bps", "read_iops", "write_iops"):
        (tmp_path / f"sys/fs/cgroup/blkio/blkio.throttle.{name}_device").write_text("")
    set_root_limits(files, "/sys/fs/cgroup/blkio", "7:3", LIMITS)
    assert root_limits(files, "/sys/fs/cgroup/blkio", "7:3") == LIMITS
    assert root_limits(files, "/sys/fs/cgroup/blkio", "7:30") is None
    (tmp_path / "sys/fs/cgroup/blkio/blkio.throttle.write_iops_device").write_text("7:3 5")
    assert root_limits(files, "/sys/fs/cgroup/blkio", "7:3") is None


def prepared(path: Path, *names: str) -> None:
    """The kernel fills a new group with its files; a plain directory needs help."""
    for name in names:
        (path / name).write_text("")


def group_in(parent: Path) -> Path:
    (path,) = (entry for entry in parent.iterdir() if entry.is_dir())
    return path


def test_a_system_without_limits_gets_no_group(tmp_path: Path) -> None:
    host(tmp_path, VERSION_1)
    with SystemGroup(hierarchies(collect(tmp_path)), None, {"7:0": LIMITS}) as group:
        group.take([os.getpid()])
        # Version 1 holds the disk's limits in its root group.
        assert not any((tmp_path / "sys/fs/cgroup/memory").iterdir())


def test_a_host_without_a_memory_group_cannot_limit(tmp_path: Path) -> None:
    host(tmp_path, "")
    with pytest.raises(UsageError, match=r"has no memory control group .* leave storage\.cache_limit out$"):
        SystemGroup(hierarchies(collect(tmp_path)), 1 << 20, {}).__enter__()


def test_a_group_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    host(tmp_path, VERSION_1)
    # A plain directory has no memory.limit_in_bytes to write to.
    with pytest.raises(UsageError, match=r"^cannot limit the system under test .*: No such file .*; run as root"):
        SystemGroup(hierarchies(collect(tmp_path)), 1 << 20, {}).__enter__()
    assert not any((tmp_path / "sys/fs/cgroup/memory").iterdir())


def test_version_2_has_both_limits_in_the_systems_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host(tmp_path, VERSION_2, "io memory")
    parent = tmp_path / "sys/fs/cgroup/unified"
    prepared(parent, "cgroup.subtree_control")
    make = Path.mkdir

    def make_group(path: Path) -> None:
        make(path)
        prepared(path, "memory.max", "memory.swap.max", "io.max", "cgroup.procs")

    monkeypatch.setattr(Path, "mkdir", make_group)
    group = SystemGroup(hierarchies(collect(tmp_path)), 1 << 20, {"7:0": LIMITS}).__enter__()
    # A process that has no children: those of this one, which other tests may have started, would be taken too.
    with subprocess.Popen(["sleep", "60"]) as taken:
        group.take([taken.pid])
        taken.kill()
    path = group_in(parent)
    assert (parent / "cgroup.subtree_control").read_text() == "+memory +io\n"
    assert (path / "memory.max").read_text() == "1048576\n"
    assert (path / "memory.swap.max").read_text() == "0\n"
    assert (path / "io.max").read_text() == "7:0 rbps=1048576 wbps=1048576 riops=100 wiops=100\n"
    assert (path / "cgroup.procs").read_text() == f"{taken.pid}\n"


def test_a_group_that_ran_out_of_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host(tmp_path, VERSION_2, "io memory")
    prepared(tmp_path / "sys/fs/cgroup/unified", "cgroup.subtree_control")
    make = Path.mkdir

    def make_group(path: Path) -> None:
        make(path)
        prepared(path, "memory.max", "memory.swap.max")

    monkeypatch.setattr(Path, "mkdir", make_group)
    group = SystemGroup(hierarchies(collect(tmp_path)), 1 << 20, {}).__enter__()
    events = group_in(tmp_path / "sys/fs/cgroup/unified") / "memory.events"
    for text, problem in (
        ("low 0\noom 2\noom_kill 0\n", None),
        ("low 0\noom 2\noom_kill 1\n", "the system needed more memory than storage.cache_limit, 1 MiB; raise it"),
    ):
        events.write_text(text)
        assert group.problem() == problem


def test_groups_of_runs_that_were_killed_are_swept_away(tmp_path: Path) -> None:
    host(tmp_path, VERSION_1)
    parent = tmp_path / "sys/fs/cgroup/memory"
    ended = subprocess.Popen(["true"])
    ended.wait()
    kept = [f"highwater-{os.getpid()}-0a", "highwater-x", "other"]
    for name in (f"highwater-{ended.pid}-0a", *kept):
        (parent / name).mkdir()
    with pytest.raises(UsageError):
        SystemGroup(hierarchies(collect(tmp_path)), 1 << 20, {}).__enter__()
    assert sorted(entry.name for entry in parent.iterdir()) == sorted(kept)


def may_make_groups() -> str | None:
    """Why this host's own control groups cannot be tried; None when they can."""
    where = hierarchies(collect())
    try:
        with SystemGroup(where, 1 << 30, {}):
            return None
    except UsageError as error:
        return str(error)


def test_the_page_cache_of_a_real_group_stays_within_its_limit(tmp_path: Path) -> None:
    if (reason := may_make_groups()) is not None:
        pytest.skip(f"no control group can be made here: {reason}")
    limit_bytes = 32 << 20
    script = (
        "import sys\n"
        "print(flush=True); input()\n"
        "with open(sys.argv[1], 'wb') as file:\n"
        "    for _ in range(96):\n"
        "        file.write(bytes(1 << 20))\n"
        "print(flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "file")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    with SystemGroup(hierarchies(collect()), limit_bytes, {}) as group:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()
            group.take([process.pid])
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.readline()
            assert 0 < cache_state([tmp_path / "file"]).resident_bytes <= limit_bytes
        finally:
            process.communicate(b"\n")
            assert process.wait() == 0
