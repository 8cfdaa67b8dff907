"""CPU time by group of processes, from /proc: a group is processes with their descendants."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc")
_OTHERS: Final = "others"


class Process(NamedTuple):
    parent: int
    cpu_s: float
    """CPU time of a process and of children that it has waited for, so that a group's sum never falls."""


@dataclass(frozen=True, slots=True)
class ProcessGroups:
    """The root processes of each group. A root inside another group belongs only to its own group.

    others: processes that belong to no group, although their parents do.
    """

    system: tuple[int, ...] = ()
    attendants: tuple[int, ...] = ()
    generator: tuple[int, ...] = ()
    others: tuple[int, ...] = ()


class GroupUse(NamedTuple):
    """What a group has used so far; None when it has no process."""

    process_ids: tuple[int, ...]
    cpu_s: float | None


def process_table(proc: Path = _PROC) -> dict[int, Process]:
    """Every process of this host by id."""
    table = {}
    for name in os.listdir(proc):  # noqa: PTH208 - a tenth of the cost of iterdir, once a second
        if name.isdecimal():
            own_cpu_s = _own_cpu_s(int(name)) if proc == _PROC else None
            if (process := _parse_stat(_read(f"{proc}/{name}/stat"), own_cpu_s)) is not None:
                table[int(name)] = process
    return table


def use_by_group(table: Mapping[int, Process], groups: ProcessGroups) -> dict[str, GroupUse]:
    """Group (`system`, `attendants`, `generator`) -> what it has used."""
    roots = {
        pid: name
        for name, pids in (
            (_OTHERS, groups.others),
            ("generator", groups.generator),
            ("attendants", groups.attendants),
            ("system", groups.system),
        )
        for pid in pids
    }
    members: dict[str, list[int]] = {"system": [], "attendants": [], "generator": []}
    owners: dict[int, str | None] = {0: None}
    for pid in table:
        owner = _owner(pid, table, roots, owners)
        if owner in members:
            members[owner].append(pid)
    return {
        name: GroupUse(tuple(pids), sum(table[pid].cpu_s for pid in pids) if pids else None)
        for name, pids in members.items()
    }


def resident_bytes(process_ids: Iterable[int], proc: Path = _PROC) -> int | None:
    """Resident memory; shared pages count for each process. None when no process can be read."""
    found = [int(text.split()[1]) for pid in process_ids if (text := _read(f"{proc}/{pid}/statm"))]
    return sum(found) * _PAGE_BYTES if found else None


def storage_bytes(process_ids: Iterable[int], proc: Path = _PROC) -> tuple[int, int] | None:
    """Bytes read from storage, and bytes made dirty (/proc/PID/io); None when no process may be read."""
    read_bytes = written_bytes = 0
    told = False
    for pid in process_ids:
        fields = dict(line.split(": ", 1) for line in _read(f"{proc}/{pid}/io").splitlines())
        if "read_bytes" in fields:
            told = True
            read_bytes += int(fields["read_bytes"])
            written_bytes += int(fields["write_bytes"])
    return (read_bytes, written_bytes) if told else None


def _owner(
    pid: int, table: Mapping[int, Process], roots: Mapping[int, str], owners: dict[int, str | None]
) -> str | None:
    """The group of the nearest ancestor that is a root; `owners` caches the result for all processes on the way."""
    way = []
    while pid not in owners and pid not in roots and pid in table:
        way.append(pid)
        owners[pid] = None  # ids may be reused while the table is read, so parents may form a cycle
        pid = table[pid].parent
    owner = roots.get(pid) or owners.get(pid)
    for passed in way:
        owners[passed] = owner
    return owner


def _own_cpu_s(pid: int) -> float | None:
    """CPU time by the process's own clock, which counts ns, while /proc/PID/stat counts ticks of 10 ms: over a phase
    of a second or two the error is 0.1 % instead of 1 %. None when the process is gone.

    Source: MAKE_PROCESS_CPUCLOCK and CPUCLOCK_SCHED in the kernel's include/linux/posix-timers_types.h, which
    clock_getcpuclockid(3) uses.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


def _parse_stat(text: str, own_cpu_s: float | None) -> Process | None:
    # The name of a process is in brackets and may itself contain brackets and spaces.
    fields = text.rpartition(")")[2].split()
    if len(fields) < 15:
        return None
    if own_cpu_s is None:
        own_cpu_s = sum(map(int, fields[11:13])) * _TICK_S
    return Process(parent=int(fields[1]), cpu_s=own_cpu_s + sum(map(int, fields[13:15])) * _TICK_S)


def _read(path: str) -> str:
    """The text of a file of /proc; empty when the process is gone or access is denied."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            return file.read()
    except OSError:
        return ""
