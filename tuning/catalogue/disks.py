"""Knobs of disks: their request queues."""

from __future__ import annotations

from typing import Final

from ..formulas import disks as formulas
from ..model import Authority, Knob
from . import capability, sources

KNOBS: Final[tuple[Knob, ...]] = (
    Knob(
        id="disk.scheduler",
        title="I/O scheduler of the data disks",
        group="disk",
        mechanism="sysfs",
        path="/sys/block/{target}/queue/scheduler",
        unit="",
        scope="disk",
        comparison="equal",
        recommend=formulas.disk_scheduler,
        reason="A spinning disk gains from ordered requests; a fast device only loses time to the ordering.",
        detail="none hands requests straight to an SSD or NVMe device; mq-deadline merges and orders them for a head "
        "that moves, and keeps readers from starving behind write-back.",
        authorities=(
            Authority("Red Hat", "NVMe none, HDD mq-deadline or bfq", sources.RHEL_SCHEDULER),
            Authority("Redpanda rpk", "none for every disk", sources.REDPANDA),
        ),
        sources=(sources.RHEL_SCHEDULER, sources.KERNEL_SCHEDULER),
        risk="low",
        risk_text="Without a scheduler, cgroup I/O weights have no effect on that disk.",
        persistence="udev rule",
        capability=capability.BLOCK_QUEUE,
    ),
)
