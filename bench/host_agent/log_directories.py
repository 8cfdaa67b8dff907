"""Looks at a log directory from outside: whose it is, who has it open, what memory holds of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.common.cachestat import cachestat
from highwater.common.java_properties import MalformedEscape, parse_properties
from highwater.common.topic_partition import parse_partition_name

MOST_SEGMENTS: Final = 20_000
"""A look at more of them would take too long on a host whose work is another one."""
_PROC: Final = Path("/proc")
_LOCK: Final = ".lock"
_LARGEST_META_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a directory by its meta.properties."""

    broker_id: int | None
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Residency:
    """What the segments of a directory take; None is not known."""

    log_bytes: int | None = None
    resident_bytes: int | None = None
    unwritten_bytes: int | None = None
    problem: str = ""


def owner_of(directory: Path) -> Owner | str:
    """The broker that the directory belongs to, or why that is not known, in one sentence."""
    path = directory / "meta.properties"
    try:
        with path.open(encoding="utf-8") as file:
            found = {each.name: each.value.strip() for each in parse_properties(file.read(_LARGEST_META_BYTES))}
    except FileNotFoundError:
        return f"{directory} has no meta.properties: no broker has started with it yet"
    except MalformedEscape as error:
        return f"{path} is damaged: {error}"
    except (OSError, UnicodeDecodeError) as error:
        return f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
    number = found.get("broker.id", found.get("node.id", ""))
    return Owner(int(number) if number.isdecimal() else None, found.get("cluster.id", ""))


def has_open(process_id: int, directory: Path, proc: Path = _PROC) -> bool:
    """Whether the process has the directory's lock file open, as the broker that owns the directory has."""
    wanted = str(directory / _LOCK)
    folder = f"{proc}/{process_id}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a Path for each descriptor of each process would cost more
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}") == wanted:  # noqa: PTH115 - as above
                return True
        except OSError:
            continue
    return False


def process_of(directory: Path, proc: Path = _PROC) -> int | None:
    """The broker's process; None if no process that this one may look into has the directory's lock file open."""
    found = [int(name) for name in os.listdir(proc) if name.isdecimal()]  # noqa: PTH208 - as above
    return next((pid for pid in sorted(found, reverse=True) if has_open(pid, directory, proc)), None)


def residency_of(directory: Path) -> Residency:
    """Look at all segments. A segment that is deleted meanwhile counts as 0."""
    log_bytes = resident_bytes = unwritten_bytes = 0
    refused = ""
    try:
        for number, (path, size_bytes) in enumerate(_segments(directory)):
            if number >= MOST_SEGMENTS:
                return Residency(
                    problem=f"{directory} has more than {MOST_SEGMENTS:,} segments, which are not looked at"
                )
            log_bytes += size_bytes
            if refused:
                continue
            try:
                state = cachestat(path)
            except OSError as error:
                # The kernel reports a file only to who may write it, so that nobody can watch others.
                refused = f"what memory holds of {directory} is not known: {error.strerror or error}"
                continue
            if state is not None:
                resident_bytes += min(state.resident_bytes, size_bytes)
                unwritten_bytes += min(state.unwritten_bytes, size_bytes)
    except OSError as error:
        return Residency(problem=f"{directory} cannot be read: {error.strerror or error}")
    if refused:
        return Residency(log_bytes, problem=refused)
    return Residency(log_bytes, resident_bytes, unwritten_bytes)


def _segments(directory: Path) -> Iterator[tuple[str, int]]:
    with os.scandir(directory) as partitions:
        for partition in partitions:
            if parse_partition_name(partition.name) is None or not partition.is_dir(follow_symlinks=False):
                continue
            # A broker deletes partitions and segments while this looks at them.
            with suppress(FileNotFoundError), os.scandir(partition.path) as files:
                for file in files:
                    if file.name.endswith(".log") and file.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            yield file.path, file.stat(follow_symlinks=False).st_size
