"""Control groups of version 1, 2 and both, from inside and outside of containers."""

from __future__ import annotations

from pathlib import Path

from highwater.tuning.facts import collect
from highwater.tuning.facts.model import ControlGroup
from tests.tuning.host_tree import GIB, make_host, write

_TWO = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def _group(tmp_path: Path, mounts: str, groups: str, files: dict[str, str]) -> ControlGroup:
    make_host(tmp_path)
    write(tmp_path, "/proc/self/mountinfo", mounts)
    write(tmp_path, "/proc/self/cgroup", groups)
    for path, text in files.items():
        write(tmp_path, f"/sys/fs/cgroup/{path}", text)
    return collect(tmp_path).control_group


def test_version_2(tmp_path: Path) -> None:
    files = {
        "a/memory.max": f"{4 * GIB}\n",
        "a/memory.high": f"{3 * GIB}\n",
        "a/memory.swap.max": "0\n",
        "a/b/memory.max": "max\n",
        "a/cpu.max": "max 100000\n",
        "a/b/cpu.max": "250000 100000\n",
        "a/b/cpuset.cpus.effective": "0-3\n",
        "a/pids.max": "512\n",
        "a/b/io.max": "8:0 wbps=1048576\n",
    }
    assert _group(tmp_path, _TWO, "0::/a/b\n", files) == ControlGroup(
        version="v2",
        path="/a/b",
        memory_max_bytes=4 * GIB,
        memory_high_bytes=3 * GIB,
        memory_swap_max_bytes=0,
        cpu_limit=2.5,
        cpus=(0, 1, 2, 3),
        pids_max=512,
        io_max=("8:0 wbps=1048576",),
    )


def test_version_1(tmp_path: Path) -> None:
    mounts = "".join(
        f"{number} 1 0:{number} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
        for number, name in enumerate(("memory", "cpu", "pids", "blkio"), start=30)
    )
    groups = "5:blkio:/x\n4:memory:/x\n3:cpu:/x\n2:pids:/\n1:name=systemd:/\n"
    files = {
        "memory/x/memory.limit_in_bytes": f"{2 * GIB}\n",
        "cpu/x/cpu.cfs_quota_us": "50000\n",
        "cpu/x/cpu.cfs_period_us": "100000\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
        "blkio/x/blkio.throttle.write_bps_device": "8:0 1000000\n",
    }
    group = _group(tmp_path, mounts, groups, files)
    assert (group.version, group.memory_max_bytes, group.cpu_limit) == ("v1", 2 * GIB, 0.5)
    assert (group.pids_max, group.io_max) == (None, ("8:0 wbps=1000000",))


def test_both_versions_with_the_controllers_in_the_first(tmp_path: Path) -> None:
    mounts = (
        "31 1 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 1 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    )
    files = {"memory/x/memory.limit_in_bytes": f"{GIB}\n", "unified/pids.max": "7\n"}
    group = _group(tmp_path, mounts, "4:memory:/x\n0::/\n", files)
    assert (group.version, group.memory_max_bytes, group.pids_max) == ("hybrid", GIB, 7)


def test_a_named_hierarchy_of_version_1_controls_nothing(tmp_path: Path) -> None:
    mounts = _TWO + "33 1 0:33 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    assert _group(tmp_path, mounts, "0::/\n", {}).version == "v2"


def test_no_control_groups_and_garbage(tmp_path: Path) -> None:
    assert _group(tmp_path / "none", "", "", {}).version is None
    assert _group(tmp_path / "garbage", _TWO, "what:is\n", {}).memory_max_bytes is None
    odd = {"cpu.max": "lots\n", "memory.max": "-5\n", "cpuset.cpus.effective": "x\n", "io.max": ""}
    group = _group(tmp_path / "odd", _TWO, "0::/\n", odd)
    assert (group.cpu_limit, group.memory_max_bytes, group.cpus, group.io_max) == (None, None, None, ())
