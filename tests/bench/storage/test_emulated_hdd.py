"""The emulated disk: nothing of others is touched, half-made ones are finished or taken away, and it is really slow."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.bench.storage import block_tools, emulated_hdd
from highwater.bench.storage.control_groups import DiskLimits, root_limits
from highwater.bench.storage.emulated_hdd import DiskHost, Record, disk_at, disks, make, remove, require_ready
from highwater.bench.storage.targets import describe_target
from highwater.common.errors import UsageError
from highwater.tuning.facts import collect

SIZE_BYTES = 64 << 20
LIMITS = DiskLimits(bandwidth_bytes_per_s=32 << 20, operations_per_s=64)


@pytest.fixture
def host(tmp_path: Path) -> DiskHost:
    return DiskHost(collect(), records=str(tmp_path / "records"))


def may_make_disks() -> str | None:
    """Why no disk can be emulated on this host; None when one can."""
    if os.geteuid() != 0:
        return "needs root"
    host = DiskHost(collect())
    if host.groups.blkio_v1 is None:
        return "needs the blkio controller of cgroup v1"
    tried = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else None


@pytest.fixture
def real_host(host: DiskHost) -> Iterator[DiskHost]:
    """Takes away what a test has made, even when it failed."""
    if (reason := may_make_disks()) is not None:
        pytest.skip(f"no disk can be emulated here: {reason}")
    yield host
    for disk in disks(host):
        remove(host, disk.record.name)
    assert not disks(host)


def the_directory(host: DiskHost) -> Path:
    path = Path(host.records).parent / "on"
    path.mkdir(exist_ok=True)
    return path


def test_a_disk_is_made_slow_and_removed_whole(real_host: DiskHost) -> None:
    on = the_directory(real_host)
    disk = make(real_host, "test", on, SIZE_BYTES, LIMITS)
    assert (disk.status, disk.problem) == ("ready", None)
    assert disk.device is not None
    assert disk.device.direct
    mount_point = Path(disk.record.mount_point)
    (mount_point / "file").write_text("kept")

    target = describe_target("hdd", mount_point, collect())
    assert (target.medium, target.emulated, target.device) == ("hdd", True, disk.device.name)
    # Its record is not where this host keeps them, so only the device is known.
    assert target.emulation == "a file as a disk, without limits of ours"

    again = make(real_host, "test", None, None, None)
    assert again.record == disk.record
    assert (mount_point / "file").read_text() == "kept"
    slower = make(real_host, "test", None, None, DiskLimits(16 << 20, 32))
    assert slower.record.limits == DiskLimits(16 << 20, 32)

    blkio = real_host.groups.blkio_v1
    assert blkio is not None
    remove(real_host, "test")
    assert list(on.iterdir()) == []
    assert block_tools.loop_device_of(Path(disk.record.image)) is None
    number = disk.record.device_number
    assert number is not None
    limits = (Path(blkio) / "blkio.throttle.write_bps_device").read_text().splitlines()
    assert not [line for line in limits if line.startswith(f"{number} ")]
    with pytest.raises(UsageError, match=r"^there is no emulated disk 'test' \(there is: none\)$"):
        remove(real_host, "test")


def test_a_volume_with_xfs_does_more_operations_than_a_disk_that_seeks(real_host: DiskHost) -> None:
    if shutil.which("mkfs.xfs") is None:
        pytest.skip("needs mkfs.xfs (apt-get install -y xfsprogs)")
    disk = make(real_host, "test", the_directory(real_host), 320 << 20, DiskLimits(64 << 20, 3000), "xfs")
    target = describe_target("volume", Path(disk.record.mount_point), collect())
    assert (disk.status, target.filesystem, target.emulated) == ("ready", "xfs", True)
    assert target.medium != "hdd"
    with pytest.raises(UsageError, match=r"^--filesystem: the emulated disk test is there with xfs; remove it first"):
        make(real_host, "test", None, None, None, "ext4")


def test_after_a_reboot_it_comes_back_with_what_is_on_it(real_host: DiskHost) -> None:
    disk = make(real_host, "test", the_directory(real_host), SIZE_BYTES, LIMITS)
    mount_point = Path(disk.record.mount_point)
    (mount_point / "file").write_text("kept")
    # What a reboot leaves: the image and the record, of another boot and with a device that is somebody else's.
    block_tools.unmount(mount_point)
    assert disk.device is not None
    block_tools.detach(disk.device)
    (found,) = disks(real_host)
    assert found.status == "not mounted"
    with pytest.raises(
        UsageError, match=r"is not mounted \(since a reboot\?\); run: highwater bench storage .* make test$"
    ):
        require_ready(real_host, mount_point / "folder")
    record = found.record.model_copy(update={"boot_id": "another"})
    (Path(real_host.records) / "test.json").write_text(record.model_dump_json())
    assert make(real_host, "test", None, None, None).status == "ready"
    assert (mount_point / "file").read_text() == "kept"
    require_ready(real_host, mount_point)


def test_limits_do_not_stay_on_a_device_that_is_no_longer_its_own(real_host: DiskHost) -> None:
    disk = make(real_host, "test", the_directory(real_host), SIZE_BYTES, LIMITS)
    blkio, number = real_host.groups.blkio_v1, disk.record.device_number
    assert blkio is not None
    assert number is not None
    assert disk.device is not None
    block_tools.unmount(Path(disk.record.mount_point))
    block_tools.detach(disk.device)
    # Somebody else takes the device before the disk comes back.
    other = Path(real_host.records).parent / "other"
    other.write_bytes(bytes(1 << 20))
    taken = block_tools.attach(other)
    try:
        assert make(real_host, "test", None, None, None).status == "ready"
        assert taken.path != disk.device.path or root_limits(real_host.facts.files, blkio, number) is None
    finally:
        block_tools.detach(taken)


def test_an_image_that_was_replaced_is_not_deleted(real_host: DiskHost) -> None:
    disk = make(real_host, "test", the_directory(real_host), SIZE_BYTES, LIMITS)
    assert disk.device is not None
    block_tools.unmount(Path(disk.record.mount_point))
    block_tools.detach(disk.device)
    image = Path(disk.record.image)
    block_tools.make_ext4(image, "mine", "11111111-2222-3333-4444-555555555555")
    with pytest.raises(UsageError, match=r"test\.hdd\.img is another file than was made; move it away"):
        remove(real_host, "test")
    assert image.exists()
    image.unlink()


def test_a_disk_without_its_limits_is_no_hard_disk(real_host: DiskHost) -> None:
    disk = make(real_host, "test", the_directory(real_host), SIZE_BYTES, LIMITS)
    blkio = real_host.groups.blkio_v1
    assert blkio is not None
    (Path(blkio) / "blkio.throttle.read_iops_device").write_text(f"{disk.record.device_number} 0")
    (found,) = disks(real_host)
    assert found.status == "limits missing"
    with pytest.raises(UsageError, match=r"has lost its limits"):
        require_ready(real_host, Path(disk.record.mount_point))
    assert make(real_host, "test", None, None, None).status == "ready"


@pytest.mark.parametrize("step", ["make_ext4", "attach", "mount"])
def test_what_broke_half_way_is_finished_or_removed(
    real_host: DiskHost, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise UsageError("the power went")

    with monkeypatch.context() as broken:
        broken.setattr(block_tools, step, fail)
        with pytest.raises(UsageError, match="the power went"):
            make(real_host, "test", the_directory(real_host), SIZE_BYTES, LIMITS)
    (found,) = disks(real_host)
    assert found.status == "half made"
    if step == "attach":
        remove(real_host, "test")
        assert list(the_directory(real_host).iterdir()) == []
    else:
        assert make(real_host, "test", None, None, None).status == "ready"


def test_limits_that_do_not_hold_are_said_not_to(real_host: DiskHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated_hdd, "set_root_limits", lambda *_: None)
    with pytest.raises(UsageError, match=r"^the limits of the emulated disk test do not hold: .*/s were written where"):
        make(real_host, "test", the_directory(real_host), SIZE_BYTES, DiskLimits(1 << 20, 1))


def test_a_disk_in_use_is_not_removed(real_host: DiskHost) -> None:
    disk = make(real_host, "test", the_directory(real_host), SIZE_BYTES, LIMITS)
    with (Path(disk.record.mount_point) / "file").open("w"), pytest.raises(UsageError, match=r"^umount failed: .*busy"):
        remove(real_host, "test")
    assert make(real_host, "test", None, None, None).status == "ready"


def test_files_of_others_are_not_touched(real_host: DiskHost) -> None:
    on = the_directory(real_host)
    (on / "test.hdd.img").write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"test\.hdd\.img is there and not ours; move it away"):
        make(real_host, "test", on, SIZE_BYTES, LIMITS)
    assert (on / "test.hdd.img").read_bytes() == b"mine"
    (on / "test.hdd.img").unlink()
    (on / "test.hdd").mkdir()
    with pytest.raises(UsageError, match=r"test\.hdd is there and not ours; move it away"):
        make(real_host, "test", on, SIZE_BYTES, LIMITS)
    assert disks(real_host) == []


@pytest.mark.parametrize(
    ("name", "size_bytes", "limits", "complaint"),
    [
        ("Bad name", SIZE_BYTES, LIMITS, r"^'Bad name' is not a name for a disk"),
        ("test", 1 << 20, LIMITS, r"^--size: 1 MiB is too small for ext4; use at least 32MiB"),
        ("test", 1 << 60, LIMITS, r"^--on: .* free and the disk takes 1,048,576 TiB; choose a smaller --size"),
        ("test", SIZE_BYTES, DiskLimits(0, 1), r"^--bandwidth: must be more than zero$"),
    ],
)
def test_bad_wishes(real_host: DiskHost, name: str, size_bytes: int, limits: DiskLimits, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        make(real_host, name, the_directory(real_host), size_bytes, limits)
    assert list(the_directory(real_host).iterdir()) == []


def test_a_directory_is_needed_once_and_kept(real_host: DiskHost) -> None:
    with pytest.raises(UsageError, match=r"^--on is missing"):
        make(real_host, "test", None, SIZE_BYTES, LIMITS)
    with pytest.raises(UsageError, match=r"^--on: .*/none is not a directory"):
        make(real_host, "test", Path(real_host.records) / "none", SIZE_BYTES, LIMITS)
    make(real_host, "test", the_directory(real_host), SIZE_BYTES, LIMITS)
    with pytest.raises(UsageError, match=r"^--size: the emulated disk test is there with 64 MiB; remove it first"):
        make(real_host, "test", None, SIZE_BYTES * 2, None)


def test_only_root_makes_and_removes(host: DiskHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=r"^an emulated disk can be made by root alone .*; use sudo$"):
        make(host, "test", None, None, None)
    with pytest.raises(UsageError, match=r"^an emulated disk can be removed by root alone"):
        remove(host, "test")
    assert disks(host) == []


def test_a_record_that_cannot_be_read_is_named(host: DiskHost) -> None:
    Path(host.records).mkdir()
    (Path(host.records) / "test.json").write_text("{")
    with pytest.raises(UsageError, match=r"test\.json is not a readable record of an emulated disk"):
        disks(host)


def test_a_path_belongs_to_the_disk_that_is_meant_to_be_there(host: DiskHost, tmp_path: Path) -> None:
    record = Record(
        name="test",
        image=str(tmp_path / "test.hdd.img"),
        mount_point=str(tmp_path / "test.hdd"),
        size_bytes=SIZE_BYTES,
        uuid="0",
        bandwidth_bytes_per_s=1,
        operations_per_s=1,
        finished=True,
    )
    Path(host.records).mkdir()
    (Path(host.records) / "test.json").write_text(record.model_dump_json())
    # A run on the empty mount point would measure the disk below it under the name of the emulated one.
    found = disk_at(host, tmp_path / "test.hdd" / "folder")
    assert found is not None
    assert found.status == "not mounted"
    assert disk_at(host, tmp_path) is None
