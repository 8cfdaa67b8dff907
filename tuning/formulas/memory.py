"""Formulas for swap, write-back, reclaim, mappings and huge pages."""

from __future__ import annotations

from typing import Final

from ...common.units import size_text
from ..facts.model import Facts
from ..model import NotApplicable, Observation, Target
from ..quantities import format_byte_rate
from ..workload import Workload
from .common import GIB, MEDIUM_NAMES, MIB, data_disks, unknown

# Deliberately low: an overestimate would let minutes of unwritten data pile up.
_ASSUMED_WRITE_BYTES_PER_S: Final = {"hdd": 150 * 10**6, "ssd": 400 * 10**6, "nvme": 1000 * 10**6, None: 150 * 10**6}
# With more files, the kernel's caches of names and inodes are worth their memory.
_MANY_FILES: Final = 100_000
_FILES_PER_SEGMENT: Final = 3


def swappiness(facts: Facts, _workload: Workload, _target: str) -> Target:
    """1; 0 is as good on a host without swap"""
    if facts.swaps is not None and not facts.swaps:
        return Target(1, "1 (0 is as good while there is no swap)", also=(0,))
    return Target(1, "1: swap only to avoid running out of memory")


def swap_devices(facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """none, if the data in swap fits into half of the available memory"""
    if facts.container is not None:
        return NotApplicable("swap belongs to the host of this container")
    swapped_bytes = sum(swap.used_bytes for swap in facts.swaps or ())
    available = facts.memory.available_bytes
    if swapped_bytes and (available is None or swapped_bytes > available // 2):
        room = "an unknown amount" if available is None else size_text(available)
        return NotApplicable(
            f"{size_text(swapped_bytes)} are swapped out, and only {room} of memory is available to read them back: "
            "add memory to the host first"
        )
    return Target("none", "none: the broker never waits for a page to be read back from swap")


def dirty_background_bytes(facts: Facts, workload: Workload, _target: str) -> Target | NotApplicable:
    """1.5 s × write speed of the data disks, between 64 MiB and 5 % of available memory"""
    usable = facts.memory.usable_bytes
    if usable is None:
        return unknown(facts, "memory.available_bytes", "available memory is not known")
    rate, rate_text = disks_write_rate(facts, workload)
    return Target(
        _dirty_background_bytes(rate, usable),
        f"1.5 s × {rate_text} = {size_text(1.5 * rate)}, "
        f"between 64 MiB and {size_text(0.05 * usable)} (5 % of {size_text(usable)} available)",
    )


def dirty_bytes(facts: Facts, workload: Workload, _target: str) -> Target | NotApplicable:
    """8 s × write speed of the data disks, between 4 × the background limit and 40 % of available memory"""
    usable = facts.memory.usable_bytes
    if usable is None:
        return unknown(facts, "memory.available_bytes", "available memory is not known")
    rate, rate_text = disks_write_rate(facts, workload)
    background = _dirty_background_bytes(rate, usable)
    return Target(
        _whole_mib(min(max(8 * rate, 4 * background), 0.4 * usable)),
        f"8 s × {rate_text} = {size_text(8 * rate)}, between {size_text(4 * background)} (4 × background) "
        f"and {size_text(0.4 * usable)} (40 % of {size_text(usable)} available)",
    )


def max_map_count(_facts: Facts, workload: Workload, _target: str) -> Target:
    """the larger of 262144 and 1.5 × 2 index files × segments"""
    maps = 3 * workload.segments
    return Target(max(262_144, maps), f"262144, 1.5 × 2 index files × {workload.segments} segments = {maps}")


def min_free_kbytes(facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """0.5 % of memory, between 64 MiB and 1 GiB, but never more than 3 % of memory"""
    total = facts.memory.total_bytes
    if total is None:
        return unknown(facts, "memory.total_bytes", "the size of memory is not known")
    wanted = min(max(0.005 * total, 64 * MIB), GIB, 0.03 * total)
    return Target(
        _whole_mib(wanted) // 1024,
        f"0.5 % of {size_text(total)} = {size_text(0.005 * total)}, between 64 MiB and 1 GiB, "
        f"at most {size_text(0.03 * total)} (3 %)",
    )


def watermark_scale_factor(facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """50 (0.5 % of memory) above 64 GiB of memory; below, the host's current value"""
    total = facts.memory.total_bytes
    if total is None:
        return unknown(facts, "memory.total_bytes", "the size of memory is not known")
    if total <= 64 * GIB:
        return NotApplicable(f"{size_text(total)} of memory: up to 64 GiB the kernel's 10 (0.1 %) is enough")
    return Target(50, f"50, as {size_text(total)} are more than 64 GiB: {size_text(0.005 * total)} of room")


def vfs_cache_pressure(_facts: Facts, workload: Workload, _target: str) -> Target:
    """100, the kernel's default; 50 with more than 100000 files"""
    files = _FILES_PER_SEGMENT * workload.segments
    counted = f"{_FILES_PER_SEGMENT} files × {workload.segments} segments = {files}"
    if files > _MANY_FILES:
        return Target(50, f"50, as {counted} are more than {_MANY_FILES}")
    return Target(100, f"100, as {counted} are no more than {_MANY_FILES}", also=(50,))


def numa_balancing(facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """0 on a host with several memory nodes"""
    if not facts.numa_nodes:
        return unknown(facts, "numa_nodes", "the memory nodes are not known")
    if len(facts.numa_nodes) == 1:
        return NotApplicable("one memory node: there is nothing to balance")
    return Target(0, f"0 with {len(facts.numa_nodes)} memory nodes")


def observe_swap(facts: Facts, _target: str) -> Observation:
    if facts.swaps is None:
        return Observation(None, facts.unknown.get("swaps", "swap is not known"))
    text = ", ".join(f"{swap.device} {size_text(swap.size_bytes)}" for swap in facts.swaps) or "none"
    return Observation(text, text)


def disks_write_rate(facts: Facts, workload: Workload) -> tuple[int, str]:
    """Bytes per second that all data disks write together, and the origin of the number."""
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
