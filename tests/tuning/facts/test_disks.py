"""Disks and the layers over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.tuning.facts import collect
from tests.tuning.host_tree import Disk, make_big_host, make_host, write


@pytest.mark.parametrize(
    ("name", "files", "kind"),
    [
        ("sda", {}, "disk"),
        ("mmcblk0", {}, "disk"),
        ("nvme0n1", {}, "nvme"),
        ("vda", {}, "virtio"),
        ("xvdf", {}, "virtio"),
        ("dm-0", {"dm/uuid": "LVM-abc\n"}, "lvm"),
        ("dm-1", {"dm/uuid": "CRYPT-LUKS2-abc\n"}, "crypt"),
        ("dm-2", {"dm/uuid": "mpath-36001405\n"}, "multipath"),
        ("dm-3", {}, "device mapper"),
        ("zram0", {}, "zram"),
        ("nbd0", {}, "virtual"),
    ],
)
def test_kinds(tmp_path: Path, name: str, files: dict[str, str], kind: str) -> None:
    for path, text in {"size": "1000\n", "dev": "1:2\n", **files}.items():
        write(tmp_path, f"/sys/block/{name}/{path}", text)
    (device,) = collect(tmp_path).block_devices
    assert device.kind == kind


def test_the_level_of_an_array_and_the_file_below_a_loop_device(tmp_path: Path) -> None:
    for path, text in {
        "md127/size": "1000",
        "md127/md/level": "raid10\n",
        "loop3/size": "1000",
        "loop3/loop/backing_file": "/var/disk.img\n",
    }.items():
        write(tmp_path, f"/sys/block/{path}", text)
    loop, array = collect(tmp_path).block_devices
    assert (array.kind, array.raid_level) == ("raid", "raid10")
    assert (loop.kind, loop.backing_file) == ("loop", "/var/disk.img")


def test_queue_and_backing_device_files_are_there_by_name(tmp_path: Path) -> None:
    disk = collect(make_big_host(tmp_path, disks=1, queues=1)).block_devices[0]
    assert disk.queue["write_cache"] == "write back"
    assert disk.queue_number("read_ahead_kb") == 128
    assert disk.queue_number("write_cache") is None
    assert disk.queue_number("no_such_file") is None
    assert disk.bdi == {"max_ratio": "100", "strict_limit": "0"}


def test_udev_tells_what_a_rule_can_match_by(tmp_path: Path) -> None:
    make_host(tmp_path)
    write(tmp_path, "/run/udev/data/b8:0", "S:disk/by-id/x\nE:ID_SERIAL=S3R1AL\nE:ID_PATH=pci-1\nE:ID_BUS=ata\n")
    assert collect(tmp_path).block_devices[0].udev == {"ID_SERIAL": "S3R1AL", "ID_PATH": "pci-1"}


def test_file_systems_are_known_by_their_uuids(tmp_path: Path) -> None:
    make_host(tmp_path)
    folder = tmp_path / "dev/disk/by-uuid"
    folder.mkdir(parents=True)
    (folder / "1111-2222").symlink_to("../../sda1")
    assert collect(tmp_path).filesystem_uuids == {"sda1": "1111-2222"}


def test_a_mapped_layer_is_the_device_of_its_file_system_and_leads_to_its_disks(tmp_path: Path) -> None:
    make_host(tmp_path, disks=(Disk("sda", "/a"), Disk("sdb", "/b")))
    write(tmp_path, "/sys/block/dm-0/dev", "253:0")
    write(tmp_path, "/sys/block/dm-0/size", "1000")
    for member in ("sda1", "sdb1"):
        (tmp_path / f"sys/block/dm-0/slaves/{member}").mkdir(parents=True)
    with (tmp_path / "proc/self/mountinfo").open("a") as mountinfo:
        mountinfo.write("50 1 253:0 / /data rw,noatime - xfs /dev/mapper/vg-data rw\n")
    facts = collect(tmp_path)
    device = facts.device_of("/data/topic-0")
    assert device is not None
    assert device.name == "dm-0"
    assert [disk.name for disk in facts.disks_of("/data/topic-0")] == ["sda", "sdb"]
