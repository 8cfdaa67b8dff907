"""Helpers of several formulas: fixed values, the disks under the data directories, missing facts."""

from __future__ import annotations

from typing import Final

from ...common.units import size_text
from ..facts.model import BlockDevice, Facts
from ..model import Formula, NotApplicable, Target, Value
from ..workload import Workload

MIB: Final = 2**20
GIB: Final = 2**30
MEDIUM_NAMES: Final = {"hdd": "HDD", "ssd": "SSD", "nvme": "NVMe", None: "unknown medium"}


def constant(value: Value, why: str, also: tuple[Value, ...] = ()) -> Formula:
    """A formula that recommends the same value on every host; `why` is its text and its docstring."""

    def same_everywhere(_facts: Facts, _workload: Workload, _target: str) -> Target:
        return Target(value, why, also=also)

    same_everywhere.__doc__ = why
    return same_everywhere


def unknown(facts: Facts, fact: str, otherwise: str) -> NotApplicable:
    """The result of a formula that needs a fact which could not be read."""
    return NotApplicable(facts.unknown.get(fact, otherwise))


def data_disks(facts: Facts, workload: Workload) -> list[BlockDevice]:
    """The disks under the data directories, each once."""
    disks = {disk.name: disk for directory in workload.data_dirs for disk in facts.disks_of(directory)}
    return list(disks.values())


def broker_memory(workload: Workload) -> tuple[int, str]:
    """The memory of the broker's process in bytes, and its calculation in words."""
    rest = size_text(workload.broker_rss_bytes)
    if workload.broker == "apache-kafka":
        return workload.heap_bytes + workload.broker_rss_bytes, f"{size_text(workload.heap_bytes)} heap + {rest}"
    return workload.broker_rss_bytes, f"{rest} broker"
