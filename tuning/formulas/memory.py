"""Values for swap, write-back and mappings."""

from __future__ import annotations

from typing import Final

from ..facts import Facts
from ..model import NotApplicable, Target
from ..quantities import format_byte_rate, format_bytes
from ..workload import Workload
from .common import MEDIUM_NAMES, MIB, data_disks

# Deliberately low: an overestimate would let minutes of unwritten data pile up.
_ASSUMED_WRITE_BYTES_PER_S: Final = {"hdd": 150 * 10**6, "ssd": 400 * 10**6, "nvme": 1000 * 10**6, None: 150 * 10**6}


def swappiness(facts: Facts, _workload: Workload, _name: str) -> Target:
    if facts.swaps is not None and not facts.swaps:
        return Target(1, "1 (0 is as good while there is no swap)", also=(0,), note="no effect now: no swap is active")
    return Target(1, "1: swap only to avoid running out of memory")


def dirty_background_bytes(facts: Facts, workload: Workload, _name: str) -> Target | NotApplicable:
    usable = facts.memory.usable_bytes
    if usable is None:
        return NotApplicable(facts.unknown.get("memory.available_bytes", "available memory is not known"))
    rate, rate_text = _disks_write_rate(facts, workload)
    return Target(
        _dirty_background_bytes(rate, usable),
        f"1.5 s × {rate_text} = {format_bytes(1.5 * rate)}, "
        f"between 64 MiB and {format_bytes(0.05 * usable)} (5 % of {format_bytes(usable)} available)",
    )


def dirty_bytes(facts: Facts, workload: Workload, _name: str) -> Target | NotApplicable:
    usable = facts.memory.usable_bytes
    if usable is None:
        return NotApplicable(facts.unknown.get("memory.available_bytes", "available memory is not known"))
    rate, rate_text = _disks_write_rate(facts, workload)
    background = _dirty_background_bytes(rate, usable)
    return Target(
        _whole_mib(min(max(8 * rate, 4 * background), 0.4 * usable)),
        f"8 s × {rate_text} = {format_bytes(8 * rate)}, between {format_bytes(4 * background)} (4 × background) "
        f"and {format_bytes(0.4 * usable)} (40 % of {format_bytes(usable)} available)",
    )


def max_map_count(_facts: Facts, workload: Workload, _name: str) -> Target:
    maps = 3 * workload.segments
    return Target(max(262_144, maps), f"262144, 1.5 × 2 index files × {workload.segments} segments = {maps}")


def _disks_write_rate(facts: Facts, workload: Workload) -> tuple[int, str]:
    disks = data_disks(facts, workload)
    if workload.disk_write_bytes_per_s is not None:
        count = max(1, len(disks))
        rate = count * workload.disk_write_bytes_per_s
        return rate, f"{format_byte_rate(rate)} (given, {count} × {format_byte_rate(workload.disk_write_bytes_per_s)})"
    if not disks:
        rate = _ASSUMED_WRITE_BYTES_PER_S[None]
        return rate, f"{format_byte_rate(rate)} (assumed: no local disk found)"
    rates = [_ASSUMED_WRITE_BYTES_PER_S[disk.medium] for disk in disks]
    media = "+".join(dict.fromkeys(MEDIUM_NAMES[disk.medium] for disk in disks))
    return sum(rates), f"{format_byte_rate(sum(rates))} (assumed for {len(disks)} × {media})"


def _dirty_background_bytes(rate_bytes_per_s: float, usable_bytes: int) -> int:
    return _whole_mib(min(max(1.5 * rate_bytes_per_s, 64 * MIB), 0.05 * usable_bytes))


def _whole_mib(size_bytes: float) -> int:
    return max(1, round(size_bytes / MIB)) * MIB
