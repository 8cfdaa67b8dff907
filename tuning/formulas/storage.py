"""Formulas for file systems and their mounts.

The value of a mount knob is the mount option itself, as written in fstab(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ..boot_files import fstab
from ..errors import TuningError
from ..facts.model import BlockDevice, Facts, Mount
from ..model import NotApplicable, Observation, Target
from ..workload import Workload

# ext4(5): how often the journal is committed unless an option says otherwise.
_JOURNAL_COMMIT_S: Final = 5
_LONG_COMMIT_S: Final = 30
_EXTENDED_FILESYSTEMS: Final = ("ext3", "ext4")
_IN_MEMORY: Final = ("tmpfs", "ramfs")
# fstab(5) sources that are independent of the order in which disks are found.
_STABLE_SOURCE: Final = re.compile(r"(?:UUID|LABEL|PARTUUID|PARTLABEL)=.+|/dev/(?:disk/by-|mapper/|md/).+")
# The link that `systemctl enable fstrim.timer` makes.
_TRIM_TIMER: Final = "/etc/systemd/system/timers.target.wants/fstrim.timer"
_ONE_DISK: Final = "one disk"


def mount_noatime(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """noatime on the mount of every data directory that is on a disk."""
    mount = _disk_mount(facts, directory)
    if isinstance(mount, NotApplicable):
        return mount
    return Target("noatime", f"noatime on {mount.mount_point}, which holds {directory}")


def observe_atime(facts: Facts, directory: str) -> Observation:
    return _observe_option(facts, directory, ("noatime", "relatime"), "strictatime")


def mount_lazytime(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """lazytime, on ext4 and XFS."""
    mount = _disk_mount(facts, directory, ("ext4", "xfs"))
    if isinstance(mount, NotApplicable):
        return mount
    return Target("lazytime", f"lazytime on {mount.mount_point}, which holds {directory}")


def observe_lazytime(facts: Facts, directory: str) -> Observation:
    return _observe_option(facts, directory, ("lazytime",), "nolazytime")


def data_writeback(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """data=writeback, on ext4."""
    mount = _disk_mount(facts, directory, _EXTENDED_FILESYSTEMS)
    if isinstance(mount, NotApplicable):
        return mount
    return Target(
        "data=writeback",
        f"data=writeback on {mount.mount_point} instead of {_data_mode(mount)}",
        note="ext4 refuses to change it by remounting: it takes effect when the file system is next mounted",
    )


def observe_data_mode(facts: Facts, directory: str) -> Observation:
    mount = _disk_mount(facts, directory, _EXTENDED_FILESYSTEMS)
    return Observation(None, mount.reason) if isinstance(mount, NotApplicable) else _known(_data_mode(mount))


def journal_commit(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """The longer of the current interval and 30 s, on ext4."""
    mount = _disk_mount(facts, directory, _EXTENDED_FILESYSTEMS)
    if isinstance(mount, NotApplicable):
        return mount
    present_s = _commit_s(mount)
    return Target(
        f"commit={max(present_s, _LONG_COMMIT_S)}",
        f"the longer of {present_s} s now and {_LONG_COMMIT_S} s, on {mount.mount_point}",
    )


def observe_commit(facts: Facts, directory: str) -> Observation:
    mount = _disk_mount(facts, directory, _EXTENDED_FILESYSTEMS)
    return Observation(None, mount.reason) if isinstance(mount, NotApplicable) else _known(f"commit={_commit_s(mount)}")


def delayed_allocation(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """delalloc, ext4's default, unless data=journal excludes it."""
    mount = _disk_mount(facts, directory, ("ext4",))
    if isinstance(mount, NotApplicable):
        return mount
    if _data_mode(mount) == "data=journal":
        return NotApplicable("data=journal excludes delayed allocation")
    return Target("delalloc", f"delalloc on {mount.mount_point}, ext4's default")


def observe_delayed_allocation(facts: Facts, directory: str) -> Observation:
    return _observe_option(facts, directory, ("nodelalloc",), "delalloc")


def buffer_heads(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """Nothing: current kernels ignore the option."""
    mount = _disk_mount(facts, directory, _EXTENDED_FILESYSTEMS)
    if isinstance(mount, NotApplicable):
        return mount
    return NotApplicable("no measurement here supports it, and current kernels ignore it")


def observe_buffer_heads(facts: Facts, directory: str) -> Observation:
    return _observe_option(facts, directory, ("nobh",), "bh")


def write_barrier(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """barrier, on every file system that still has the option."""
    mount = _disk_mount(facts, directory)
    if isinstance(mount, NotApplicable):
        return mount
    if mount.filesystem == "xfs" and facts.kernel_version is not None and facts.kernel_version >= (4, 19):
        return NotApplicable("XFS always flushes the disk's cache: Linux 4.19 removed its barrier options")
    if mount.filesystem not in (*_EXTENDED_FILESYSTEMS, "xfs", "btrfs"):
        return NotApplicable(f"{mount.filesystem} on {mount.mount_point} has no such option")
    return Target("barrier", f"barrier on {mount.mount_point}: the file system may flush the disk's cache")


def observe_barrier(facts: Facts, directory: str) -> Observation:
    mount = _disk_mount(facts, directory)
    if isinstance(mount, NotApplicable):
        return Observation(None, mount.reason)
    return _known("nobarrier" if {"nobarrier", "barrier=0"} & set(mount.options) else "barrier")


def mount_discard(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """nodiscard if systemd runs fstrim.timer, which trims all free blocks at once."""
    mount = _disk_mount(facts, directory, ("ext4", "xfs"))
    if isinstance(mount, NotApplicable):
        return mount
    disks = facts.disks_of(directory)
    if disks and all(disk.queue.get("discard_max_bytes") == "0" for disk in disks):
        return NotApplicable(f"{_names(disks)} cannot discard")
    if facts.files.link(_TRIM_TIMER) is None or not facts.systemd.running:
        return NotApplicable("unchanged until fstrim.timer trims instead: systemctl enable --now fstrim.timer")
    return Target("nodiscard", f"nodiscard on {mount.mount_point}, which fstrim.timer trims once a week")


def observe_discard(facts: Facts, directory: str) -> Observation:
    return _observe_option(facts, directory, ("discard",), "nodiscard")


def fstab_source(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """UUID= of the mounted file system if its line names the disk; LABEL=, PARTUUID= and /dev/disk/by-… are as good."""
    mount = _disk_mount(facts, directory)
    if isinstance(mount, NotApplicable):
        return mount
    entry = _fstab_entry(facts, mount)
    if isinstance(entry, NotApplicable):
        return entry
    source = entry.source
    note = (
        "nofail: a broker whose unit lacks RequiresMountsFor= starts on an empty directory when the disk is missing"
        if "nofail" in entry.options
        else ""
    )
    if _STABLE_SOURCE.fullmatch(source):
        return Target(source, f"{source} names the file system itself", note=note)
    if mount.root != "/" or not fstab.BIND.isdisjoint(entry.options):
        return NotApplicable(f"{mount.mount_point} is a part of a file system: its line names a folder, not a disk")
    if facts.files.real_path(source) != facts.files.real_path(mount.source):
        return NotApplicable(f"{fstab.PATH} names {source}, and {mount.source} is mounted: correct one of them")
    name = mount.source.removeprefix("/dev/")
    uuid = facts.filesystem_uuids.get(name)
    if uuid is None:
        return NotApplicable(f"the UUID of {mount.source} is not known: blkid {mount.source} shows it")
    return Target(f"UUID={uuid}", f"the UUID of the file system mounted on {mount.mount_point} now", note=note)


def observe_fstab_source(facts: Facts, directory: str) -> Observation:
    mount = _disk_mount(facts, directory)
    if isinstance(mount, NotApplicable):
        return Observation(None, mount.reason)
    entry = _fstab_entry(facts, mount)
    return Observation(None, entry.reason) if isinstance(entry, NotApplicable) else _known(entry.source)


def filesystem_type(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """ext4 or XFS."""
    mount = _disk_mount(facts, directory)
    if isinstance(mount, NotApplicable):
        return mount
    other = {"ext4": "XFS", "xfs": "ext4"}.get(mount.filesystem)
    return Target(
        "ext4",
        f"ext4 or xfs for {mount.mount_point}",
        also=("xfs",),
        note=f"a comparison with {other} on a spare disk is worthwhile" if other else "",
    )


def observe_filesystem_type(facts: Facts, directory: str) -> Observation:
    mount = facts.mount_of(directory)
    return _known(mount.filesystem) if mount else Observation(None, f"no mount holds {directory}")


def mkfs_options(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """-m 0, -O fast_commit from Linux 5.10 on, stride and stripe_width over several disks."""
    mount = _disk_mount(facts, directory, ("ext4",))
    if isinstance(mount, NotApplicable):
        return mount
    device = facts.device_of(directory)
    striped = device is not None and len(facts.disks_of(directory)) > 1
    options = [*ext4_options(facts.kernel_version), *(["-E", "stride=…,stripe_width=…"] if striped else [])]
    return NotApplicable(f"fixed when {mount.source} was formatted; for a new one: mkfs.ext4 {' '.join(options)}")


def ext4_options(kernel_version: tuple[int, int] | None) -> tuple[str, ...]:
    """Arguments of mkfs.ext4 for one disk: no blocks reserved for root, and fast commits from Linux 5.10 on."""
    fast_commit = kernel_version is not None and kernel_version >= (5, 10)
    return ("-m", "0", *(("-O", "fast_commit") if fast_commit else ()))


def observe_mkfs_options(facts: Facts, directory: str) -> Observation:
    mount = facts.mount_of(directory)
    device = mount.source if mount else "DEVICE"
    return Observation(None, f"only the file system's header shows them: dumpe2fs -h {device}")


def storage_layout(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    """One disk under each data directory; RAID 10 or RAID 1 if a single volume is required."""
    device = facts.device_of(directory)
    if device is None:
        return NotApplicable(f"no local disk found under {directory}")
    return Target(_ONE_DISK, f"a disk of its own for {directory}, replicas on other brokers", also=("raid10", "raid1"))


def observe_layout(facts: Facts, directory: str) -> Observation:
    device = facts.device_of(directory)
    if device is None:
        return Observation(None, f"no local disk found under {directory}")
    disks = facts.disks_of(directory)
    layout = _layout(facts, device)
    return Observation(layout, f"{layout}: {_names(disks)}")


def _layout(facts: Facts, device: BlockDevice) -> str:
    """The redundancy below `device`: the RAID level, or the number of disks without RAID."""
    if device.raid_level:
        return device.raid_level
    below = [found for member in device.members if (found := facts.block_device(member)) is not None]
    layouts = {_layout(facts, each) for each in below}
    if len(below) > 1 and layouts == {_ONE_DISK}:
        return f"{len(below)} disks as one"
    return "+".join(sorted(layouts)) or _ONE_DISK


def _disk_mount(facts: Facts, directory: str, filesystems: tuple[str, ...] = ()) -> Mount | NotApplicable:
    """The mount of `directory`, unless it is in memory or its type is not in `filesystems`."""
    mount = facts.mount_of(directory)
    if mount is None:
        return NotApplicable(facts.unknown.get("mounts", f"no mount holds {directory}"))
    if mount.filesystem in _IN_MEMORY:
        return NotApplicable(f"{directory} is kept in memory ({mount.filesystem})")
    if filesystems and mount.filesystem not in filesystems:
        return NotApplicable(f"{mount.mount_point} is {mount.filesystem}, which has no such option")
    return mount


def _observe_option(facts: Facts, directory: str, options: tuple[str, ...], otherwise: str) -> Observation:
    """The first of `options` that is in force, else `otherwise`, as the kernel does not print defaults."""
    mount = _disk_mount(facts, directory)
    if isinstance(mount, NotApplicable):
        return Observation(None, mount.reason)
    return _known(next((option for option in options if option in mount.options), otherwise))


def _known(option: str) -> Observation:
    return Observation(option, option)


def _data_mode(mount: Mount) -> str:
    return next((option for option in mount.options if option.startswith("data=")), "data=ordered")


def _commit_s(mount: Mount) -> int:
    for option in mount.options:
        name, _, seconds = option.partition("=")
        if name == "commit" and seconds.isdecimal():
            return int(seconds)
    return _JOURNAL_COMMIT_S


def _fstab_entry(facts: Facts, mount: Mount) -> fstab.FstabEntry | NotApplicable:
    """The line in fstab(5) that mounts `mount`."""
    try:
        entry = fstab.find_mount(facts.files.read_verbatim(fstab.PATH) or "", mount.mount_point)
    except TuningError as error:
        return NotApplicable(str(error))
    return NotApplicable(f"no line of {fstab.PATH} mounts {mount.mount_point}") if entry is None else entry


def _names(disks: Iterable[BlockDevice]) -> str:
    return ", ".join(disk.name for disk in disks)
