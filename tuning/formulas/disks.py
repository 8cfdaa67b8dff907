"""Values for the request queues of disks."""

from __future__ import annotations

from ..facts import Facts
from ..model import NotApplicable, Target
from ..workload import Workload
from .common import MEDIUM_NAMES


def disk_scheduler(facts: Facts, _workload: Workload, disk_name: str) -> Target | NotApplicable:
    disk = next((device for device in facts.block_devices if device.name == disk_name), None)
    if disk is None or not disk.schedulers:
        return NotApplicable("it has no scheduler to choose")
    if disk.medium is None:
        return NotApplicable("a virtual disk hides its medium, so the kernel's choice stays")
    wanted = "mq-deadline" if disk.medium == "hdd" else "none"
    if wanted not in disk.schedulers:
        return NotApplicable(f"this kernel offers only {', '.join(disk.schedulers)}")
    return Target(wanted, f"{wanted} for an {MEDIUM_NAMES[disk.medium]}")
