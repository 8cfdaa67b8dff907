"""Knobs of file systems and their mounts."""

from __future__ import annotations

from typing import Final

from ..formulas import storage as formulas
from ..model import Authority, Knob
from . import capability, sources

KNOBS: Final[tuple[Knob, ...]] = (
    Knob(
        id="mount.noatime",
        title="No access times on the data directory's mount",
        group="storage",
        mechanism="mount",
        path="/proc/self/mountinfo",
        unit="",
        scope="mount",
        comparison="equal",
        recommend=formulas.mount_noatime,
        reason="Keeps consumers' reads from writing to the disk.",
        detail="With relatime, Linux's default, a file's access time is still written once a day and after each "
        "change, which for a log being read at its tail is often. Kafka uses no access times.",
        authorities=(
            Authority("kernel default", "relatime", sources.KERNEL_EXT4),
            Authority("Apache Kafka", "noatime", sources.KAFKA_OS),
            Authority("TiUP", "noatime", sources.TIUP),
        ),
        sources=(sources.KAFKA_OS, sources.KERNEL_EXT4),
        risk="low",
        risk_text="Programs that look for files by last use find none.",
        persistence="fstab",
        capability=capability.MOUNT,
    ),
)
