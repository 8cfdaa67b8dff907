"""The control groups of a lab: whatever is in one of them is the lab's, and is ended with it.

A process of the lab joins its group before it does anything else, so that those that a killed `up` left are found
without a list of process ids, which others may have by now. In cgroup v1 the tree named systemd is used and, where it
is there, that of v2 beside it: nspawn gives both to the host. Disks and memory stay in the root groups of v1, where the
limits of a disk hold everybody (bench/storage/control_groups.py says why).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from tests.lab.record import Node

_ROOT: Final = "highwater-lab"
_END_WITHIN_S: Final = 30.0


def trees() -> list[Path]:
    """Where the trees of control groups that matter here are mounted."""
    found = []
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, mount_point, kind, options, *_ = line.split()
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            found.append(Path(mount_point))
    if not found:
        raise UsageError("this machine has no control groups (cgroup v2, or the tree named systemd); mount them first")
    return found


def unified_with_io() -> Path | None:
    """The tree of v2, where disks are limited by it."""
    for tree in trees():
        controllers = tree / "cgroup.controllers"
        if controllers.exists() and "io" in controllers.read_text(encoding="utf-8").split():
            return tree
    return None


def make(lab: str, member: str, *, is_divided: bool = False) -> list[Path]:
    """The groups of a host, or of what the lab serves; one in each tree.

    is_divided: no process is in them but in groups below, which in version 2 get all controllers that there are.
    """
    made = []
    for tree in trees():
        path = tree / _ROOT / lab / member
        path.mkdir(parents=True, exist_ok=True)
        made.append(path)
    if (unified := unified_with_io()) is not None:
        _hand_down(unified, ["io", "memory"])
        for path in (unified / _ROOT, unified / _ROOT / lab, *([unified / _ROOT / lab / member] if is_divided else [])):
            _hand_down(path, (path / "cgroup.controllers").read_text(encoding="utf-8").split())
    return made


def of_node(tree: Path, node: Node) -> Path:
    return tree / _ROOT / node.lab / node.name


def processes(lab: str, member: str = "") -> set[int]:
    """Everything that runs in the groups of a member, or of the whole lab."""
    found: set[int] = set()
    for tree in trees():
        for path in _from_within(tree / _ROOT / lab / member):
            try:
                found.update(int(line) for line in (path / "cgroup.procs").read_text(encoding="utf-8").split())
            except OSError:  # a group that has just gone, or one of threads
                continue
    return found


def remove(lab: str, member: str = "") -> None:
    """End everything in the groups, and remove them. Raises UsageError when something does not end."""
    deadline_s = time.monotonic() + _END_WITHIN_S
    while True:
        for pid in processes(lab, member):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if all(_is_removed(tree, lab, member) for tree in trees()):
            return
        if time.monotonic() > deadline_s:
            left = " ".join(map(str, sorted(processes(lab, member)))) or "none"
            raise UsageError(f"the control groups of {lab} {member} cannot be removed; processes left: {left}")
        time.sleep(0.02)


def _is_removed(tree: Path, lab: str, member: str) -> bool:
    """From the innermost group on; the one that all labs share goes with the last of them."""
    for path in _from_within(tree / _ROOT / lab / member):
        try:
            path.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    if not member:
        try:
            (tree / _ROOT).rmdir()
        except OSError:  # another lab's are in it
            return True
    return True


def _hand_down(group: Path, controllers: Sequence[str]) -> None:
    """To the groups below."""
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers), encoding="utf-8")


def _from_within(group: Path) -> list[Path]:
    """A group after all that are in it; none when there is no such group. Others come and go meanwhile."""
    return [Path(directory) for directory, _, _ in os.walk(group, topdown=False)]
