"""Values of mounts and file systems, and how they are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.tuning.facts.model import BlockDevice, Facts, Mount, Systemd
from highwater.tuning.formulas import storage
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import Formula, NotApplicable, Observer, Target
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import write

WORKLOAD = Workload(data_dirs=("/data",))
PART_OF_A_FILE_SYSTEM = "/data is a part of a file system: its line names a folder, not a disk"


def _disk(
    name: str, number: str, *, members: Sequence[str] = (), level: str | None = None, **queue: str
) -> BlockDevice:
    return BlockDevice(
        name, number, 2**40, False, None, "none", ("none",), tuple(members), raid_level=level, queue=queue
    )


def _facts(
    root: Path,
    options: str = "rw,relatime",
    filesystem: str = "ext4",
    disks: Sequence[BlockDevice] = (_disk("sda", "8:0"),),
    kernel: tuple[int, int] | None = (6, 1),
) -> Facts:
    """A host whose /data lies on the first of `disks`."""
    mount = Mount("/data", filesystem, f"/dev/{disks[0].name}", disks[0].device_number, tuple(options.split(",")))
    return Facts(files=HostFiles(root), kernel_version=kernel, mounts=(mount,), block_devices=tuple(disks))


def _value(formula: Formula, facts: Facts) -> object:
    answer = formula(facts, WORKLOAD, "/data")
    return answer.value if isinstance(answer, Target) else None


def _reason(formula: Formula, facts: Facts) -> str:
    answer = formula(facts, WORKLOAD, "/data")
    assert isinstance(answer, NotApplicable)
    return answer.reason


@pytest.mark.parametrize(
    ("observer", "options", "expected"),
    [
        (storage.observe_atime, "rw,noatime", "noatime"),
        (storage.observe_atime, "rw,relatime", "relatime"),
        (storage.observe_atime, "rw", "strictatime"),
        (storage.observe_data_mode, "rw", "data=ordered"),
        (storage.observe_data_mode, "rw,data=writeback", "data=writeback"),
        (storage.observe_commit, "rw", "commit=5"),
        (storage.observe_commit, "rw,commit=60", "commit=60"),
        (storage.observe_commit, "rw,commit=soon", "commit=5"),
        (storage.observe_delayed_allocation, "rw", "delalloc"),
        (storage.observe_delayed_allocation, "rw,nodelalloc", "nodelalloc"),
        (storage.observe_barrier, "rw", "barrier"),
        (storage.observe_barrier, "rw,nobarrier", "nobarrier"),
        (storage.observe_barrier, "rw,barrier=0", "nobarrier"),
        (storage.observe_lazytime, "rw,lazytime", "lazytime"),
        (storage.observe_lazytime, "rw", "nolazytime"),
        (storage.observe_discard, "rw,discard", "discard"),
        (storage.observe_discard, "rw", "nodiscard"),
        (storage.observe_buffer_heads, "rw", "bh"),
    ],
)
def test_an_option_is_told_by_the_live_mount(tmp_path: Path, observer: Observer, options: str, expected: str) -> None:
    assert observer(_facts(tmp_path, options), "/data").value == expected


@pytest.mark.parametrize(
    "formula",
    [storage.mount_noatime, storage.data_writeback, storage.write_barrier, storage.mount_discard, storage.fstab_source],
)
def test_what_is_kept_in_memory_has_no_disk_options(tmp_path: Path, formula: Formula) -> None:
    assert _reason(formula, _facts(tmp_path, filesystem="tmpfs")) == "/data is kept in memory (tmpfs)"
    assert _reason(formula, Facts(files=HostFiles(tmp_path))) == "no mount holds /data"


def test_the_options_of_ext4_are_not_asked_of_xfs(tmp_path: Path) -> None:
    facts = _facts(tmp_path, filesystem="xfs")
    for formula in (storage.data_writeback, storage.journal_commit, storage.delayed_allocation, storage.mkfs_options):
        assert _reason(formula, facts) == "/data is xfs, which has no such option"
    assert _value(storage.mount_noatime, facts) == "noatime"


def test_the_trades_are_what_they_would_be_if_named(tmp_path: Path) -> None:
    facts = _facts(tmp_path)
    assert _value(storage.data_writeback, facts) == "data=writeback"
    assert _value(storage.journal_commit, facts) == "commit=30"
    assert _value(storage.journal_commit, _facts(tmp_path, "rw,commit=60")) == "commit=60", "never shortened"


def test_delayed_allocation_does_not_go_with_a_journal_of_data(tmp_path: Path) -> None:
    assert _reason(storage.delayed_allocation, _facts(tmp_path, "rw,data=journal")) == (
        "data=journal excludes delayed allocation"
    )


def test_a_barrier_is_only_ever_put_back(tmp_path: Path) -> None:
    assert _value(storage.write_barrier, _facts(tmp_path, "rw,nobarrier")) == "barrier"
    assert _value(storage.write_barrier, _facts(tmp_path, filesystem="xfs", kernel=(4, 18))) == "barrier"
    assert "4.19 removed" in _reason(storage.write_barrier, _facts(tmp_path, filesystem="xfs", kernel=(4, 19)))
    assert _reason(storage.write_barrier, _facts(tmp_path, filesystem="nfs4")) == "nfs4 on /data has no such option"


def test_discarding_stays_until_something_else_trims(tmp_path: Path) -> None:
    facts = _facts(tmp_path, "rw,discard", disks=(_disk("sda", "8:0", discard_max_bytes="1073741824"),))
    assert "systemctl enable --now fstrim.timer" in _reason(storage.mount_discard, facts)
    timer = tmp_path / "etc/systemd/system/timers.target.wants/fstrim.timer"
    timer.parent.mkdir(parents=True)
    timer.symlink_to("/usr/lib/systemd/system/fstrim.timer")
    assert "systemctl enable" in _reason(storage.mount_discard, facts), "systemd does not run"
    with_systemd = replace(facts, systemd=Systemd(True, 252))
    assert _value(storage.mount_discard, with_systemd) == "nodiscard"
    cannot = _facts(tmp_path, "rw,discard", disks=(_disk("sda", "8:0", discard_max_bytes="0"),))
    assert _reason(storage.mount_discard, cannot) == "sda cannot discard"


@pytest.mark.parametrize(
    ("line", "wanted", "note"),
    [
        ("/dev/sda /data ext4 defaults 0 2", "UUID=1b2c", ""),
        ("/dev/sda /data ext4 defaults,nofail 0 2", "UUID=1b2c", "nofail: a broker whose unit lacks RequiresM"),
        ("LABEL=data /data ext4 defaults 0 2", "LABEL=data", ""),
        ("/dev/disk/by-id/wwn-0x5 /data ext4 defaults", "/dev/disk/by-id/wwn-0x5", ""),
        ("/dev/mapper/vg-data /data ext4 defaults 0 2", "/dev/mapper/vg-data", ""),
        ('UUID="9f"\t/data\text4\tdefaults\t0\t2', "UUID=9f", ""),
    ],
)
def test_a_disk_is_named_by_what_does_not_change(tmp_path: Path, line: str, wanted: str, note: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/fstab").write_text(f"# /dev/sdz /data ext4 defaults\n\n{line}\n", encoding="utf-8")
    host = _facts(tmp_path)
    facts = replace(host, filesystem_uuids={"sda": "1b2c"})
    answer = storage.fstab_source(facts, WORKLOAD, "/data")
    assert isinstance(answer, Target)
    assert answer.value == wanted
    assert answer.note.startswith(note)
    assert storage.observe_fstab_source(facts, "/data").value == line.split()[0].replace('"', "")


def test_a_mount_that_no_line_makes_or_whose_uuid_nobody_knows_is_left_alone(tmp_path: Path) -> None:
    assert _reason(storage.fstab_source, _facts(tmp_path)) == "no line of /etc/fstab mounts /data"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/fstab").write_text("/dev/sda /data ext4 defaults 0 2\nshort line\n", encoding="utf-8")
    assert (
        _reason(storage.fstab_source, _facts(tmp_path)) == "the UUID of /dev/sda is not known: blkid /dev/sda shows it"
    )


@pytest.mark.parametrize(
    ("line", "root", "answer"),
    [
        ("/dev/sda /data ext4 defaults 0 2", "/", "UUID=1f"),
        ("/dev/sda /data/ ext4", "/", "UUID=1f"),
        ('UUID="2f" //data ext4', "/", "UUID=2f"),
        (
            "/big/kafka /data none bind",
            "/kafka",
            PART_OF_A_FILE_SYSTEM,
        ),
        ("/big /data none rw,rbind 0 0", "/", PART_OF_A_FILE_SYSTEM),
        ("/dev/sda /data ext4", "/kafka", PART_OF_A_FILE_SYSTEM),
        ("/dev/sdb /data ext4", "/", "/etc/fstab names /dev/sdb, and /dev/sda is mounted: correct one of them"),
        (
            "/dev/sda /data ext4\n/dev/sdb /data ext4",
            "/",
            "/etc/fstab mounts /data in lines 1 and 2; leave one of them",
        ),
        ("/dev/sda /data", "/", "no line of /etc/fstab mounts /data"),
    ],
)
def test_a_line_gets_a_uuid_only_if_it_names_the_disk_that_is_mounted(
    tmp_path: Path, line: str, root: str, answer: str
) -> None:
    write(tmp_path, "/etc/fstab", f"{line}\n")
    facts = _facts(tmp_path)
    (mount,) = facts.mounts
    facts = replace(facts, mounts=(replace(mount, root=root),), filesystem_uuids={"sda": "1f"})
    found = storage.fstab_source(facts, WORKLOAD, "/data")
    assert (found.value if isinstance(found, Target) else found.reason) == answer


def test_a_space_in_a_mount_point_is_written_as_fstab_writes_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/fstab").write_text(r"LABEL=a /my\040data ext4 defaults 0 2", encoding="utf-8")
    mount = Mount("/my data", "ext4", "/dev/sda", "8:0", ("rw",))
    facts = Facts(files=HostFiles(tmp_path), mounts=(mount,), block_devices=(_disk("sda", "8:0"),))
    assert storage.observe_fstab_source(facts, "/my data").value == "LABEL=a"


@pytest.mark.parametrize(("kernel", "fast"), [((5, 9), False), ((5, 10), True), (None, False)])
def test_fast_commits_are_for_kernels_that_know_them(
    tmp_path: Path, kernel: tuple[int, int] | None, fast: bool
) -> None:
    reason = _reason(storage.mkfs_options, _facts(tmp_path, kernel=kernel))
    assert "-m 0" in reason
    assert ("fast_commit" in reason) == fast


RAID_MEMBERS = (_disk("sda", "8:0"), _disk("sdb", "8:16"))


@pytest.mark.parametrize(
    ("disks", "layout", "good"),
    [
        ((_disk("sda", "8:0"),), "one disk", True),
        ((_disk("md0", "9:0", members=("sda", "sdb"), level="raid10"), *RAID_MEMBERS), "raid10", True),
        ((_disk("md0", "9:0", members=("sda", "sdb"), level="raid5"), *RAID_MEMBERS), "raid5", False),
        ((_disk("dm-0", "253:0", members=("sda", "sdb")), *RAID_MEMBERS), "2 disks as one", False),
        ((_disk("dm-0", "253:0", members=("sda",)), *RAID_MEMBERS), "one disk", True),
        (
            (
                _disk("dm-0", "253:0", members=("md0",)),
                _disk("md0", "9:0", members=("sda", "sdb"), level="raid1"),
                *RAID_MEMBERS,
            ),
            "raid1",
            True,
        ),
    ],
)
def test_a_layout_is_told_through_raid_and_lvm(
    tmp_path: Path, disks: Sequence[BlockDevice], layout: str, good: bool
) -> None:
    facts = _facts(tmp_path, disks=disks)
    answer = storage.storage_layout(facts, WORKLOAD, "/data")
    assert isinstance(answer, Target)
    assert storage.observe_layout(facts, "/data").value == layout
    assert (layout in (answer.value, *answer.also)) == good


def test_ext4_and_xfs_are_both_good_and_worth_comparing(tmp_path: Path) -> None:
    for present, other in (("ext4", "XFS"), ("xfs", "ext4")):
        answer = storage.filesystem_type(_facts(tmp_path, filesystem=present), WORKLOAD, "/data")
        assert isinstance(answer, Target)
        assert present in (answer.value, *answer.also)
        assert other in answer.note
