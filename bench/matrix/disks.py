"""The disks of a matrix: the given one, and emulated ones that are made for the time of their runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.bench.matrix.study import Study
from highwater.bench.storage import emulated_hdd
from highwater.bench.storage.areas import SPARE_BYTES
from highwater.bench.storage.block_tools import FileSystem
from highwater.bench.storage.targets import describe_target
from highwater.common.errors import UsageError
from highwater.common.units import size_text
from highwater.tuning.facts import collect

# Of each emulated disk: what a run writes, and as much again, so that the file system never fills.
SIZE_BYTES: Final = 4 << 30
_PREFIX: Final = "mx-"
# What runs and emulated disks leave in the data directory when they are killed.
_OURS: Final = (_PREFIX, "highwater-", "lost+found")


@dataclass(frozen=True, slots=True)
class Places:
    """Where the logs of one disk are stored. other: the same disk with the other file system, if it is emulated."""

    log: Path
    text: str
    is_ours: bool = False
    """Made for the matrix: nobody else has data on it."""
    other: Path | None = None


def require_place(study: Study, data_dir: Path, out: Path) -> None:
    """Check the directory for logs and emulated disks. Raises UsageError when it has files of others, or no space."""
    if not data_dir.is_dir():
        raise UsageError(f"--data-dir: {data_dir} is not a directory; make it first, or name another one")
    others = sorted(path.name for path in data_dir.iterdir() if not path.name.startswith(_OURS))
    if others:
        raise UsageError(f"--data-dir: {data_dir} is not empty ({others[0]}); name an empty directory on the disk")
    if out.absolute().is_relative_to(data_dir):
        raise UsageError(
            f"--out: {out} is inside --data-dir {data_dir}, which is for logs alone; name another directory"
        )
    needed = SIZE_BYTES * len(_filesystems(study)) + SPARE_BYTES if any(study.disks.values()) else 0
    free = shutil.disk_usage(data_dir).free + sum(path.stat().st_size for path in data_dir.glob(f"{_PREFIX}*.img"))
    if free < needed:
        raise UsageError(
            f"--data-dir: {data_dir} has {size_text(free)} free, and emulated disks take {size_text(needed)}; name a "
            "directory on a larger disk, or measure this disk alone: --disk host"
        )


@contextmanager
def opened(study: Study, data_dir: Path, name: str) -> Iterator[Places]:
    """The disk of this name; an emulated one is removed at the end. Raises UsageError when it cannot be made.

    After kill -9 it stays until the matrix goes on, or `highwater bench storage emulate-hdd remove` takes it away.
    """
    volume = study.disks[name]
    if volume is None:
        yield Places(data_dir, _text(name, data_dir))
        return
    wanted: dict[str, FileSystem] = {
        f"{_PREFIX}{name}{'-x' if system == 'xfs' else ''}": system for system in _filesystems(study)
    }
    try:
        paths = []
        for disk_name, system in wanted.items():
            host = emulated_hdd.DiskHost(collect())
            disk = emulated_hdd.make(host, disk_name, data_dir, SIZE_BYTES, volume.limits, system)
            paths.append(Path(disk.record.mount_point))
        yield Places(paths[0], _text(name, paths[0]), True, paths[1] if paths[1:] else None)
    finally:
        host = emulated_hdd.DiskHost(collect())
        for disk in emulated_hdd.disks(host):
            if disk.record.name in wanted:
                emulated_hdd.remove(host, disk.record.name)


def _filesystems(study: Study) -> list[FileSystem]:
    asked = any(setting.startswith("filesystem.type=") for setting in study.settings)
    return ["ext4", "xfs"] if asked else ["ext4"]


def _text(name: str, path: Path) -> str:
    target = describe_target(name, path, collect())
    device = target.backing_device if target.emulated else target.device
    kind = target.emulation or f"{target.medium}, {target.scheduler or 'no'} scheduler"
    return f"{target.filesystem} on {device or 'no disk'}: {kind}"
