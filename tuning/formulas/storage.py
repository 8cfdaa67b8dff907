"""Values for file systems and their mounts."""

from __future__ import annotations

from ..facts import Facts
from ..model import NotApplicable, Target
from ..workload import Workload


def mount_noatime(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    mount = facts.mount_of(directory)
    if mount is None:
        return NotApplicable(facts.unknown.get("mounts", f"no mount holds {directory}"))
    if mount.filesystem in ("tmpfs", "ramfs"):
        return NotApplicable(f"{directory} is kept in memory ({mount.filesystem})")
    return Target("noatime", f"noatime on {mount.mount_point}, which holds {directory}")
