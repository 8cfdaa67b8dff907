"""Control groups: how disks and memory are limited. Version 1 and version 2 differ; which one a host has is found out.

The limits of a disk apply to write-back only in the group that write-back is charged to. In version 1 this is the root
group of blkio, whoever made the pages dirty; in version 2 it is the group that made them dirty, if it has both memory
and io enabled.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from highwater.common.errors import UsageError
from highwater.common.units import size_text
from highwater.tuning.facts.model import Facts
from highwater.tuning.hostfiles import HostFiles

_GROUP_PREFIX: Final = "highwater-"
_GONE_WITHIN_S: Final = 5.0
_THROTTLE: Final = "blkio.throttle.{}_device"


@dataclass(frozen=True, slots=True)
class DiskLimits:
    """The limits of a disk, each for reads and for writes."""

    bandwidth_bytes_per_s: int
    operations_per_s: int

    def __str__(self) -> str:
        return f"{size_text(self.bandwidth_bytes_per_s)}/s and {self.operations_per_s} operations/s each way"


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where the controllers of this host are mounted; None for a missing controller."""

    files: HostFiles
    blkio_v1: str | None
    memory_v1: str | None
    unified: str | None
    """Version 2 with both memory and io."""


def hierarchies(facts: Facts) -> Hierarchies:
    def version_1(controller: str) -> str | None:
        found = (m.mount_point for m in facts.mounts if m.filesystem == "cgroup" and controller in m.options)
        return next(found, None)

    unified = next((m.mount_point for m in facts.mounts if m.filesystem == "cgroup2"), None)
    controllers = (facts.files.read(f"{unified}/cgroup.controllers").text or "").split() if unified else []
    return Hierarchies(
        facts.files,
        version_1("blkio"),
        version_1("memory"),
        unified if {"io", "memory"} <= set(controllers) else None,
    )


# --- a disk's limits in the root group of version 1 -------------------------------------------------------------------


def set_root_limits(files: HostFiles, blkio: str, device_number: str, limits: DiskLimits | None) -> None:
    """Limit a disk for all processes through the root group; None removes the limits. Raises OSError."""
    for direction in ("read", "write"):
        bandwidth, operations = (limits.bandwidth_bytes_per_s, limits.operations_per_s) if limits else (0, 0)
        for name, value in ((f"{direction}_bps", bandwidth), (f"{direction}_iops", operations)):
            files.write_setting(f"{blkio}/{_THROTTLE.format(name)}", f"{device_number} {value}")


def root_limits(files: HostFiles, blkio: str, device_number: str) -> DiskLimits | None:
    """The limits in force; None unless reads and writes have the same limits."""
    values = []
    for name in ("read_bps", "write_bps", "read_iops", "write_iops"):
        text = files.read(f"{blkio}/{_THROTTLE.format(name)}").text or ""
        found = re.search(rf"^{re.escape(device_number)} (\d+)$", text, re.MULTILINE)
        values.append(int(found[1]) if found else 0)
    read_bps, write_bps, read_iops, write_iops = values
    if not all(values) or read_bps != write_bps or read_iops != write_iops:
        return None
    return DiskLimits(read_bps, read_iops)


# --- the group of a system under test ---------------------------------------------------------------------------------


class SystemGroup:
    """A control group for one system under test; it is removed when the context ends.

    `memory_bytes` limits the page cache of the system's reads and writes together with the memory of its processes,
    both from the moment of joining (earlier memory stays charged to the old group). `disks`: limits by device number,
    for version 2; in version 1 the root group has them (`set_root_limits`).

    Enter it before the system starts and leave it after the system has ended. Raises UsageError when it cannot be made.
    """

    def __init__(self, where: Hierarchies, memory_bytes: int | None, disks: dict[str, DiskLimits]) -> None:
        self._files = where.files
        self._memory_bytes = memory_bytes
        self._disks = disks if where.blkio_v1 is None else {}
        self._unified = where.unified is not None and where.memory_v1 is None
        self._parent = where.unified if self._unified else where.memory_v1
        self._path: str | None = None

    def __enter__(self) -> SystemGroup:
        if self._memory_bytes is None and not self._disks:
            return self
        if self._parent is None:
            raise UsageError(
                "this host has no memory control group (cgroup v1 memory, or v2 with memory and io) to limit the "
                "system with; leave storage.cache_limit out"
            )
        self._remove_left_over(self._parent)
        path = f"{self._parent}/{_GROUP_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        try:
            self._files.locate(path).mkdir()
            self._path = path
            self._limit(path)
        except OSError as error:
            self._remove()
            raise UsageError(
                f"cannot limit the system under test with a control group in {self._parent}: "
                f"{error.strerror or error}; run as root, or leave storage.cache_limit out"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def take(self, process_ids: Sequence[int]) -> None:
        """Move these processes and all their descendants into the group. Raises UsageError."""
        if self._path is None:
            return
        for pid in _with_descendants(process_ids):
            try:
                self._files.write_setting(f"{self._path}/cgroup.procs", str(pid))
            except ProcessLookupError:
                continue
            except OSError as error:
                raise UsageError(
                    f"cannot put process {pid} into {self._path}: {error.strerror or error}; "
                    "run as root, or leave storage.cache_limit out"
                ) from None

    def problem(self) -> str | None:
        """One line when the kernel killed a process of the group because of the memory limit."""
        if self._path is None or self._memory_bytes is None:
            return None
        name = "memory.events" if self._unified else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)$", self._files.read(f"{self._path}/{name}").text or "", re.MULTILINE)
        if found is None or found[1] == "0":
            return None
        return f"the system needed more memory than storage.cache_limit, {size_text(self._memory_bytes)}; raise it"

    def _limit(self, path: str) -> None:
        if self._unified:
            self._files.write_setting(f"{self._parent}/cgroup.subtree_control", "+memory +io")
        if self._memory_bytes is not None:
            name = "memory.max" if self._unified else "memory.limit_in_bytes"
            self._files.write_setting(f"{path}/{name}", str(self._memory_bytes))
            # Swapping would make room for more page cache than the limit allows.
            no_swap = "memory.swap.max" if self._unified else "memory.swappiness"
            with contextlib.suppress(OSError):  # a kernel without swap has no such file
                self._files.write_setting(f"{path}/{no_swap}", "0")
        for number, limits in self._disks.items():
            bandwidth, operations = limits.bandwidth_bytes_per_s, limits.operations_per_s
            self._files.write_setting(
                f"{path}/io.max", f"{number} rbps={bandwidth} wbps={bandwidth} riops={operations} wiops={operations}"
            )

    def _remove(self) -> None:
        path, self._path = self._path, None
        if path is None:
            return
        deadline_s = time.monotonic() + _GONE_WITHIN_S
        while True:
            try:
                self._files.locate(path).rmdir()
            except FileNotFoundError:
                return
            except OSError:  # a killed process is counted until it is reaped
                if time.monotonic() > deadline_s:
                    return  # the next run removes it
                time.sleep(0.02)
            else:
                return

    def _remove_left_over(self, parent: str) -> None:
        """Remove the groups of killed runs, whose process no longer exists."""
        for name in self._files.names(parent):
            owner = re.fullmatch(rf"{_GROUP_PREFIX}(\d+)-[0-9a-f]+", name)
            if owner and not Path(f"/proc/{owner[1]}").exists():
                with contextlib.suppress(OSError):
                    self._files.locate(f"{parent}/{name}").rmdir()


def _with_descendants(process_ids: Sequence[int]) -> list[int]:
    found = dict.fromkeys(process_ids)
    for pid in process_ids:
        with contextlib.suppress(psutil.Error):
            found.update(dict.fromkeys(child.pid for child in psutil.Process(pid).children(recursive=True)))
    return list(found)
