"""Storage targets: names for directories, and the kind of medium of each."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from highwater.bench.storage import emulated_hdd
from highwater.bench.user_paths import expanded
from highwater.bench.workload.model import Workload
from highwater.bench.workload.values import TEMPORARY_TARGET
from highwater.results.storage import StorageTarget
from highwater.tuning.facts.model import BlockDevice, Facts

Medium = Literal["ssd", "hdd", "nvme", "memory", "unknown"]

_MEMORY_FILESYSTEMS: Final = ("tmpfs", "ramfs")
_KERNELS_OWN: Final = ("/proc/", "/sys/")


def describe_target(name: str, path: Path, facts: Facts) -> StorageTarget:
    """The storage of `path`, which does not need to exist."""
    mount = facts.mount_of(str(path))
    disks = facts.disks_of(str(path))
    disk = disks[0] if len(disks) == 1 else None
    in_memory = mount is not None and mount.filesystem in _MEMORY_FILESYSTEMS
    backing = [below for device in disks for below in _backing_disks(device, facts)]
    return StorageTarget(
        name=name,
        path=str(path),
        device="+".join(device.name for device in disks) or None,
        medium="memory" if in_memory else _medium(disks, facts),
        emulated=any(map(_is_loop, disks)),
        model=disk.model if disk else None,
        scheduler=disk.scheduler if disk else None,
        filesystem=mount.filesystem if mount else None,
        mount_options=list(mount.options) if mount else [],
        backing_device="+".join(dict.fromkeys(device.name for device in backing)) or None,
        emulation=_emulation(path, facts) if any(map(_is_loop, disks)) else None,
    )


def mounted_targets(facts: Facts) -> list[StorageTarget]:
    """All mounted file systems that can store a log, named by mount point."""
    found = {}
    for mount in facts.mounts:
        stored = facts.disks_of(mount.mount_point) or mount.filesystem in _MEMORY_FILESYSTEMS
        kernels = mount.mount_point.startswith(_KERNELS_OWN)
        if stored and not kernels and "ro" not in mount.options:
            found[mount.mount_point] = describe_target(mount.mount_point, Path(mount.mount_point), facts)
    return list(found.values())


def target_paths(workload: Workload) -> Mapping[str, Path]:
    """All targets a workload may name."""
    paths = {name: expanded(target.path).absolute() for name, target in workload.storage.targets.items()}
    return {TEMPORARY_TARGET: Path(tempfile.gettempdir())} | paths


def _medium(disks: list[BlockDevice], facts: Facts) -> Medium:
    """The medium of all disks. A loop device has the medium of its file; if marked rotational, it is an HDD."""
    below = [
        leaf for device in disks for leaf in ((not device.rotational and _backing_disks(device, facts)) or [device])
    ]
    media: set[Medium] = {device.medium or "unknown" for device in below}
    return media.pop() if len(media) == 1 else "unknown"


def _emulation(path: Path, facts: Facts) -> str:
    disk = emulated_hdd.disk_at(emulated_hdd.DiskHost(facts), path)
    if disk is None:
        return "a file as a disk, without limits of ours"
    return disk.problem or f"a file as a disk, limited to {disk.record.limits}"


def _is_loop(device: BlockDevice) -> bool:
    return device.name.startswith("loop")


def _backing_disks(device: BlockDevice, facts: Facts) -> list[BlockDevice]:
    if not _is_loop(device):
        return []
    file = facts.files.read(f"/sys/block/{device.name}/loop/backing_file").text
    return facts.disks_of(file) if file else []
