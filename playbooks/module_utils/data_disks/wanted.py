"""Parses the data disks of an inventory, and finds faults that are visible without a host."""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

LABEL_PREFIX: Final = "hw-"
# What each file system keeps of a label, in bytes.
_LONGEST_LABEL: Final = {"ext4": 16, "xfs": 12}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OPTION: Final = re.compile(r"[^\s,\\]+")


@dataclass(frozen=True)
class Disk:
    device: str
    mount_point: str
    medium: str
    name: str
    filesystem: str
    mount_options: tuple[str, ...]
    mkfs_options: tuple[str, ...] | None
    """None stands for what the tuning catalogue recommends."""
    emulated: bool
    uuid: str | None
    """The UUID of a file system that is there already and is to stay."""

    @property
    def label(self) -> str:
        return LABEL_PREFIX + self.name


def read_disks(entries: Sequence[Mapping[str, Any]], device_timeout: str) -> tuple[list[Disk], list[str]]:
    """The disks, and one line for each fault. `entries` have the keys and types of the module's arguments."""
    disks = [_disk(entry, device_timeout) for entry in entries]
    return disks, [fault for disk in disks for fault in _faults_of(disk)] + _faults_between(disks)


def _disk(entry: Mapping[str, Any], device_timeout: str) -> Disk:
    mount_point = str(entry["mount_point"])
    words = [word for option in entry["mount_options"] for word in str(option).split(",") if word]
    # A dead disk must not keep the host from booting; what needs the disk waits for its mount and fails alone.
    always = ("nofail", f"x-systemd.device-timeout={device_timeout}")
    options = entry["mkfs_options"]
    return Disk(
        device=str(entry["device"]),
        mount_point=mount_point,
        medium=str(entry["medium"]),
        name=str(entry["name"] or posixpath.basename(mount_point.rstrip("/"))),
        filesystem=str(entry["filesystem"]),
        mount_options=tuple(dict.fromkeys([*words, *always])),
        mkfs_options=None if options is None else tuple(str(option) for option in options),
        emulated=bool(entry["emulated"]),
        uuid=str(entry["uuid"]).lower() if entry["uuid"] else None,
    )


def _faults_of(disk: Disk) -> list[str]:
    faults = []
    if not disk.device.startswith("/dev/"):
        faults.append(f"device {disk.device} is not a path below /dev; name one of /dev/disk/by-id")
    path = disk.mount_point
    if not path.startswith("/") or path != posixpath.normpath(path) or path == "/":
        faults.append(f"mount_point {path} of {disk.device} is not an absolute path below /, written without . and ..")
    elif re.search(r"[\s\\]", path):
        faults.append(f"mount_point {path!r} of {disk.device} has a blank or a backslash; choose another path")
    room = _LONGEST_LABEL[disk.filesystem] - len(LABEL_PREFIX)
    if path != "/" and (not _NAME.fullmatch(disk.name) or len(disk.name) > room):
        faults.append(
            f"name {disk.name!r} of {disk.device} cannot be in a label of {disk.filesystem}; "
            f"give it a name of up to {room} letters, digits, dots and dashes"
        )
    faults += [
        f"mount option {option!r} of {disk.device} has a blank or a backslash; take it out"
        for option in disk.mount_options
        if not _OPTION.fullmatch(option)
    ]
    faults += [
        f"mount option {option} of {disk.device} would keep a log from being written; take it out"
        for option in disk.mount_options
        if option in ("noauto", "ro")
    ]
    if disk.uuid is not None and not _is_uuid(disk.uuid):
        faults.append(f"uuid {disk.uuid!r} of {disk.device} is not a UUID; `blkid {disk.device}` tells it")
    return faults


def _faults_between(disks: Sequence[Disk]) -> list[str]:
    faults = []
    for number, disk in enumerate(disks):
        for other in disks[:number]:
            if other.device == disk.device:
                faults.append(f"storage_disks names {disk.device} twice; leave one of them")
            if other.name == disk.name:
                faults.append(f"{other.device} and {disk.device} are both named {disk.name}; set another name for one")
            outer, inner = sorted((other.mount_point, disk.mount_point), key=len)
            if inner == outer or inner.startswith(f"{outer}/"):
                faults.append(
                    f"{disk.mount_point} of {disk.device} and {other.mount_point} of {other.device} "
                    "are the same or one within the other; give each disk a place of its own"
                )
    return faults


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
