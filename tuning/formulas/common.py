"""What several formulas share: fixed values, and the disks under the data directories."""

from __future__ import annotations

from typing import Final

from ..facts import BlockDevice, Facts
from ..model import Formula, Target, Value
from ..workload import Workload

MIB: Final = 2**20
MEDIUM_NAMES: Final = {"hdd": "HDD", "ssd": "SSD", "nvme": "NVMe", None: "unknown medium"}


def constant(value: Value, why: str) -> Formula:
    return lambda _facts, _workload, _name: Target(value, why)


def data_disks(facts: Facts, workload: Workload) -> list[BlockDevice]:
    """The disks under the data directories, each once."""
    disks = {disk.name: disk for directory in workload.data_dirs for disk in facts.disks_of(directory)}
    return list(disks.values())
