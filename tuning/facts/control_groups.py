"""Reads the control group limits of this process and of its ancestors, version 1, 2 or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .model import CgroupVersion, ControlGroup, Mount
from .reading import Reader, parse_cpu_list, parse_whole

# Version 1 prints "no limit" as LONG_MAX rounded down to a page.
_VERSION_1_UNLIMITED: Final = 2**62
_THROTTLE_FILES: Final = {"rbps": "read_bps", "wbps": "write_bps", "riops": "read_iops", "wiops": "write_iops"}


@dataclass(frozen=True)
class _Hierarchy:
    """One mounted hierarchy and the directories of this process's group in it, the topmost first."""

    version: int
    group: str
    directories: tuple[str, ...]


def read_control_group(reader: Reader, mounts: Sequence[Mount]) -> ControlGroup:
    text = reader.required("memory.cgroup_limit_bytes", "/proc/self/cgroup")
    groups = [line.split(":", 2) for line in (text or "").splitlines() if line.count(":") >= 2]
    memory = _hierarchy(groups, mounts, "memory")
    cpu = _hierarchy(groups, mounts, "cpu")
    pids = _hierarchy(groups, mounts, "pids")
    return ControlGroup(
        version=_version(mounts),
        path=memory.group if memory else None,
        memory_max_bytes=_smallest(reader, memory, "memory.max", "memory.limit_in_bytes"),
        memory_high_bytes=_smallest(reader, memory, "memory.high", ""),
        memory_swap_max_bytes=_smallest(reader, memory, "memory.swap.max", ""),
        cpu_limit=_cpu_limit(reader, cpu),
        cpus=_cpus(reader, _hierarchy(groups, mounts, "cpuset")),
        pids_max=_smallest(reader, pids, "pids.max", "pids.max"),
        io_max=_io_max(reader, _hierarchy(groups, mounts, "blkio")),
    )


def _version(mounts: Sequence[Mount]) -> CgroupVersion | None:
    two = any(mount.filesystem == "cgroup2" for mount in mounts)
    # systemd's own hierarchy of version 1 has a name and controls nothing.
    one = any(mount.filesystem == "cgroup" and not any("name=" in o for o in mount.options) for mount in mounts)
    if one:
        return "hybrid" if two else "v1"
    return "v2" if two else None


def _hierarchy(groups: Sequence[Sequence[str]], mounts: Sequence[Mount], controller: str) -> _Hierarchy | None:
    """The hierarchy of a controller: one of version 1 that has it, else that of version 2."""
    for _, controllers, group in groups:
        if controller in controllers.split(","):
            mounted = [m for m in mounts if m.filesystem == "cgroup" and controller in m.options]
            return _Hierarchy(1, group, _upwards(mounted[-1], group)) if mounted else None
    for number, _, group in groups:
        mounted = [m for m in mounts if m.filesystem == "cgroup2"]
        if number == "0" and mounted:
            return _Hierarchy(2, group, _upwards(mounted[0], group))
    return None


def _upwards(mount: Mount, group: str) -> tuple[str, ...]:
    """The group and its ancestors. Inside a container the group's path may lie above what is mounted."""
    parts = [part for part in group.split("/") if part not in ("", "..")]
    return tuple("/".join([mount.mount_point, *parts[:depth]]) for depth in range(len(parts) + 1))


def _texts(reader: Reader, hierarchy: _Hierarchy | None, file: str) -> list[tuple[str, str]]:
    """Each directory that has the file, the topmost first, with the text."""
    if hierarchy is None or not file:
        return []
    found = ((directory, reader.optional(f"{directory}/{file}")) for directory in hierarchy.directories)
    return [(directory, text) for directory, text in found if text]


def _smallest(reader: Reader, hierarchy: _Hierarchy | None, file_of_2: str, file_of_1: str) -> int | None:
    file = file_of_2 if hierarchy and hierarchy.version == 2 else file_of_1
    numbers = [parse_whole(text) for _, text in _texts(reader, hierarchy, file)]
    return min((n for n in numbers if n is not None and 0 <= n < _VERSION_1_UNLIMITED), default=None)


def _cpu_limit(reader: Reader, hierarchy: _Hierarchy | None) -> float | None:
    """The smallest quota, in CPUs: `quota period` in version 2, a file for each in version 1; `max` or -1 is none."""
    if hierarchy is None:
        return None
    if hierarchy.version == 2:
        pairs = [text.partition(" ")[::2] for _, text in _texts(reader, hierarchy, "cpu.max")]
    else:
        pairs = [
            (quota, reader.optional(f"{directory}/cpu.cfs_period_us") or "")
            for directory, quota in _texts(reader, hierarchy, "cpu.cfs_quota_us")
        ]
    numbers = ((parse_whole(quota), parse_whole(period)) for quota, period in pairs)
    return min((quota / period for quota, period in numbers if quota and period and quota > 0), default=None)


def _cpus(reader: Reader, hierarchy: _Hierarchy | None) -> tuple[int, ...] | None:
    if hierarchy is None:
        return None
    file = "cpuset.cpus.effective" if hierarchy.version == 2 else "cpuset.effective_cpus"
    texts = _texts(reader, hierarchy, file)
    return parse_cpu_list(texts[-1][1]) if texts else None


def _io_max(reader: Reader, hierarchy: _Hierarchy | None) -> tuple[str, ...]:
    if hierarchy is None:
        return ()
    if hierarchy.version == 2:
        return tuple(line for _, text in _texts(reader, hierarchy, "io.max") for line in text.splitlines())
    lines = []
    for key, file in _THROTTLE_FILES.items():
        for _, text in _texts(reader, hierarchy, f"blkio.throttle.{file}_device"):
            rows = (line.split() for line in text.splitlines())
            lines += [f"{row[0]} {key}={row[1]}" for row in rows if len(row) == 2]
    return tuple(lines)
