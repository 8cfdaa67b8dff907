"""Plans the changes to a host's disks, or refuses them with a reason; writes nothing.

A device is formatted only when nothing at all is on it and nobody uses it, or when this program itself was killed while
it formatted it. A file system is used as it is when one of these says that it belongs there: what is mounted, fstab,
the ledger, the uuid in the inventory, or our label on a file system that holds nothing.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..highwater.tuning.boot_files import fstab
from ..highwater.tuning.errors import TuningError
from ..highwater.tuning.facts.model import Facts, Mount
from ..highwater.tuning.formulas.storage import ext4_options
from ..highwater.tuning.planning.mounts import exclusive_options, in_effect
from ..highwater.tuning.runner import Runner
from ..highwater.tuning.steps import RemountStep, remount_steps
from . import ledger
from .device import Device, Signature, carries_number, files_in, look_at
from .wanted import Disk

_MOST_NAMES: Final = 3
# Words of fstab(5) and mount(8) that the kernel never sees.
_FOR_FSTAB: Final = re.compile(r"defaults|auto|nofail|_netdev|(no)?user|users|owner|group|[xX]-.*|comment=.*")
# ext4(5), and Linux' Documentation/admin-guide/xfs.rst: what a remount refuses, or takes and ignores.
_AT_MOUNT_ONLY: Final = {
    "ext4": re.compile(r"data=.*|journal_\w+(=.*)?|sb=.*|noload|inode_readahead_blks=.*|dax(=.*)?"),
    "xfs": re.compile(
        r"log(bufs|bsize|dev)=.*|allocsize=.*|(no)?largeio|swalloc|s(unit|width)=.*|wsync|(no)?discard|(no)?attr2"
        r"|[ugp]?quota|[ugp]qnoenforce|noquota|norecovery|(no)?ikeep|filestreams|dax(=.*)?"
    ),
}


@dataclass(frozen=True)
class Host:
    facts: Facts
    runner: Runner
    fstab: str
    entries: Mapping[str, ledger.Entry]
    """The ledger, by mount point."""
    new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())


@dataclass(frozen=True)
class Judgement:
    """What is to be done with one disk; nothing when there are faults."""

    disk: Disk
    device: Device | None = None
    uuid: str = ""
    """The UUID of the file system that is on it, or will be."""
    format: bool = False
    half_made: bool = False
    """What is on it is what a killed run of ours left of a mkfs."""
    mount: bool = False
    remounts: tuple[RemountStep, ...] = ()
    entry: ledger.Entry | None = None
    """The ledger's word on it, as it is when all is done."""
    earlier: ledger.Entry | None = None
    """The ledger's word on its mount point until now."""
    later: tuple[str, ...] = ()
    """Options that take effect when it is next mounted."""
    warnings: tuple[str, ...] = ()
    permission: str = ""
    """What has to be allowed first."""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    judgements: tuple[Judgement, ...]
    fstab_before: str
    fstab_after: str
    remembered: frozenset[str]
    """Mount points whose entry in the ledger changes."""
    warnings: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        return [fault for judged in self.judgements for fault in judged.faults]

    @property
    def permissions(self) -> list[str]:
        return [judged.permission for judged in self.judgements if judged.permission]

    @property
    def pending(self) -> list[str]:
        return [
            f"{option} on {judged.disk.mount_point}: when it is next mounted"
            for judged in self.judgements
            for option in judged.later
        ]

    def formatting(self) -> list[str]:
        """What cannot be undone."""
        return [
            f"FORMAT {judged.disk.device} ({_kind(judged)}) as {judged.disk.filesystem}, label {judged.disk.label}"
            for judged in self.judgements
            if judged.format
        ]

    def changes(self) -> list[str]:
        """A line for each change, the ones that cannot be undone first."""
        edited = ["edit /etc/fstab"] if self.fstab_before != self.fstab_after else []
        others = [change for judged in self.judgements for change in self._changes_of(judged)]
        return [*self.formatting(), *edited, *others]

    def _changes_of(self, judged: Judgement) -> list[str]:
        disk = judged.disk
        if judged.mount:
            return [f"mount {disk.device} on {disk.mount_point}"]
        if judged.remounts:
            return [step.describe() for step in judged.remounts]
        if disk.mount_point in self.remembered and self.fstab_before == self.fstab_after:
            return [f"take {disk.mount_point} into care as it is"]
        return []


def make_plan(disks: Sequence[Disk], host: Host, *, allow_format: bool) -> Plan:
    judgements: list[Judgement] = []
    text = host.fstab
    for disk in disks:
        judged = _judge(disk, host, allow_format=allow_format)
        number = judged.device.number if judged.device else ""
        twin = next((other for other in judgements if other.device and other.device.number == number), None)
        if twin is not None:
            judged = replace(judged, faults=(f"{disk.device} and {twin.disk.device} are one disk; leave one of them",))
        judgements.append(judged)
        if not judged.faults:
            text = edited_fstab(text, disk, judged.uuid, host.entries.get(disk.mount_point))
    remembered = {
        judged.disk.mount_point
        for judged in judgements
        if judged.entry is not None and judged.entry != host.entries.get(judged.disk.mount_point)
    }
    left = sorted(set(host.entries) - {disk.mount_point for disk in disks})
    warnings = [warning for judged in judgements for warning in judged.warnings]
    warnings += [
        f"{host.entries[path].device} on {path} is no longer in storage_disks; it is left mounted, with its line in "
        f"/etc/fstab (to take it away: umount {path}, then take the line out)"
        for path in left
        if host.facts.files.exists(path) and any(mount.mount_point == path for mount in host.facts.mounts)
    ]
    return Plan(tuple(judgements), host.fstab, text, frozenset(remembered), tuple(warnings))


def edited_fstab(text: str, disk: Disk, filesystem_uuid: str, entry: ledger.Entry | None) -> str:
    """/etc/fstab with a line that mounts the disk: a new one, or the one that is there with what it lacks.

    Options that others added to the line stay; those that an earlier run of ours gave it and nobody wants now go.
    """
    source = f"UUID={filesystem_uuid}"
    line = fstab.find_mount(text, disk.mount_point)
    if line is None:
        check_pass = 2 if disk.filesystem == "ext4" else 0
        options = ",".join(disk.mount_options)
        return fstab.with_line(text, f"{source} {disk.mount_point} {disk.filesystem} {options} 0 {check_pass}")
    unwanted = {*_outdated(disk, entry), "noauto"}
    options_now = tuple(option for option in line.options if option not in unwanted) or ("defaults",)
    for wanted in disk.mount_options:
        if wanted not in options_now:
            options_now = _with_option(options_now, wanted)
    if options_now != line.options:
        text = fstab.with_options(text, line, options_now)
    if line.source != source:
        text = fstab.with_source(text, line, source)
    return text


def mkfs_command(disk: Disk, device: Device, filesystem_uuid: str, kernel: tuple[int, int] | None) -> list[str]:
    """Whole at once: what mkfs leaves for the kernel to do later would be load in the first hours of a benchmark."""
    if disk.filesystem == "xfs":
        options = disk.mkfs_options or ()
        return ["mkfs.xfs", "-q", "-L", disk.label, "-m", f"uuid={filesystem_uuid}", *options, device.real_path]
    recommended = (*ext4_options(kernel), "-E", "lazy_itable_init=0,lazy_journal_init=0")
    options = recommended if disk.mkfs_options is None else disk.mkfs_options
    return ["mkfs.ext4", "-q", "-L", disk.label, "-U", filesystem_uuid, *options, device.real_path]


def unseen_options(disk: Disk, live: tuple[str, ...]) -> tuple[str, ...]:
    """Those that the kernel was given and does not show."""
    return tuple(option for option in _for_the_kernel(disk) if not in_effect(live, option))


def _judge(disk: Disk, host: Host, *, allow_format: bool) -> Judgement:
    entry = host.entries.get(disk.mount_point)
    try:
        device = look_at(disk.device, host.facts, host.runner)
        line = fstab.find_mount(host.fstab, disk.mount_point)
    except TuningError as error:
        return Judgement(disk, faults=(str(error),))
    judged = Judgement(disk, device, warnings=tuple(_warnings(disk, device)))
    fault = (
        use_by_others(device) or _fault_of_place(disk, device, host) or _mounted_elsewhere_by_fstab(disk, device, host)
    )
    if fault:
        return _refused(judged, fault)
    judged = _judge_content(judged, device, line, host)
    if not judged.faults and (fault := _fault_of_fstab(judged, device, line, host)):
        judged = _refused(judged, fault)
    if judged.faults:
        return judged
    mounted = next((m for m in reversed(host.facts.mounts) if m.mount_point == disk.mount_point), None)
    if judged.format and not allow_format:
        judged = replace(
            judged,
            permission=f"{disk.device} ({_kind(judged)}) carries nothing and has to be formatted for "
            f"{disk.mount_point}; allow it with storage_allow_format: true",
        )
    line_text = host.fstab.split("\n")[line.line] if line else None
    judged = replace(
        judged,
        mount=mounted is None,
        earlier=entry,
        entry=_entry(judged, entry, line_text),
    )
    return _with_drift(judged, mounted) if mounted else judged


def _judge_content(judged: Judgement, device: Device, line: fstab.FstabEntry | None, host: Host) -> Judgement:
    disk = judged.disk
    if not device.signatures:
        if disk.uuid:
            return _refused(
                judged,
                f"{device.path} carries no file system, so none with UUID {disk.uuid}; take uuid out to have the disk "
                "formatted, or name another disk",
            )
        return replace(judged, format=True, uuid=host.new_uuid())
    found = device.filesystem
    if found is not None and (unfinished := _unfinished(found, device, host)) is not None:
        return replace(judged, format=True, half_made=True, uuid=unfinished.uuid)
    if found is None or not _belongs(disk, device, found, line, host):
        carried = ", ".join(dict.fromkeys(map(str, device.signatures)))
        keep = f"to use it as it is: uuid: {found.uuid} in storage_disks; " if found else ""
        return _refused(
            judged,
            f"{device.path} ({device.describe()}) carries {carried} and is not formatted; {keep}"
            f"to erase all that is on it: wipefs --all {device.path}",
        )
    if disk.uuid and disk.uuid != found.uuid:
        return _refused(judged, f"{device.path} carries {found} and not UUID {disk.uuid}; correct uuid")
    if found.type != disk.filesystem:
        return _refused(
            judged, f"{device.path} is {found.type} and not {disk.filesystem}; say filesystem: {found.type}"
        )
    return replace(judged, uuid=found.uuid)


def _refused(judged: Judgement, fault: str) -> Judgement:
    return replace(judged, faults=(fault,))


def _unfinished(found: Signature, device: Device, host: Host) -> ledger.Entry | None:
    """The word of a run that was killed while it made this file system, which then holds nothing or is not whole."""
    for entry in host.entries.values():
        if entry.state == "formatting" and entry.uuid == found.uuid and not device.claimed:
            return None if files_in(device, found.type, host.runner) else entry
    return None


def _belongs(disk: Disk, device: Device, found: Signature, line: fstab.FstabEntry | None, host: Host) -> bool:
    entry = host.entries.get(disk.mount_point)
    if disk.uuid or disk.mount_point in device.mount_points:
        return True
    if entry is not None and entry.state == "in use" and entry.uuid == found.uuid:
        return True
    if line is not None and _denotes(line.source, device):
        return True
    return found.label == disk.label and not device.claimed and files_in(device, found.type, host.runner) == []


def use_by_others(device: Device) -> str:
    if device.read_only:
        return f"{device.path} is read-only; is it write-protected?"
    if device.holders:
        return f"{device.path} is part of {', '.join(device.holders)}; take it out of there, or name another disk"
    if device.is_swap:
        return f"{device.path} is used as swap; swapoff {device.path}, or name another disk"
    if device.partitions:
        return f"{device.path} has partitions ({', '.join(device.partitions)}); name one of them, or another disk"
    if device.claimed and not device.mount_points:
        return (
            f"{device.path} is in use by something that is not seen from here, such as a mount in another namespace; "
            "end that, or name another disk"
        )
    return ""


def _fault_of_place(disk: Disk, device: Device, host: Host) -> str:
    place, files = disk.mount_point, host.facts.files
    elsewhere = [path for path in device.mount_points if path != place]
    if elsewhere and place not in device.mount_points:
        where = elsewhere[0]
        return f"{device.path} is mounted on {where} and not on {place}; umount {where}, or correct mount_point"
    mounted = next((mount for mount in reversed(host.facts.mounts) if mount.mount_point == place), None)
    if mounted is not None:
        if mounted.device_number == device.number:
            return ""
        return f"{mounted.source} is mounted on {place} and not {device.path}; umount {place}, or correct storage_disks"
    if files.real_path(place) != place:
        return f"mount_point {place} leads through a link to {files.real_path(place)}; name that path"
    if files.exists(place) and not files.is_folder(place):
        return f"mount_point {place} is not a directory; move it away"
    if names := files.names(place):
        more = ", …" if len(names) > _MOST_NAMES else ""
        return (
            f"mount_point {place} holds files ({', '.join(names[:_MOST_NAMES])}{more}), which {device.path} would "
            "hide; move them away"
        )
    return ""


def _fault_of_fstab(judged: Judgement, device: Device, line: fstab.FstabEntry | None, host: Host) -> str:
    disk = judged.disk
    if line is None:
        return ""
    if not _denotes(line.source, device) and not _is_of_a_lost_disk(
        line.source, host.entries.get(disk.mount_point), host
    ):
        return (
            f"/etc/fstab line {line.line + 1} mounts {line.source} on {disk.mount_point} and not {device.path}; "
            "take the line out, or correct storage_disks"
        )
    if line.filesystem not in (disk.filesystem, "auto"):
        return (
            f"/etc/fstab line {line.line + 1} mounts {disk.mount_point} as {line.filesystem} and not "
            f"{disk.filesystem}; correct one of them"
        )
    return ""


def _mounted_elsewhere_by_fstab(disk: Disk, device: Device, host: Host) -> str:
    for line in fstab.parse(host.fstab):
        if line.mount_point.rstrip("/") not in ("", disk.mount_point) and _denotes(line.source, device):
            return (
                f"/etc/fstab line {line.line + 1} mounts {device.path} on {line.mount_point} and not on "
                f"{disk.mount_point}; take the line out, or correct mount_point"
            )
    return ""


def _denotes(source: str, device: Device) -> bool:
    """Whether a source of fstab(5) is this device. Nothing is searched for: that would read all disks of the host."""
    name, equals, value = source.replace('"', "").partition("=")
    if not equals:
        return name.startswith("/dev/") and carries_number(name, device.number)
    match name.upper():
        case "UUID":
            return any(signature.uuid and signature.uuid == value.lower() for signature in device.signatures)
        case "LABEL":
            return any(signature.label and signature.label == value for signature in device.signatures)
    return carries_number(f"/dev/disk/by-{name.lower()}/{value}", device.number)


def _is_of_a_lost_disk(source: str, entry: ledger.Entry | None, host: Host) -> bool:
    """Whether it is a file system that was made here, on a disk that is there no more, or no more with it."""
    if entry is None or source != f"UUID={entry.uuid}":
        return False
    try:
        return entry.uuid not in {found.uuid for found in look_at(entry.device, host.facts, host.runner).signatures}
    except TuningError:
        return True


def _with_drift(judged: Judgement, mounted: Mount) -> Judgement:
    """Add options that the mount lacks, and those that an earlier run of ours gave it and nobody wants now."""
    disk, entry, live = judged.disk, judged.earlier, mounted.options
    unseen = entry.unseen if entry else ()
    missing = [option for option in _for_the_kernel(disk) if not in_effect(live, option) and option not in unseen]
    at_mount_only = _AT_MOUNT_ONLY[disk.filesystem]
    later = tuple(option for option in missing if at_mount_only.fullmatch(option))
    outdated = [option for option in _outdated(disk, entry) if not at_mount_only.fullmatch(option)]
    # Without noatime a mount has relatime.
    kept = ("relatime" if option == "noatime" and option in outdated else option for option in live)
    after = tuple(option for option in kept if option not in outdated)
    for option in missing:
        if option not in later:
            after = _with_option(after, option)
    return replace(judged, later=later, remounts=tuple(remount_steps(mounted, after)))


def _with_option(options: tuple[str, ...], wanted: str) -> tuple[str, ...]:
    name, equals, _ = wanted.partition("=")
    return fstab.changed_options(options, wanted, exclusive_options(wanted) or ((name + equals,) if equals else ()))


def _outdated(disk: Disk, entry: ledger.Entry | None) -> set[str]:
    """Return the options that an earlier run was to mount with, and this one is not."""
    return set(entry.options if entry else ()) - set(disk.mount_options)


def _for_the_kernel(disk: Disk) -> list[str]:
    return [option for option in disk.mount_options if not _FOR_FSTAB.fullmatch(option)]


def _entry(judged: Judgement, entry: ledger.Entry | None, line: str | None) -> ledger.Entry:
    disk = judged.disk
    same = entry is not None and entry.uuid == judged.uuid and not judged.format
    known = entry if entry is not None else ledger.Entry(disk.mount_point, "", "", "", "in use", line_before=line)
    return replace(
        known,
        device=disk.device,
        uuid=judged.uuid,
        filesystem=disk.filesystem,
        state="in use",
        formatted=judged.format or (same and known.formatted),
        options=disk.mount_options,
        unseen=tuple(option for option in known.unseen if option in disk.mount_options) if same else (),
    )


def _warnings(disk: Disk, device: Device) -> list[str]:
    found = []
    if device.medium and device.medium != disk.medium:
        found.append(
            f"{disk.device} is called {disk.medium} in storage_disks, and the kernel takes it for {device.medium}; "
            "results are reported as the inventory says"
        )
    if not disk.device.startswith(("/dev/disk/", "/dev/mapper/", "/dev/md/")):
        found.append(f"{disk.device} may be another disk after a boot; name it as in /dev/disk/by-id")
    if not device.signatures and not device.starts_with_zeros:
        found.append(f"{disk.device} carries no signature, but its first MiB is not all zeros: it has been used before")
    return found


def _kind(judged: Judgement) -> str:
    return judged.device.describe() if judged.device else ""
