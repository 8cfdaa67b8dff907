"""An emulated disk, for machines with one medium: ext4 or XFS on a loop device that is slowed down.

Emulated are: a bandwidth; a number of operations per second, which represents seeks; the rotational flag, so that the
kernel treats the device as a disk that seeks, unless it does more operations than such a disk can. Not emulated are:
lower costs of neighbouring blocks (every operation costs the same), the sum of seek and transfer times (only the slower
one counts), a drive's own cache and its reordering. docs/bench-storage.md describes the consequences.

Each disk has a record, written before each step, so that an incomplete disk can be completed or removed, also after a
reboot. Nothing else is touched: an image belongs to the record when its file system has the recorded UUID, a loop
device when it has that image, a mount when that loop device is mounted there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from highwater.bench.storage import block_tools
from highwater.bench.storage.areas import SPARE_BYTES
from highwater.bench.storage.block_tools import FileSystem, LoopDevice
from highwater.bench.storage.control_groups import DiskLimits, Hierarchies, hierarchies, root_limits, set_root_limits
from highwater.common.atomic_files import write_atomically
from highwater.common.errors import UsageError
from highwater.common.units import size_text
from highwater.results.base import Model
from highwater.results.files import dump
from highwater.tuning.facts.model import Facts
from highwater.tuning.hostfiles import HostFiles

STATE_DIRECTORY: Final = "/var/lib/highwater/emulated-hdd"
DEFAULT_SIZE_BYTES: Final = 8 << 30
# A 7200 rpm disk of the 2010s in the middle of its platters.
DEFAULT_LIMITS: Final = DiskLimits(bandwidth_bytes_per_s=120 << 20, operations_per_s=120)

_LEAST_BYTES: Final[dict[FileSystem, int]] = {"ext4": 32 << 20, "xfs": 300 << 20}
# No disk that seeks does more: what is faster is a volume of a cloud, or a slow SSD.
_MOST_SEEKS_PER_S: Final = 500
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,10}")
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
# How much `make` writes to check the limits, in seconds of the bandwidth, and the factor that counts as too fast.
_TRIAL_S: Final = 1.0
_HOLDS_RATIO: Final = 1.5

Status = Literal["ready", "half made", "not mounted", "limits missing"]


class Record(Model):
    """What has been made, or was about to be made."""

    name: str
    image: str
    mount_point: str
    size_bytes: int
    uuid: str
    bandwidth_bytes_per_s: int
    operations_per_s: int
    filesystem: FileSystem = "ext4"
    boot_id: str | None = None
    """The boot in which the device number was assigned; after a reboot another device may have that number."""
    device_number: str | None = None
    finished: bool = False

    @property
    def limits(self) -> DiskLimits:
        return DiskLimits(self.bandwidth_bytes_per_s, self.operations_per_s)


@dataclass(frozen=True, slots=True)
class EmulatedDisk:
    """The present state of a disk."""

    record: Record
    status: Status
    device: LoopDevice | None
    problem: str | None
    """One line with the remedy when the disk is not ready."""


@dataclass(frozen=True, slots=True)
class DiskHost:
    """The host that the functions below work on, and the directory of its records of emulated disks."""

    facts: Facts
    records: str = STATE_DIRECTORY

    @property
    def state_directory(self) -> Path:
        return self.facts.files.locate(self.records)

    @property
    def groups(self) -> Hierarchies:
        return hierarchies(self.facts)

    def boot_id(self) -> str | None:
        return self.facts.files.read(_BOOT_ID).text


# --- what is there ----------------------------------------------------------------------------------------------------


def disks(host: DiskHost) -> list[EmulatedDisk]:
    """All recorded disks in order of name. Needs no root."""
    records = [_read(path) for path in sorted(host.state_directory.glob("*.json"))]
    return [_inspect(host, record) for record in records]


def disk_at(host: DiskHost, path: Path) -> EmulatedDisk | None:
    """The emulated disk whose mount point contains `path`, mounted or not."""
    real = path.resolve()
    for disk in disks(host):
        if real.is_relative_to(Path(disk.record.mount_point).resolve()):
            return disk
    return None


def require_ready(host: DiskHost, path: Path) -> None:
    """Raises UsageError when `path` belongs to an emulated disk that is not mounted or has lost its limits."""
    disk = disk_at(host, path)
    if disk is not None and disk.problem is not None:
        raise UsageError(disk.problem)


def limits_at(host: DiskHost, path: Path) -> dict[str, DiskLimits]:
    """Device number -> limits of the emulated disk of `path`; empty when `path` is on none."""
    disk = disk_at(host, path)
    return {disk.record.device_number: disk.record.limits} if disk and disk.record.device_number else {}


def _inspect(host: DiskHost, record: Record) -> EmulatedDisk:
    device = block_tools.loop_device_of(Path(record.image)) if record.finished else None
    again = f"run: highwater bench storage emulate-hdd make {record.name}"
    status: Status = "ready"
    problem = None
    if not record.finished:
        status, problem = (
            "half made",
            f"the emulated disk {record.name} is half made; {again}, or … remove {record.name}",
        )
    elif device is None or not _is_mounted(host, record, device):
        status, problem = "not mounted", f"the emulated disk {record.name} is not mounted (since a reboot?); {again}"
    elif host.groups.blkio_v1 and _standing_limits(host, device) != record.limits:
        status, problem = "limits missing", f"the emulated disk {record.name} has lost its limits; {again}"
    return EmulatedDisk(record, status, device, problem)


# --- making and removing ----------------------------------------------------------------------------------------------


def make(
    host: DiskHost,
    name: str,
    directory: Path | None,
    size_bytes: int | None,
    limits: DiskLimits | None,
    filesystem: FileSystem | None = None,
) -> EmulatedDisk:
    """Make the disk, complete it, mount it again after a reboot, or change its limits. Raises UsageError.

    directory: for the image and the mount point; it, size_bytes and filesystem are optional for a recorded disk.
    """
    _require_root("made")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name for a disk: use up to 11 of a-z, 0-9 and -")
    if host.groups.blkio_v1 is None and host.groups.unified is None:
        raise UsageError("this host has no control groups to slow a disk down with (cgroup v1 blkio, or v2 with io)")
    with _locked(host):
        recorded = _record_path(host, name).exists()
        record = _wanted(host, name, directory, size_bytes, limits, filesystem)
        block_tools.require_tools(record.filesystem)
        _check_places(record, recorded)
        _write(host, record)
        image, mount_point = Path(record.image), Path(record.mount_point)
        _fill(image, record.size_bytes)
        if block_tools.filesystem_uuid(image) is None:
            if record.filesystem == "xfs":
                block_tools.make_xfs(image, record.uuid)
            else:
                block_tools.make_ext4(image, f"hw-{name}", record.uuid)
        device = block_tools.loop_device_of(image) or block_tools.attach(image)
        if device.deleted:
            raise UsageError(f"the image of {name} was deleted while in use: remove {name}, then make it anew")
        number = host.facts.files.read(f"/sys/block/{device.name}/dev").text
        if number is None:
            raise UsageError(f"{device.path} has no device number in /sys/block; is /sys mounted?")
        if record.device_number != number:
            _clear_limits(host, record)
        record = record.model_copy(update={"device_number": number, "boot_id": host.boot_id()})
        _write(host, record)
        if not device.direct:
            raise UsageError(
                f"{image} cannot be read past the page cache ({device.path} has no direct I/O), so memory would serve "
                f"what a disk should: remove {name}, and make it --on a directory of a disk"
            )
        like_a_disk(host.facts.files, device, record.limits)
        mount_point.mkdir(exist_ok=True)
        if not _is_mounted(host, record, device):
            if mount_point.is_mount():
                raise UsageError(f"something else is mounted at {mount_point}; unmount it first")
            block_tools.mount(device, mount_point, record.filesystem)
        if host.groups.blkio_v1:
            set_root_limits(host.facts.files, host.groups.blkio_v1, number, record.limits)
            _check_effect(record)
        record = record.model_copy(update={"finished": True})
        _write(host, record)
        return _inspect(host, record)


def remove(host: DiskHost, name: str) -> Record:
    """Remove the disk, also an incomplete one. Raises UsageError when there is no such disk, or it is in use."""
    _require_root("removed")
    with _locked(host):
        path = _record_path(host, name)
        if not path.exists():
            known = ", ".join(disk.record.name for disk in disks(host)) or "none"
            raise UsageError(f"there is no emulated disk {name!r} (there is: {known})")
        record = _read(path)
        image, mount_point = Path(record.image), Path(record.mount_point)
        if image.exists() and block_tools.filesystem_uuid(image) not in (record.uuid, None):
            raise UsageError(f"{image} is another file than was made; move it away, then remove {name} again")
        device = block_tools.loop_device_of(image)
        if device is not None:
            while _is_mounted(host, record, device):
                block_tools.unmount(mount_point)
        _clear_limits(host, record)
        if device is not None:
            block_tools.detach(device)
        image.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            mount_point.rmdir()
        path.unlink()
        return record


def _wanted(
    host: DiskHost,
    name: str,
    directory: Path | None,
    size_bytes: int | None,
    limits: DiskLimits | None,
    filesystem: FileSystem | None,
) -> Record:
    path = _record_path(host, name)
    if path.exists():
        record = _read(path)
        asked = {"--on": directory and str(directory.resolve()), "--size": size_bytes, "--filesystem": filesystem}
        has = {
            "--on": str(Path(record.image).parent),
            "--size": record.size_bytes,
            "--filesystem": record.filesystem,
        }
        for option, value in asked.items():
            if value is not None and value != has[option]:
                shown = size_text(record.size_bytes) if option == "--size" else has[option]
                raise UsageError(
                    f"{option}: the emulated disk {name} is there with {shown}; remove it first to change that"
                )
        if limits is None:
            return record
        changed = {
            "bandwidth_bytes_per_s": limits.bandwidth_bytes_per_s,
            "operations_per_s": limits.operations_per_s,
        }
        return record.model_copy(update=changed)
    if directory is None:
        raise UsageError(f"--on is missing: name the directory that shall hold the image of {name}")
    if not directory.is_dir():
        raise UsageError(f"--on: {directory} is not a directory; make it first, or name another one")
    directory = directory.resolve()
    limits = limits or DEFAULT_LIMITS
    return Record(
        name=name,
        image=str(directory / f"{name}.hdd.img"),
        mount_point=str(directory / f"{name}.hdd"),
        size_bytes=size_bytes or DEFAULT_SIZE_BYTES,
        uuid=str(uuid.uuid4()),
        bandwidth_bytes_per_s=limits.bandwidth_bytes_per_s,
        operations_per_s=limits.operations_per_s,
        filesystem=filesystem or "ext4",
    )


def _check_places(record: Record, recorded: bool) -> None:
    """Check that there is enough space, and that the paths are not used by other files."""
    image, mount_point = Path(record.image), Path(record.mount_point)
    if record.size_bytes < (least_bytes := _LEAST_BYTES[record.filesystem]):
        raise UsageError(
            f"--size: {size_text(record.size_bytes)} is too small for {record.filesystem}; use at least "
            f"{least_bytes >> 20}MiB"
        )
    for number, option in ((record.bandwidth_bytes_per_s, "--bandwidth"), (record.operations_per_s, "--iops")):
        if number < 1:
            raise UsageError(f"{option}: must be more than zero")
    if image.exists():
        found = block_tools.filesystem_uuid(image)
        if found != record.uuid and not (found is None and recorded):
            raise UsageError(f"{image} is there and not ours; move it away, or choose another name or --on")
        return
    if not recorded and mount_point.exists():
        raise UsageError(f"{mount_point} is there and not ours; move it away, or choose another name or --on")
    statistics = os.statvfs(image.parent)
    free_bytes = statistics.f_bavail * statistics.f_frsize
    if free_bytes < record.size_bytes + SPARE_BYTES:
        raise UsageError(
            f"--on: {image.parent} has {size_text(free_bytes)} free and the disk takes "
            f"{size_text(record.size_bytes)}; choose a smaller --size or another directory"
        )


def _fill(image: Path, size_bytes: int) -> None:
    """Allocate all blocks of the image, so that the disk cannot run out of space and is not fragmented."""
    descriptor = os.open(image, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size < size_bytes:
            os.posix_fallocate(descriptor, 0, size_bytes)
            os.fsync(descriptor)
    except OSError as error:
        raise UsageError(f"cannot make {image}: {error.strerror or error}") from None
    finally:
        os.close(descriptor)


def like_a_disk(files: HostFiles, device: LoopDevice, limits: DiskLimits) -> None:
    """Set the kernel's settings for a disk with these limits, and a read-ahead of one full operation.

    The read-ahead is not a property of a disk. Every operation costs the same here, so sequential reads must use few
    large operations to reach the bandwidth, while a real disk serves many small ones.
    """
    queue = f"/sys/block/{device.name}/queue"
    per_operation_kib = -(-limits.bandwidth_bytes_per_s // limits.operations_per_s // 1024)
    seeks = limits.operations_per_s <= _MOST_SEEKS_PER_S
    settings = {"rotational": str(int(seeks)), "read_ahead_kb": str(max(128, per_operation_kib))}
    if "mq-deadline" in (files.read(f"{queue}/scheduler").text or ""):
        settings["scheduler"] = "mq-deadline"
    for name, value in settings.items():
        try:
            files.write_setting(f"{queue}/{name}", value)
        except OSError as error:
            raise UsageError(f"cannot set {queue}/{name} to {value}: {error.strerror or error}") from None


def _clear_limits(host: DiskHost, record: Record) -> None:
    """Remove the limits of the recorded device, unless a reboot or the device's removal has done so."""
    if not host.groups.blkio_v1 or not record.device_number or record.boot_id != host.boot_id():
        return
    try:
        set_root_limits(host.facts.files, host.groups.blkio_v1, record.device_number, None)
    except OSError as error:
        if error.errno not in (errno.ENODEV, errno.ENXIO):
            raise


def _check_effect(record: Record) -> None:
    """Check that the limits are effective: write a second's worth of data and measure the time."""
    size_bytes = min(round(record.bandwidth_bytes_per_s * _TRIAL_S), record.size_bytes // 4)
    path = Path(record.mount_point) / ".highwater-check"
    block = bytes(1 << 20)
    try:
        with path.open("wb") as file:
            started_s = time.monotonic()
            for _ in range(-(-size_bytes // len(block))):
                file.write(block)
            file.flush()
            os.fdatasync(file.fileno())
            took_s = time.monotonic() - started_s
    except OSError as error:
        raise UsageError(f"the emulated disk {record.name} cannot be written to: {error.strerror or error}") from None
    finally:
        path.unlink(missing_ok=True)
    rate = size_bytes / took_s
    if rate > record.bandwidth_bytes_per_s * _HOLDS_RATIO:
        raise UsageError(
            f"the limits of the emulated disk {record.name} do not hold: {size_text(rate)}/s were written where "
            f"{size_text(record.bandwidth_bytes_per_s)}/s are set; run from the root group of blkio "
            f"(see /proc/self/cgroup), then make {record.name} again"
        )


# --- the record -------------------------------------------------------------------------------------------------------


def _record_path(host: DiskHost, name: str) -> Path:
    return host.state_directory / f"{name}.json"


def _read(path: Path) -> Record:
    try:
        return Record.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError) as error:
        line = str(error).splitlines()[0]
        raise UsageError(f"{path} is not a readable record of an emulated disk ({line}); move it away") from None


def _write(host: DiskHost, record: Record) -> None:
    write_atomically(_record_path(host, record.name), dump(record))


@contextmanager
def _locked(host: DiskHost) -> Iterator[None]:
    host.state_directory.mkdir(parents=True, exist_ok=True)
    with (host.state_directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _require_root(done: str) -> None:
    if os.geteuid() != 0:
        raise UsageError(f"an emulated disk can be {done} by root alone (loop device, mount, control group); use sudo")


def _is_mounted(host: DiskHost, record: Record, device: LoopDevice) -> bool:
    """Whether the device is mounted at the mount point now."""
    try:
        number = Path(record.mount_point).stat().st_dev
    except OSError:
        return False
    return f"{os.major(number)}:{os.minor(number)}" == host.facts.files.read(f"/sys/block/{device.name}/dev").text


def _standing_limits(host: DiskHost, device: LoopDevice) -> DiskLimits | None:
    number = host.facts.files.read(f"/sys/block/{device.name}/dev").text
    blkio = host.groups.blkio_v1
    return root_limits(host.facts.files, blkio, number) if blkio and number else None
