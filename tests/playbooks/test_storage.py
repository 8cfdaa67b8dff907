"""Data disks on loop devices: what is refused, what is made, that a second run has nothing to do, and the way back."""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playbooks.module_utils.data_disks import ledger
from playbooks.module_utils.data_disks.device import look_at
from playbooks.module_utils.data_disks.judging import Host, Plan, edited_fstab, make_plan, use_by_others
from playbooks.module_utils.data_disks.making import carry_out, mount_at, removals, take_away
from playbooks.module_utils.data_disks.wanted import Disk, read_disks
from playbooks.module_utils.highwater.tuning.errors import TuningError
from playbooks.module_utils.highwater.tuning.facts import collect
from playbooks.module_utils.highwater.tuning.hostfiles import HostFiles
from playbooks.module_utils.highwater.tuning.runner import SystemRunner
from tests.playbooks.private_host import child, loop_devices, mount, on_private_host, unshare_mounts, why_not

SECTOR = 512
MOUNT_POINT = "/mnt/data/ssd1"
ALWAYS = "nofail,x-systemd.device-timeout=30s"
needs_disks = pytest.mark.skipif(why_not() is not None, reason=f"no private host: {why_not()}")


def entry(device: str, **keys: Any) -> dict[str, Any]:
    defaults = {"name": None, "filesystem": "ext4", "mount_options": ["noatime"], "mkfs_options": None}
    return {
        "device": device,
        "mount_point": MOUNT_POINT,
        "medium": "ssd",
        **defaults,
        "emulated": False,
        "uuid": None,
        **keys,
    }


def disk(device: str, **keys: Any) -> Disk:
    disks, faults = read_disks([entry(device, **keys)], "30s")
    assert faults == []
    return disks[0]


def plan_for(*disks: Disk, allow_format: bool = True) -> Plan:
    facts = collect()
    text = Path("/etc/fstab").read_text("utf-8")
    return make_plan(disks, Host(facts, SystemRunner(), text, ledger.read(facts.files)), allow_format=allow_format)


def make(*disks: Disk) -> list[str]:
    """What was changed, all of it or nothing."""
    plan = plan_for(*disks)
    assert plan.faults == []
    changes = plan.changes()
    if changes:
        carry_out(plan, collect(), SystemRunner())
    return changes


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def on_disks(tmp_path: Path, count: int, body: Callable[[list[str]], None], size_bytes: int = 32 << 20) -> None:
    with loop_devices(tmp_path, count, size_bytes) as devices:
        on_private_host(tmp_path, lambda: body(devices))


def fstab_text() -> str:
    return Path("/etc/fstab").read_text("utf-8")


# --- what needs no disk -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"device": "sdb"}, "device sdb is not a path below /dev; name one of /dev/disk/by-id"),
        ({"mount_point": "data"}, "mount_point data of /dev/x is not an absolute path below /"),
        ({"mount_point": "/data/../etc"}, "mount_point /data/../etc of /dev/x is not an absolute path"),
        ({"mount_point": "/"}, "mount_point / of /dev/x is not an absolute path below /"),
        ({"mount_point": "/da ta/b"}, "mount_point '/da ta/b' of /dev/x has a blank or a backslash"),
        ({"name": "a-very-long-name"}, "give it a name of up to 13 letters, digits, dots and dashes"),
        ({"name": "twelve-bytes", "filesystem": "xfs"}, "give it a name of up to 9 letters"),
        ({"mount_options": ["no atime"]}, "mount option 'no atime' of /dev/x has a blank"),
        ({"mount_options": ["noatime,ro"]}, "mount option ro of /dev/x would keep a log from being written"),
        ({"uuid": "12"}, "uuid '12' of /dev/x is not a UUID; `blkid /dev/x` tells it"),
    ],
)
def test_what_is_wrong_with_a_disk_by_its_words_alone(keys: dict[str, Any], fault: str) -> None:
    (told,) = read_disks([{**entry("/dev/x"), **keys}], "30s")[1]
    assert fault in told


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"device": "/dev/x", "mount_point": "/data/2"}, "storage_disks names /dev/x twice; leave one of them"),
        ({"name": "ssd1", "mount_point": "/data/2"}, "/dev/x and /dev/y are both named ssd1"),
        ({"name": "b"}, "are the same or one within the other; give each disk a place of its own"),
        ({"mount_point": f"{MOUNT_POINT}/b"}, "are the same or one within the other"),
    ],
)
def test_disks_that_cannot_be_beside_each_other(keys: dict[str, Any], fault: str) -> None:
    (told,) = read_disks([entry("/dev/x"), entry(**{"device": "/dev/y", **keys})], "30s")[1]
    assert fault in told


@pytest.mark.parametrize(
    ("options", "given_before", "wanted", "then"),
    [
        ("noatime", (), ["noatime"], f"noatime,{ALWAYS}"),
        ("defaults", (), ["noatime"], f"defaults,noatime,{ALWAYS}"),
        (f"rw,noatime,{ALWAYS},commit=30", (), ["noatime"], None),
        (f"relatime,{ALWAYS}", (), ["noatime"], f"noatime,{ALWAYS}"),
        (f"commit=5,{ALWAYS}", (), ["commit=60"], f"commit=60,{ALWAYS}"),
        (f"discard,noatime,{ALWAYS}", ("discard", "noatime"), ["noatime"], f"noatime,{ALWAYS}"),
        ("noauto,nofail,x-systemd.device-timeout=9s", (), [], ALWAYS),
    ],
)
def test_a_line_of_fstab_gets_what_it_lacks_and_keeps_the_rest(
    options: str, given_before: tuple[str, ...], wanted: list[str], then: str | None
) -> None:
    line = f"UUID=0a\t{MOUNT_POINT} ext4   {options} 0 2 # data"
    text = f"# first\n{line}\n/dev/sr0 /media iso9660 noauto 0 0"
    before = ledger.Entry(MOUNT_POINT, "/dev/x", "0a", "ext4", "in use", options=given_before)
    edited = edited_fstab(text, disk("/dev/x", mount_options=wanted), "0a", before)
    assert edited == text.replace(options, then) if then else text


def test_a_ledger_that_another_user_may_have_written_is_not_obeyed(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    ledger.write(files, {MOUNT_POINT: ledger.Entry(MOUNT_POINT, "/dev/x", "0a", "ext4", "in use", formatted=True)})
    assert ledger.read(files)[MOUNT_POINT].formatted
    files.locate(ledger.FOLDER).chmod(0o777)
    with pytest.raises(TuningError, match=f"another user may change {ledger.FOLDER};"):
        ledger.read(files)


def test_a_new_line_of_fstab_is_added_to_a_file_without_an_end(tmp_path: Path) -> None:
    edited = edited_fstab("# nothing yet", disk("/dev/x", filesystem="xfs"), "0a", None)
    assert edited == f"# nothing yet\nUUID=0a {MOUNT_POINT} xfs noatime,{ALWAYS} 0 0\n"


# --- what is refused --------------------------------------------------------------------------------------------------


def at(offset: int, content: bytes) -> Callable[[str], None]:
    def write(device: str) -> None:
        with Path(device).open("r+b") as file:
            file.seek(offset)
            file.write(content)

    return write


def lvm_label() -> bytes:
    """As lib/format_text of LVM writes it: the checksum is a CRC-32 with a start of its own."""
    tail = (32).to_bytes(4, "little") + b"LVM2 001" + b"0123456789abcdef" * 2
    tail += bytes(SECTOR - 20 - len(tail))
    checksum = zlib.crc32(tail, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    return b"LABELONE" + (1).to_bytes(8, "little") + checksum.to_bytes(4, "little") + tail


def raid_superblock() -> bytes:
    """mdp_superblock_1 of Linux' md_p.h, version 1.2, of one member."""
    block = bytearray(256 + 2)
    block[0:8] = (0xA92B4EFC).to_bytes(4, "little") + (1).to_bytes(4, "little")
    block[16:32] = b"0123456789abcdef"
    block[144:152] = (8).to_bytes(8, "little")
    block[220:224] = (1).to_bytes(4, "little")
    words = sum(int.from_bytes(block[at : at + 4], "little") for at in range(0, 256, 4)) + int.from_bytes(
        block[256:], "little"
    )
    block[216:220] = ((words & 0xFFFFFFFF) + (words >> 32)).to_bytes(4, "little")
    return bytes(block)


def partition_table() -> bytes:
    one = bytes([0x80, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    return bytes(446) + one + bytes(48) + b"\x55\xaa"


def xfs_superblock() -> bytes:
    """The fields that libblkid holds to be consistent."""
    block = bytearray(SECTOR)
    block[0:8] = b"XFSB" + (4096).to_bytes(4, "big")
    block[8:16] = (8192).to_bytes(8, "big")
    block[32:48] = b"0123456789abcdef"
    block[80:84] = (1).to_bytes(4, "big")
    block[84:88] = (2048).to_bytes(4, "big")
    block[88:92] = (4).to_bytes(4, "big")
    block[100:108] = (
        (0xB4A5).to_bytes(2, "big") + (512).to_bytes(2, "big") + (512).to_bytes(2, "big") + (8).to_bytes(2, "big")
    )
    block[120:126] = bytes([12, 9, 9, 3, 11, 0])
    block[126:128] = bytes([0, 25])
    return bytes(block)


CONTENTS: dict[str, tuple[Callable[[str], object], str]] = {
    "ext4": (lambda device: run("mkfs.ext4", "-q", "-L", "mine", device), "ext4 (label mine, UUID"),
    "xfs": (at(0, xfs_superblock()), "xfs (UUID 30313233-3435"),
    "swap": (lambda device: run("mkswap", device), "swap (UUID"),
    "LUKS": (at(0, b"LUKS\xba\xbe\x00\x01" + bytes(160) + b"5f0c8a5e-3a7b-4a43-a6d7-1c5a3d1d0b0e"), "crypto_LUKS"),
    "LVM": (at(SECTOR, lvm_label()), "LVM2_member"),
    "md": (at(4096, raid_superblock()), "linux_raid_member"),
    "partitions": (at(0, partition_table()), "dos"),
}


@needs_disks
def test_what_carries_anything_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        for kind, (put, told) in CONTENTS.items():
            at(0, bytes(1 << 20))(device)
            put(device)
            # Not os.sync, which holds up whatever writes on this host.
            with Path(device).open("r+b") as written:
                os.fsync(written.fileno())
            content = Path(device).read_bytes()
            plan = plan_for(disk(device))
            assert len(plan.faults) == 1, kind
            assert plan.faults[0].startswith(f"{device} (32 MiB, "), kind
            assert f"carries {told}" in plan.faults[0]
            assert "and is not formatted; " in plan.faults[0]
            assert plan.faults[0].endswith(f"to erase all that is on it: wipefs --all {device}")
            assert ("to use it as it is: uuid: " in plan.faults[0]) == (kind in ("ext4", "xfs"))
            assert Path(device).read_bytes() == content, kind

    on_disks(tmp_path, 1, body)


@needs_disks
def test_a_disk_that_is_in_use_is_refused(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        here, elsewhere = devices
        run("mkfs.ext4", "-q", here)
        Path("/mnt/other").mkdir()
        mount(here, "/mnt/other")
        assert plan_for(disk(here)).faults == [
            f"{here} is mounted on /mnt/other and not on {MOUNT_POINT}; umount /mnt/other, or correct mount_point"
        ]
        # A blank disk that another namespace uses: only the kernel's claim tells.
        run("mkfs.ext4", "-q", elsewhere)
        ready, done = os.pipe(), os.pipe()

        def hold() -> None:
            unshare_mounts()
            mount(elsewhere, "/var/lib")
            os.write(ready[1], b"x")
            os.read(done[0], 1)

        with child(hold) as pid:
            os.read(ready[0], 1)
            (fault,) = plan_for(disk(elsewhere)).faults
            assert "is in use by something that is not seen from here" in fault
            os.write(done[1], b"x")
            os.waitpid(pid, 0)

    on_disks(tmp_path, 2, body)


@needs_disks
def test_devices_that_are_none(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        assert "/dev/no-such-disk does not exist; " in plan_for(disk("/dev/no-such-disk")).faults[0]
        assert plan_for(disk("/dev/null")).faults[0].startswith("/dev/null is not a block device; name a disk")
        (device,) = devices
        link = Path("/dev/shm/disk-by-another-name")
        link.symlink_to(device)
        try:
            twice = plan_for(disk(device), disk(str(link), mount_point="/mnt/2"))
        finally:
            link.unlink()
        assert twice.faults == [f"{link} and {device} are one disk; leave one of them"]
        facts = collect()
        found = look_at(device, facts, SystemRunner())
        for change, fault in (
            ({"read_only": True}, "is read-only"),
            ({"holders": ("md0",)}, "is part of md0; take it out of there"),
            ({"is_swap": True}, "is used as swap; swapoff"),
            ({"partitions": ("loop0p1",)}, "has partitions (loop0p1); name one of them"),
        ):
            assert fault in use_by_others(replace(found, **change))

    on_disks(tmp_path, 1, body)


@needs_disks
def test_places_where_nothing_can_be_mounted(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        place = Path(MOUNT_POINT)
        place.mkdir(parents=True)
        (place / "records").write_text("kept")
        told = "holds files (records), which"
        assert told in plan_for(disk(device)).faults[0]
        (place / "records").unlink()
        place.rmdir()
        place.write_text("a file")
        assert plan_for(disk(device)).faults == [f"mount_point {place} is not a directory; move it away"]
        place.unlink()
        Path("/mnt/really").mkdir()
        place.symlink_to("/mnt/really")
        assert plan_for(disk(device)).faults == [
            f"mount_point {place} leads through a link to /mnt/really; name that path"
        ]
        place.unlink()
        place.mkdir()
        mount("-t", "tmpfs", "tmpfs", place)
        assert plan_for(disk(device)).faults == [
            f"tmpfs is mounted on {place} and not {device}; umount {place}, or correct storage_disks"
        ]
        run("umount", str(place))
        before = fstab_text()
        Path("/etc/fstab").write_text(f"{before}LABEL=other {place} ext4 defaults 0 2\n")
        (told,) = plan_for(disk(device)).faults
        assert told.startswith(f"/etc/fstab line 5 mounts LABEL=other on {place} and not {device}; take the line out")
        Path("/etc/fstab").write_text(f"{before}UUID=1 {place} ext4\nUUID=2 {place} ext4\n")
        assert plan_for(disk(device)).faults == [f"/etc/fstab mounts {place} in lines 5 and 6; leave one of them"]

    on_disks(tmp_path, 1, body)


# --- what is made -----------------------------------------------------------------------------------------------------


@needs_disks
def test_blank_disks_are_made_once_and_taken_away(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        first, second = devices
        disks = [disk(first), disk(second, mount_point="/mnt/hdd1", medium="hdd", name="big")]
        before = fstab_text()
        assert plan_for(*disks, allow_format=False).permissions[0].startswith(f"{first} (32 MiB, ")
        assert Path(first).read_bytes() == bytes(32 << 20), "looking writes nothing"
        changes = make(*disks)
        assert [change.split(" (")[0] for change in changes[:2]] == [f"FORMAT {first}", f"FORMAT {second}"]
        assert changes[2:] == ["edit /etc/fstab", f"mount {first} on {MOUNT_POINT}", f"mount {second} on /mnt/hdd1"]
        assert plan_for(*disks).changes() == []

        # By commands of others: type, label, UUID, options, reserved blocks.
        uuid, label = (run("blkid", "-o", "value", "-s", tag, "-p", second).strip() for tag in ("UUID", "LABEL"))
        assert label == "hw-big"
        assert fstab_text() == before + "".join(
            f"UUID={run('blkid', '-o', 'value', '-s', 'UUID', '-p', each.device).strip()} {each.mount_point} ext4 "
            f"noatime,{ALWAYS} 0 2\n"
            for each in disks
        )
        options = run("findmnt", "--noheadings", "--output", "OPTIONS", "--mountpoint", "/mnt/hdd1")
        assert "noatime" in options.strip().split(",")
        header = run("dumpe2fs", "-h", second)
        assert "Reserved block count:     0\n" in header
        assert "fast_commit" in header
        assert Path("/var/lib/highwater/provision/fstab.before").read_text() == before

        # A reboot: nothing is mounted, and fstab mounts it. The bare mount point takes no files.
        run("umount", MOUNT_POINT)
        run("umount", "/mnt/hdd1")
        assert Path(MOUNT_POINT).stat().st_mode & 0o777 == 0
        run("mount", "--all", "--types", "ext4")
        assert plan_for(*disks).changes() == []

        # A disk that is no longer named stays, and is told.
        (warning,) = plan_for(disks[0]).warnings[-1:]
        assert warning.startswith(f"{second} on /mnt/hdd1 is no longer in storage_disks; it is left mounted")

        facts = collect()
        there = ledger.read(facts.files)
        assert {found.formatted for found in there.values()} == {True}
        assert "was not formatted here" in removals(there, facts, SystemRunner(), wipe=["/dev/sda"])[1][0]
        found, faults = removals(there, facts, SystemRunner(), wipe=[second])
        assert faults == []
        take_away(found, facts, SystemRunner())
        assert fstab_text() == before
        assert (list(Path("/mnt").iterdir()), list(Path("/var/lib").iterdir())) == ([], [])
        assert run("blkid", "-o", "value", "-s", "LABEL", "-p", first).strip() == "hw-ssd1"
        assert run("wipefs", "--no-act", second) == ""
        # What holds nothing and bears our label is used again without being asked.
        assert plan_for(disks[0], allow_format=False).permissions == []
        assert make(disks[0])[-1] == f"mount {first} on {MOUNT_POINT}"
        assert uuid not in fstab_text()

    on_disks(tmp_path, 2, body)


@needs_disks
def test_data_of_others_is_used_only_when_its_uuid_says_so(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        run("mkfs.ext4", "-q", "-L", "hw-ssd1", device)
        Path("/mnt/x").mkdir()
        mount(device, "/mnt/x")
        Path("/mnt/x/records").write_text("kept")
        run("umount", "/mnt/x")
        uuid = run("blkid", "-o", "value", "-s", "UUID", "-p", device).strip()
        assert f"to use it as it is: uuid: {uuid} in storage_disks" in plan_for(disk(device)).faults[0]
        other = "5f0c8a5e-3a7b-4a43-a6d7-1c5a3d1d0b0e"
        assert "and not UUID 5f0c8a5e" in plan_for(disk(device, uuid=other)).faults[0]
        assert plan_for(disk(device, uuid=uuid, filesystem="xfs")).faults == [
            f"{device} is ext4 and not xfs; say filesystem: ext4"
        ]
        assert make(disk(device, uuid=uuid)) == ["edit /etc/fstab", f"mount {device} on {MOUNT_POINT}"]
        assert Path(MOUNT_POINT, "records").read_text() == "kept"
        assert plan_for(disk(device)).changes() == [], "once it is mounted, its place says whose it is"
        facts = collect()
        assert (
            "was not formatted here" in removals(ledger.read(facts.files), facts, SystemRunner(), wipe=[device])[1][0]
        )

    on_disks(tmp_path, 1, body)


@needs_disks
def test_a_mount_that_is_there_gets_what_it_lacks_and_goes_back(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        run("mkfs.ext4", "-q", device)
        place = Path(MOUNT_POINT)
        place.mkdir(parents=True)
        by_hand = fstab_text() + f"{device}  {place}\text4 relatime,errors=remount-ro 0 2\n"
        Path("/etc/fstab").write_text(by_hand)
        run("mount", str(place))
        wanted = disk(device, mount_options=["noatime", "commit=60", "data=writeback"])
        plan = plan_for(wanted)
        assert plan.pending == [f"data=writeback on {place}: when it is next mounted"]
        assert make(wanted) == [
            "edit /etc/fstab",
            f"remount the file system of {place}: nothing -> commit=60",
            f"remount {place}: relatime -> noatime",
        ]
        live = mount_at(collect().files, str(place))
        assert live is not None
        assert {"noatime", "commit=60", "errors=remount-ro"} <= set(live.options)
        uuid = run("blkid", "-o", "value", "-s", "UUID", "-p", device).strip()
        options = f"noatime,errors=remount-ro,commit=60,data=writeback,{ALWAYS}"
        assert fstab_text().splitlines()[-1] == f"UUID={uuid}  {place}\text4 {options} 0 2"
        assert plan_for(wanted).changes() == []
        assert plan_for(wanted).pending == plan.pending

        # Somebody mounts it otherwise, or adds to the line: the former is a remount, the latter stays.
        run("mount", "-o", "remount,relatime", device, str(place))
        Path("/etc/fstab").write_text(fstab_text().replace("errors=remount-ro", "errors=remount-ro,lazytime"))
        assert make(wanted) == [f"remount {place}: relatime -> noatime"]
        assert "lazytime" in fstab_text()

        # What the kernel does not know changes nothing.
        before = fstab_text()
        broken = plan_for(disk(device, mount_options=["noatim"]))
        with pytest.raises(TuningError, match=f"^{place} cannot be mounted with .*noatim"):
            carry_out(broken, collect(), SystemRunner())
        assert fstab_text() == before

        # An option that is no longer wanted goes, from the file and from what is mounted.
        (change,) = make(disk(device, mount_options=["noatime"]))[1:]
        assert change.startswith(f"remount the file system of {place}: commit=60 -> ")
        assert "commit" not in run("findmnt", "--noheadings", "--output", "OPTIONS", "--mountpoint", str(place))
        assert make(disk(device, mount_options=[]))[1] == f"remount {place}: noatime -> relatime"
        assert f"errors=remount-ro,lazytime,{ALWAYS}" in fstab_text()
        assert plan_for(disk(device, mount_options=[])).changes() == []

        facts = collect()
        found, _ = removals(ledger.read(facts.files), facts, SystemRunner(), wipe=[])
        take_away(found, facts, SystemRunner())
        assert fstab_text() == by_hand
        assert mount_at(facts.files, str(place)) is not None, "what was mounted before stays"
        assert list(Path("/var/lib").iterdir()) == []

    on_disks(tmp_path, 1, body)


@needs_disks
def test_a_line_that_does_not_mount_is_taken_out_again(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        before = fstab_text()
        wrong = disk(device, mount_options=["no_such_option"])
        with pytest.raises(TuningError, match=f"^{device} cannot be mounted on {MOUNT_POINT}: "):
            make(wrong)
        assert fstab_text() == before
        assert make(disk(device)) == ["edit /etc/fstab", f"mount {device} on {MOUNT_POINT}"]

    on_disks(tmp_path, 1, body)


@needs_disks
def test_a_dead_disk_is_replaced_by_another(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        old, new = devices
        make(disk(old))
        uuid = run("blkid", "-o", "value", "-s", "UUID", "-p", old).strip()
        assert f"{old} is mounted on {MOUNT_POINT} and not {new}" in plan_for(disk(new)).faults[0]
        run("umount", MOUNT_POINT)
        (moved,) = plan_for(disk(old, mount_point="/mnt/moved")).faults
        assert moved.startswith(f"/etc/fstab line 5 mounts {old} on {MOUNT_POINT} and not on /mnt/moved; take the line")
        assert f"mounts UUID={uuid} on {MOUNT_POINT} and not {new}" in plan_for(disk(new)).faults[0]
        at(0, bytes(1 << 20))(old)
        assert make(disk(new))[1:] == ["edit /etc/fstab", f"mount {new} on {MOUNT_POINT}"]
        assert fstab_text().count(MOUNT_POINT) == 1
        assert plan_for(disk(new)).changes() == []

    on_disks(tmp_path, 2, body)


@needs_disks
def test_a_disk_that_was_used_and_wiped_is_pointed_out(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        run("mkfs.ext4", "-q", device)
        run("wipefs", "--all", device)
        plan = plan_for(disk(device))
        assert plan.faults == []
        assert f"{device} carries no signature, but its first MiB is not all zeros" in " ".join(plan.warnings)
        assert f"{device} may be another disk after a boot" in " ".join(plan.warnings)

    on_disks(tmp_path, 1, body)
