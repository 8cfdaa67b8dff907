"""Reads a host's counters and gauges: CPU, disks, network, memory, pressure.

It imports only psutil and the standard library, so that it starts fast on a host that is only sampled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from highwater.bench.host.processes import ProcessGroups, process_table, resident_bytes, storage_bytes, use_by_group

_MEMINFO: Final = Path("/proc/meminfo")
_GAUGES: Final = {
    "Dirty": "dirty_bytes",
    "Writeback": "writeback_bytes",
    "MemAvailable": "memory_available_bytes",
}
_PRESSURE: Final = Path("/proc/pressure")


@dataclass(slots=True)
class Reading:
    """Counters and gauges at one instant.

    A counter has the name of the sample's field that is its growth per second; it is missing when the host has no such
    figure. CPU times of the host and times of disk operations are compared with other counters instead.
    """

    monotonic_s: float
    busy_cpu_s: float
    steal_cpu_s: float
    total_cpu_s: float
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, int] = field(default_factory=dict)
    disk_read_ns: float | None = None
    disk_write_ns: float | None = None
    epoch: int = 0
    """How often the processes of a group have changed: differences across a change are meaningless."""


class HostReader:
    """Reads this host. `device` names the disks to read, joined by +."""

    def __init__(self, groups: ProcessGroups, device: str | None) -> None:
        self._groups = groups
        self._devices = device.split("+") if device else []
        self._epoch = 0
        self._changed = False

    def regroup(self, groups: ProcessGroups) -> None:
        """Change the groups after processes have started or ended: the next reading has no figures by process."""
        self._changed = True
        self._groups = groups
        self._epoch += 1

    def read(self) -> Reading:
        reading = read_host(self._epoch)
        self._read_processes(reading)
        self._read_disks(reading)
        reading.counters["sampler_cpu_ratio"] = time.thread_time()
        return reading

    def _read_processes(self, reading: Reading) -> None:
        if self._changed:
            # The CPU time of an ended process is now its parent's, so a difference would be wrong.
            self._changed = False
            return
        use = use_by_group(process_table(), self._groups)
        # Stolen time counts as busy but belongs to no process of this host.
        other_cpu_s = reading.busy_cpu_s - reading.steal_cpu_s
        for name, group in use.items():
            if group.cpu_s is not None:
                reading.counters[f"{name}_cpu_ratio"] = group.cpu_s
                other_cpu_s -= group.cpu_s
        reading.counters["other_cpu_ratio"] = other_cpu_s
        system = use["system"].process_ids
        if (rss_bytes := resident_bytes(system)) is not None:
            reading.gauges["system_rss_bytes"] = rss_bytes
        if (moved := storage_bytes(system)) is not None:
            reading.counters["system_read_bytes"], reading.counters["system_write_bytes"] = moved

    def _read_disks(self, reading: Reading) -> None:
        if not self._devices:
            return
        counters = psutil.disk_io_counters(perdisk=True, nowrap=False)
        found = [counters[name] for name in self._devices if name in counters]
        if len(found) != len(self._devices):
            return
        reading.counters["disk_read_bytes"] = sum(disk.read_bytes for disk in found)
        reading.counters["disk_write_bytes"] = sum(disk.write_bytes for disk in found)
        reading.counters["disk_read_operations"] = sum(disk.read_count for disk in found)
        reading.counters["disk_write_operations"] = sum(disk.write_count for disk in found)
        # Of several disks under one file system: their mean.
        reading.counters["disk_util_ratio"] = sum(disk.busy_time for disk in found) / 1000 / len(found)
        reading.disk_read_ns = sum(disk.read_time for disk in found) * 1e6
        reading.disk_write_ns = sum(disk.write_time for disk in found) * 1e6


def read_host(epoch: int = 0) -> Reading:
    """What belongs to no process and to no disk: CPU, network, memory, pressure."""
    cpu = psutil.cpu_times()
    total_s = sum(cpu) - getattr(cpu, "guest", 0.0) - getattr(cpu, "guest_nice", 0.0)  # both are part of user, nice
    idle_s = cpu.idle + getattr(cpu, "iowait", 0.0)
    reading = Reading(
        monotonic_s=time.monotonic(),
        busy_cpu_s=total_s - idle_s,
        steal_cpu_s=getattr(cpu, "steal", 0.0),
        total_cpu_s=total_s,
        epoch=epoch,
    )
    _read_network(reading)
    _read_memory(reading)
    _read_pressure(reading)
    return reading


def memory_bytes() -> dict[str, int]:
    """All sizes of /proc/meminfo, by the kernel's names."""
    found = {}
    for line in _MEMINFO.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            found[name] = int(rest.split()[0]) * 1024
    return found


def _read_network(reading: Reading) -> None:
    interfaces = psutil.net_io_counters(pernic=True, nowrap=False)
    loopback = interfaces.pop("lo", None)
    reading.counters["net_received_bytes"] = sum(nic.bytes_recv for nic in interfaces.values())
    reading.counters["net_sent_bytes"] = sum(nic.bytes_sent for nic in interfaces.values())
    if loopback is not None:
        reading.counters["loopback_bytes"] = loopback.bytes_sent


def _read_memory(reading: Reading) -> None:
    found = memory_bytes()
    for name, gauge in _GAUGES.items():
        if name in found:
            reading.gauges[gauge] = found[name]


def _read_pressure(reading: Reading) -> None:
    """Stalled time so far, in seconds; a kernel without PSI has no such files."""
    for resource in ("cpu", "io", "memory"):
        try:
            text = (_PRESSURE / resource).read_text(encoding="ascii")
        except OSError:
            continue
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            reading.counters[f"{resource}_pressure_{kind}_ratio"] = int(rest.rpartition("total=")[2]) / 1e6
