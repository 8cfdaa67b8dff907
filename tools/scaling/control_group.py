"""Holds processes to a share of a processor, by the kernel's control groups (version 1 and 2). Needs root.

CFS bandwidth control: a group may run for a quota in each period, on all processors together. What waits for its next
period costs nobody else anything.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from highwater.common.errors import UsageError

# Short, so that a broker never stands still for long; the kernel takes no quota below 1 ms.
_PERIOD_US: Final = 20_000
_LEAST_QUOTA_US: Final = 1_000
LEAST_SHARE: Final = _LEAST_QUOTA_US / _PERIOD_US
_EMPTIED_WITHIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups of the processor are made. is_unified: version 2."""

    folder: Path
    is_unified: bool


def find_hierarchy(mounts: str, root: Path = Path("/")) -> Hierarchy:
    """Return the hierarchy that controls processors. Raises UsageError where there is none.

    mounts: the text of /proc/mounts. root: in front of its paths, for tests.
    """
    unified = None
    for line in mounts.splitlines():
        _, where, kind, options, *_ = line.split()
        folder = root / where.lstrip("/")
        if kind == "cgroup" and "cpu" in options.split(","):
            return Hierarchy(folder, is_unified=False)
        if kind == "cgroup2" and "cpu" in _words(folder / "cgroup.controllers"):
            unified = Hierarchy(folder, is_unified=True)
    if unified is None:
        raise UsageError("this host has no control groups for processors: mount cgroup2, or ask for --share 1")
    return unified


def _words(file: Path) -> list[str]:
    return file.read_text("ascii").split() if file.is_file() else []


class ControlGroup:
    """A group of processes that together get a share of one processor; 2.0 are two processors.

    Leaving the context removes the group, once its processes have ended.
    """

    def __init__(self, hierarchy: Hierarchy, name: str, share: float) -> None:
        """Raises UsageError when the kernel refuses: without root, or below LEAST_SHARE."""
        if share < LEAST_SHARE:
            raise UsageError(
                f"--share {share:g} is less than the kernel can hold a process to: at least {LEAST_SHARE:g}"
            )
        self._folder = hierarchy.folder / name
        self._is_unified = hierarchy.is_unified
        quota_us = round(share * _PERIOD_US)
        try:
            if hierarchy.is_unified:
                self._allow_below(hierarchy.folder)
            self._folder.mkdir()
            if hierarchy.is_unified:
                self._write("cpu.max", f"{quota_us} {_PERIOD_US}")
            else:
                self._write("cpu.cfs_period_us", str(_PERIOD_US))
                self._write("cpu.cfs_quota_us", str(quota_us))
        except OSError as error:
            if self._folder.is_dir():
                self._folder.rmdir()
            raise UsageError(f"{error.filename or self._folder}: {error.strerror}; control groups need root") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + _EMPTIED_WITHIN_S
        while self.process_ids() and time.monotonic() < deadline:
            time.sleep(0.05)
        self._folder.rmdir()

    def take(self, process_ids: Sequence[int]) -> None:
        """Move processes into the group, with all their threads; children that come later are in it from the start."""
        for process_id in process_ids:
            self._write("cgroup.procs", str(process_id))

    def release(self) -> None:
        """Hold the processes to nothing any more."""
        if self._is_unified:
            self._write("cpu.max", f"max {_PERIOD_US}")
        else:
            self._write("cpu.cfs_quota_us", "-1")

    def process_ids(self) -> list[int]:
        return list(map(int, _words(self._folder / "cgroup.procs")))

    @staticmethod
    def _allow_below(folder: Path) -> None:
        control = folder / "cgroup.subtree_control"
        if "cpu" not in _words(control):
            control.write_text("+cpu", "ascii")

    def _write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text, "ascii")
