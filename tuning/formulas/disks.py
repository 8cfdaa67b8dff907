"""Formulas for the request queues of disks.

A disk knob is evaluated for the disks under the data directories and for the RAID and LVM devices above them. Knobs of
request queues apply to the disks; read-ahead and dirty pages apply to the device that is mounted.
"""

from __future__ import annotations

from typing import Final

from ..facts.model import BlockDevice, Facts, Medium
from ..model import NotApplicable, Target
from ..workload import Workload
from .common import MEDIUM_NAMES

_HDD_READ_AHEAD_KB: Final = 4096
_KERNEL_READ_AHEAD_KB: Final = 128
_HDD_REQUESTS: Final = 256
_WANTED_SECTORS_KB: Final = 1024
_MANY_CPUS: Final = 16
_DIRTY_SHARE_OF_JBOD_PERCENT: Final = 150
# With a smaller share, a disk could not buffer a burst while the others are idle.
_LEAST_DIRTY_SHARE_PERCENT: Final = 10


def disk_scheduler(facts: Facts, _workload: Workload, name: str) -> Target | NotApplicable:
    """none for NVMe and SSD, mq-deadline for HDD; a virtual disk keeps what it has."""
    disk = _queueing_disk(facts, name)
    if isinstance(disk, NotApplicable):
        return disk
    if not disk.schedulers:
        return NotApplicable("it has no scheduler to choose")
    medium = medium_of(facts, disk)
    if medium is None:
        return NotApplicable("a virtual disk hides its medium, so the kernel's choice stays")
    wanted = "mq-deadline" if medium == "hdd" else "none"
    if wanted not in disk.schedulers:
        return NotApplicable(f"this kernel offers only {', '.join(disk.schedulers)}")
    return Target(wanted, f"{wanted} for {_described(medium)}")


def merging(facts: Facts, _workload: Workload, name: str) -> Target | NotApplicable:
    """0: adjacent requests are merged."""
    disk = _queueing_disk(facts, name)
    return disk if isinstance(disk, NotApplicable) else Target(0, "0: appends to a log are adjacent requests")


def read_ahead(facts: Facts, workload: Workload, name: str) -> Target | NotApplicable:
    """4096 KiB on HDD, the kernel's 128 KiB on anything else."""
    device = facts.block_device(name)
    if device is None:
        return _no_such_disk(name)
    if device.name not in _mounted_devices(facts, workload):
        return NotApplicable("the RAID or LVM device above it decides what is read ahead")
    media = {medium_of(facts, disk) for disk in _disks_below(facts, device)}
    if media == {"hdd"}:
        return Target(_HDD_READ_AHEAD_KB, f"{_HDD_READ_AHEAD_KB} KiB for an HDD: a seek costs as much as 1 MB read")
    medium = _described(media.pop()) if len(media) == 1 else "a mixture of media"
    return Target(
        _KERNEL_READ_AHEAD_KB,
        f"{_KERNEL_READ_AHEAD_KB} KiB for {medium}",
        note="up to 512 KiB is worth proving with consumers that catch up",
    )


def requests(facts: Facts, _workload: Workload, name: str) -> Target | NotApplicable:
    """256 on HDD with a scheduler; anything else keeps what its driver asks for."""
    disk = _queueing_disk(facts, name)
    if isinstance(disk, NotApplicable):
        return disk
    medium = medium_of(facts, disk)
    if medium != "hdd":
        return NotApplicable(f"the driver's own figure stays on {_described(medium)}")
    if set(disk.schedulers) <= {"none"}:
        return NotApplicable("without a scheduler the queue of the device itself is the limit")
    return Target(_HDD_REQUESTS, f"{_HDD_REQUESTS}: enough for mq-deadline to put in order")


def largest_request(facts: Facts, _workload: Workload, name: str) -> Target | NotApplicable:
    """1024 KiB, or what the hardware takes where that is less."""
    disk = _queueing_disk(facts, name)
    if isinstance(disk, NotApplicable):
        return disk
    hardware = disk.queue_number("max_hw_sectors_kb")
    if hardware is None:
        return NotApplicable("max_hw_sectors_kb does not show the limit of the hardware")
    value = min(_WANTED_SECTORS_KB, hardware)
    return Target(value, f"the smaller of {_WANTED_SECTORS_KB} KiB and the hardware's {hardware} KiB")


def write_cache(facts: Facts, _workload: Workload, name: str) -> Target | NotApplicable:
    """The write cache as the driver found it; never written."""
    disk = _queueing_disk(facts, name)
    if isinstance(disk, NotApplicable):
        return disk
    present = disk.queue.get("write_cache")
    if present is None:
        return NotApplicable("the kernel shows no write cache")
    note = "" if present == "write back" else "the kernel sends it no flushes: safe only without a volatile cache"
    return Target(present, f"{present}, as the driver found it", note=note)


def writeback_throttling(facts: Facts, _workload: Workload, name: str) -> Target | NotApplicable:
    """0 (off); otherwise the kernel's own latency goal stays."""
    disk = _queueing_disk(facts, name)
    if isinstance(disk, NotApplicable):
        return disk
    present = disk.queue_number("wbt_lat_usec")
    if present is None:
        return NotApplicable("this kernel or device has no write-back throttling")
    return Target(0, f"0 (off) instead of {present} µs")


def completion_affinity(facts: Facts, _workload: Workload, name: str) -> Target | NotApplicable:
    """2 on NVMe of a host with 16 CPUs or more; the kernel's choice elsewhere."""
    disk = _queueing_disk(facts, name)
    if isinstance(disk, NotApplicable):
        return disk
    medium = medium_of(facts, disk)
    if medium != "nvme":
        return NotApplicable(f"the kernel's choice stays on {_described(medium)}")
    if facts.cpu_count is None:
        return NotApplicable(facts.unknown.get("cpu_count", "the number of CPUs is not known"))
    if facts.cpu_count < _MANY_CPUS:
        return NotApplicable(f"{facts.cpu_count} CPUs: the group of CPUs that completes requests is small enough")
    return Target(2, f"2: with {facts.cpu_count} CPUs, at least {_MANY_CPUS}, the requesting CPU completes")


def dirty_share(facts: Facts, workload: Workload, name: str) -> Target | NotApplicable:
    """150 % divided by the number of mounted data disks where there are several, at least 10 %."""
    device = facts.block_device(name)
    if device is None:
        return _no_such_disk(name)
    mounted = _mounted_devices(facts, workload)
    if device.name not in mounted:
        return NotApplicable("dirty pages are counted for the RAID or LVM device above it")
    if len(mounted) < 2:
        return NotApplicable("the only data disk may hold all dirty pages")
    share = _DIRTY_SHARE_OF_JBOD_PERCENT // len(mounted)
    return Target(
        max(share, _LEAST_DIRTY_SHARE_PERCENT),
        f"1.5 × 100 % / {len(mounted)} mounted disks = {share} %, at least {_LEAST_DIRTY_SHARE_PERCENT} %",
    )


def _queueing_disk(facts: Facts, name: str) -> BlockDevice | NotApplicable:
    """The disk of that name, unless it is a layer that passes its requests to other devices."""
    disk = facts.block_device(name)
    if disk is None:
        return _no_such_disk(name)
    if disk.members:
        return NotApplicable(f"{name} passes requests on to {', '.join(disk.members)}")
    return disk


def _no_such_disk(name: str) -> NotApplicable:
    return NotApplicable(f"there is no disk {name}" if name else "no local disk found under the data directories")


def medium_of(facts: Facts, disk: BlockDevice) -> Medium | None:
    """The medium of the disk; None in a virtual machine whose hypervisor shows every disk as rotational."""
    return None if facts.virtual_machine and disk.medium == "hdd" else disk.medium


def _described(medium: Medium | None) -> str:
    return "a disk that hides its medium" if medium is None else f"an {MEDIUM_NAMES[medium]}"


def _mounted_devices(facts: Facts, workload: Workload) -> list[str]:
    """Names of the devices below the data directories' file systems, each once."""
    carriers = (facts.device_of(directory) for directory in workload.data_dirs)
    return list(dict.fromkeys(device.name for device in carriers if device is not None))


def _disks_below(facts: Facts, device: BlockDevice) -> list[BlockDevice]:
    below = [found for member in device.members if (found := facts.block_device(member)) is not None]
    return [disk for each in below for disk in _disks_below(facts, each)] if device.members else [device]
