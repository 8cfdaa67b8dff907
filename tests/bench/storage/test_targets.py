from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from highwater.bench.storage.areas import StorageAreas
from highwater.bench.storage.targets import describe_target, mounted_targets
from highwater.common.errors import UsageError
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts

MOUNTS = """\
22 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw
23 22 259:1 / /fast rw,noatime - xfs /dev/nvme0n1p1 rw,attr2
24 22 0:40 / /dev/shm rw - tmpfs tmpfs rw,size=1g
25 22 7:0 / /emulated rw - ext4 /dev/loop0 rw
26 22 254:0 / /cloud rw - ext4 /dev/vda rw
27 22 0:50 / /nfs rw - nfs4 server:/export rw
28 22 9:0 / /raid rw - ext4 /dev/md0 rw
29 22 0:41 / /sys/fs/cgroup rw - tmpfs tmpfs rw
30 22 8:2 / /readonly ro - ext4 /dev/sda2 rw
"""


def device(
    root: Path, name: str, number: str, rotational: str, *, model: str = "", members: tuple[str, ...] = ()
) -> None:
    base = root / "sys/block" / name
    (base / "queue").mkdir(parents=True)
    (base / "dev").write_text(number + "\n")
    (base / "size").write_text("2048\n")
    (base / "queue/rotational").write_text(rotational + "\n")
    (base / "queue/scheduler").write_text("none [mq-deadline]\n")
    if model:
        (base / "device").mkdir()
        (base / "device/model").write_text(model + "  \n")
    for member in members:
        (base / "slaves" / member).mkdir(parents=True)


def partition(root: Path, disk: str, name: str, number: str) -> None:
    base = root / "sys/block" / disk / name
    base.mkdir()
    (base / "partition").write_text("1\n")
    (base / "dev").write_text(number + "\n")


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    """A host with one of everything."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS)
    device(tmp_path, "sda", "8:0", "1", model="ST4000NM0035")
    partition(tmp_path, "sda", "sda2", "8:2")
    device(tmp_path, "sdb", "8:16", "0", model="INTEL SSDSC2")
    device(tmp_path, "nvme0n1", "259:0", "0", model="Samsung 990")
    partition(tmp_path, "nvme0n1", "nvme0n1p1", "259:1")
    device(tmp_path, "loop0", "7:0", "1")
    device(tmp_path, "vda", "254:0", "1")
    device(tmp_path, "md0", "9:0", "1", members=("sda", "sdb"))
    return collect(tmp_path)


@pytest.mark.parametrize(
    ("path", "device", "medium", "model", "filesystem"),
    [
        ("/var/lib", "sda", "hdd", "ST4000NM0035", "ext4"),
        ("/fast/log", "nvme0n1", "nvme", "Samsung 990", "xfs"),
        ("/dev/shm/log", None, "memory", None, "tmpfs"),
        ("/emulated", "loop0", "hdd", None, "ext4"),
        # A virtual disk's rotational flag is its driver's default.
        ("/cloud", "vda", "unknown", None, "ext4"),
        ("/nfs", None, "unknown", None, "nfs4"),
        ("/raid", "sda+sdb", "unknown", None, "ext4"),
    ],
)
def test_the_medium_is_what_the_host_says(
    facts: Facts, path: str, device: str | None, medium: str, model: str | None, filesystem: str
) -> None:
    target = describe_target("name", Path(path), facts)
    assert (target.device, target.medium, target.model, target.filesystem) == (device, medium, model, filesystem)
    assert target.emulated == (path == "/emulated")


def test_every_place_for_a_log_is_listed(facts: Facts) -> None:
    listed = {target.name: target.medium for target in mounted_targets(facts)}
    assert listed == {
        "/": "hdd",
        "/fast": "nvme",
        "/dev/shm": "memory",
        "/emulated": "hdd",
        "/cloud": "unknown",
        "/raid": "unknown",
    }


def test_a_plain_loop_device_is_what_its_file_lies_on(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS)
    device(tmp_path, "nvme0n1", "259:0", "0", model="Samsung 990")
    partition(tmp_path, "nvme0n1", "nvme0n1p1", "259:1")
    device(tmp_path, "loop0", "7:0", "0")
    (tmp_path / "sys/block/loop0/loop").mkdir()
    (tmp_path / "sys/block/loop0/loop/backing_file").write_text("/fast/image\n")
    target = describe_target("name", Path("/emulated"), collect(tmp_path))
    assert (target.medium, target.emulated, target.backing_device) == ("nvme", True, "nvme0n1")
    assert target.emulation == "a file as a disk, without limits of ours"


def test_mount_options_and_scheduler_are_kept(facts: Facts) -> None:
    target = describe_target("name", Path("/fast"), facts)
    assert "noatime" in target.mount_options
    assert target.scheduler == "mq-deadline"


def test_areas_are_removed_with_all_that_is_in_them(tmp_path: Path) -> None:
    with StorageAreas() as areas:
        areas.add("here", tmp_path, 0)
        directory = areas.trial_directory("here", "001-acks=1,load.rate=2")
        assert "," not in directory.name
        (directory / "file").write_text("x")
        assert directory.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_areas_are_removed_when_the_run_breaks(tmp_path: Path) -> None:
    def break_off() -> None:
        with StorageAreas() as areas:
            areas.add("here", tmp_path, 0)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert list(tmp_path.iterdir()) == []


def test_data_is_kept_when_asked(tmp_path: Path) -> None:
    with StorageAreas(keep_data=True) as areas:
        areas.add("here", tmp_path, 0)
        directory = areas.trial_directory("here", "001-base")
        areas.release(directory)
    assert directory.is_dir()


def test_a_target_that_is_missing_or_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with StorageAreas() as areas:
        with pytest.raises(UsageError, match=r"^storage target a: .*/none does not exist; make it first"):
            areas.add("a", tmp_path / "none", 0)
        with pytest.raises(UsageError, match=r"^storage target a: .*/file is not a directory"):
            areas.add("a", tmp_path / "file", 0)


def test_a_target_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "fsync", full)
    with (
        StorageAreas() as areas,
        pytest.raises(UsageError, match=r"^storage target a: cannot write to .*: Read-only file system$"),
    ):
        areas.add("a", tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_target_without_enough_space(tmp_path: Path) -> None:
    told = r"the run may write 1,024 TiB, beside which 256 MiB stay free"
    with StorageAreas() as areas, pytest.raises(UsageError, match=told):
        areas.add("a", tmp_path, 1 << 50)
