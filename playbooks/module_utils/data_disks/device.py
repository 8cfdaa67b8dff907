"""Inspects a block device: its properties, its content and its users; reads only."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..highwater.common.units import size_text
from ..highwater.tuning.errors import TuningError, nearest_match
from ..highwater.tuning.facts.model import Facts
from ..highwater.tuning.runner import Runner

_SECTOR_BYTES: Final = 512
_LOOKED_AT_BYTES: Final = 1 << 20
_MOST_NAMES: Final = 8
_FILESYSTEMS: Final = ("ext4", "xfs")
# How to mount a file system without its journal being replayed, which would write to the device.
_WITHOUT_REPLAY: Final = {"ext4": "ro,noload", "xfs": "ro,norecovery"}


@dataclass(frozen=True)
class Signature:
    """Bytes by which a file system, a partition table, a member of an array and the like are known (wipefs(8))."""

    type: str
    uuid: str
    label: str

    def __str__(self) -> str:
        extra = [word for word in (self.label and f"label {self.label}", self.uuid and f"UUID {self.uuid}") if word]
        return self.type + (f" ({', '.join(extra)})" if extra else "")


@dataclass(frozen=True)
class Device:
    path: str
    """The path as the inventory names it."""
    real_path: str
    number: str
    """Major and minor, as 8:16."""
    size_bytes: int
    model: str
    medium: str | None
    """hdd or ssd, as far as the kernel knows."""
    read_only: bool
    partitions: tuple[str, ...]
    holders: tuple[str, ...]
    """Arrays, volumes and mappings that it is a part of."""
    signatures: tuple[Signature, ...]
    mount_points: tuple[str, ...]
    """Mount points in this process's mount namespace."""
    is_swap: bool
    claimed: bool
    """Whether the kernel refuses it to others: mounted, in whichever namespace, swapped to, or part of something."""
    starts_with_zeros: bool

    def describe(self) -> str:
        """Size, model and how the kernel sees it."""
        return ", ".join(word for word in (size_text(self.size_bytes), self.model, self.medium) if word)

    @property
    def filesystem(self) -> Signature | None:
        """The ext4 or XFS that is the only thing on it."""
        kinds = set(self.signatures)
        return self.signatures[0] if len(kinds) == 1 and self.signatures[0].type in _FILESYSTEMS else None


def look_at(path: str, facts: Facts, runner: Runner) -> Device:
    """Raises TuningError, with the way out, for what is no block device or cannot be read."""
    number = _number_of(path)
    folder = os.path.realpath(f"/sys/dev/block/{number}")
    real_path = os.path.realpath(path)
    files = facts.files
    sectors = files.read(f"{folder}/size").text
    if sectors is None:
        raise TuningError(f"{path} is not in /sys/dev/block; is /sys mounted?")
    if sectors == "0":
        raise TuningError(f"{path} is empty: no medium is in it, or nothing is attached to it; attach it first")
    whole = facts.block_device(number)
    return Device(
        path=path,
        real_path=real_path,
        number=number,
        size_bytes=int(sectors) * _SECTOR_BYTES,
        model=(whole.model if whole and whole.model else ""),
        medium={"hdd": "hdd", "ssd": "ssd", "nvme": "ssd"}.get(whole.medium or "") if whole else None,
        read_only=files.read(f"{folder}/ro").text == "1",
        partitions=tuple(child for child in files.names(folder) if files.exists(f"{folder}/{child}/partition")),
        holders=tuple(_holder(facts, holder) for holder in files.names(f"{folder}/holders")),
        signatures=_signatures(path, real_path, runner),
        mount_points=tuple(mount.mount_point for mount in facts.mounts if mount.device_number == number),
        is_swap=any(_number_or_none(swap.device) == number for swap in facts.swaps or ()),
        claimed=_is_claimed(path),
        starts_with_zeros=not any(_first_bytes(path)),
    )


def carries_number(path: str, number: str) -> bool:
    """Whether `path` is the block device with this number."""
    return _number_or_none(path) == number


def files_in(device: Device, kind: str, runner: Runner) -> list[str] | None:
    """Names at the top of an unmounted file system, without what mkfs puts there; None when it cannot be mounted.

    It is mounted read-only, in a mount namespace that ends with the command, and its journal is not replayed.
    """
    script = 'mount -t "$1" -o "$2" "$3" /run && ls -A /run'
    arguments = [kind, _WITHOUT_REPLAY[kind], device.real_path]
    looked = runner.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *arguments])
    if looked.status:
        return None
    return [name for name in looked.stdout.splitlines() if name != "lost+found"]


def _number_of(path: str) -> str:
    try:
        found = Path(path).stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise TuningError(f"{path} does not exist{_beside(path)}") from error
        raise TuningError(f"{path} cannot be looked at: {error.strerror}") from error
    if not stat.S_ISBLK(found.st_mode):
        raise TuningError(f"{path} is not a block device; name a disk or a partition: `lsblk -o PATH,SIZE,MODEL`")
    return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


def _number_or_none(path: str) -> str | None:
    try:
        return _number_of(path)
    except TuningError:
        return None


def _beside(path: str) -> str:
    """The disks that are there, the likeliest first."""
    folder = "/dev/disk/by-id"
    names = sorted(found.name for found in Path(folder).glob("*")) if Path(folder).is_dir() else []
    if not names:
        return "; `lsblk -o PATH,SIZE,MODEL` shows the disks of the host"
    close = nearest_match(Path(path).name, names) if path.startswith(folder) else ""
    more = ", …" if len(names) > _MOST_NAMES else ""
    return f"{close or '; name another'}: {folder} has {', '.join(names[:_MOST_NAMES])}{more}"


def _holder(facts: Facts, name: str) -> str:
    mapped = facts.files.read(f"/sys/class/block/{name}/dm/name").text
    return f"{name} ({mapped})" if mapped else name


def _signatures(path: str, real_path: str, runner: Runner) -> tuple[Signature, ...]:
    done = runner.run(["wipefs", "--no-act", "--json", real_path])
    if done.status:
        raise TuningError(f"what is on {path} cannot be told: {done.complaint}")
    try:
        rows: Sequence[dict[str, str | None]] = json.loads(done.stdout)["signatures"] if done.stdout.strip() else []
        return tuple(
            Signature(str(row["type"]), (row.get("uuid") or "").lower(), row.get("label") or "") for row in rows
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TuningError(f"what is on {path} cannot be told: wipefs answered {done.stdout[:80]!r}") from error


def _is_claimed(path: str) -> bool:
    """O_EXCL on a block device asks for what mounting, swapping and mapping ask for (open(2))."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return True
        raise TuningError(f"{path} cannot be opened: {error.strerror}; is the disk dead?") from error
    return False


def _first_bytes(path: str) -> bytes:
    try:
        with Path(path).open("rb") as device:
            return device.read(_LOOKED_AT_BYTES)
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {error.strerror}; is the disk dead?") from error
