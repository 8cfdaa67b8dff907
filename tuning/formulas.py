"""The formulas behind the catalogue: facts and workload in, a value out, with the numbers that led to it written out.

The text of a formula for an `at_least` knob is the list of what the maximum is taken of, besides the current value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .facts import BlockDevice, Facts
from .quantities import format_bit_rate, format_byte_rate, format_bytes
from .workload import Workload

MIB: Final = 2**20


@dataclass(frozen=True)
class Target:
    """A value and how it came about. `also` are other values that are as good; `note` is what this host makes of it."""

    value: int | str
    formula: str
    also: tuple[int | str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class NotApplicable:
    """There is nothing to recommend here, and why."""

    reason: str


Formula = Callable[[Facts, Workload, str], Target | NotApplicable]
"""The third argument names the disk or directory that a knob of that scope is evaluated for; empty for the host."""

# Deliberately low: an overestimate would let minutes of unwritten data pile up.
_ASSUMED_WRITE_BYTES_PER_S: Final = {"hdd": 150 * 10**6, "ssd": 400 * 10**6, "nvme": 1000 * 10**6, None: 150 * 10**6}
_MEDIUM_NAMES: Final = {"hdd": "HDD", "ssd": "SSD", "nvme": "NVMe", None: "unknown medium"}
_KAFKA_NOFILE: Final = 100_000
# RFC 7323, section 2.3: a window cannot be scaled beyond it.
_LARGEST_TCP_WINDOW_BYTES: Final = 2**30
# systemd's own default hard limit since version 240; a lower one would take something away.
SYSTEMD_NOFILE_HARD: Final = 524_288


def constant(value: int | str, why: str) -> Formula:
    return lambda _facts, _workload, _name: Target(value, why)


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


def nofile(_facts: Facts, workload: Workload, _name: str) -> Target:
    files = round(1.2 * (3 * workload.segments + workload.connections))
    return Target(
        max(_KAFKA_NOFILE, files),
        f"{_KAFKA_NOFILE}, 1.2 × (3 files × {workload.segments} segments "
        f"+ {workload.connections} connections) = {files}",
    )


def nr_open(facts: Facts, workload: Workload, name: str) -> Target:
    wanted = nofile(facts, workload, name).value
    assert isinstance(wanted, int)
    value = max(wanted, SYSTEMD_NOFILE_HARD)
    return Target(value, f"{SYSTEMD_NOFILE_HARD} (systemd's hard limit), {wanted} (limit.nofile)")


def socket_buffer_max(_facts: Facts, workload: Workload, _name: str) -> Target:
    value, text = _twice_bandwidth_delay(workload)
    return Target(max(value, 2 * MIB), f"{text}, 2 MiB")


def tcp_buffer_max(_facts: Facts, workload: Workload, _name: str) -> Target:
    value, text = _twice_bandwidth_delay(workload)
    return Target(value, text)


def mount_noatime(facts: Facts, _workload: Workload, directory: str) -> Target | NotApplicable:
    mount = facts.mount_of(directory)
    if mount is None:
        return NotApplicable(facts.unknown.get("mounts", f"no mount holds {directory}"))
    if mount.filesystem in ("tmpfs", "ramfs"):
        return NotApplicable(f"{directory} is kept in memory ({mount.filesystem})")
    return Target("noatime", f"noatime on {mount.mount_point}, which holds {directory}")


def disk_scheduler(facts: Facts, _workload: Workload, disk_name: str) -> Target | NotApplicable:
    disk = next((device for device in facts.block_devices if device.name == disk_name), None)
    if disk is None or not disk.schedulers:
        return NotApplicable("it has no scheduler to choose")
    if disk.medium is None:
        return NotApplicable("a virtual disk hides its medium, so the kernel's choice stays")
    wanted = "mq-deadline" if disk.medium == "hdd" else "none"
    if wanted not in disk.schedulers:
        return NotApplicable(f"this kernel offers only {', '.join(disk.schedulers)}")
    return Target(wanted, f"{wanted} for an {_MEDIUM_NAMES[disk.medium]}")


def data_disks(facts: Facts, workload: Workload) -> list[BlockDevice]:
    """The disks under the data directories, each once."""
    disks = {disk.name: disk for directory in workload.data_dirs for disk in facts.disks_of(directory)}
    return list(disks.values())


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
    media = "+".join(dict.fromkeys(_MEDIUM_NAMES[disk.medium] for disk in disks))
    return sum(rates), f"{format_byte_rate(sum(rates))} (assumed for {len(disks)} × {media})"


def _dirty_background_bytes(rate_bytes_per_s: float, usable_bytes: int) -> int:
    return _whole_mib(min(max(1.5 * rate_bytes_per_s, 64 * MIB), 0.05 * usable_bytes))


def _whole_mib(size_bytes: float) -> int:
    return max(1, round(size_bytes / MIB)) * MIB


def _twice_bandwidth_delay(workload: Workload) -> tuple[int, str]:
    wanted = 2 * workload.bandwidth_delay_bytes
    value = min(wanted, _LARGEST_TCP_WINDOW_BYTES)
    text = f"2 × {format_bit_rate(workload.link_bits_per_s)} × {workload.rtt_ms:g} ms / 8 = {format_bytes(wanted)}"
    return value, text if value == wanted else f"{text}, cut to TCP's largest window of {format_bytes(value)}"
