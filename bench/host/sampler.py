"""What the host does while a trial runs, once a second: CPU by group of processes, disk, network, caches, pressure."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from bench.host.processes import ProcessGroups, process_table, resident_bytes, storage_bytes, use_by_group
from bench.results import HostSample

INTERVAL_S: Final = 1.0
_MEMINFO: Final = Path("/proc/meminfo")
_GAUGES: Final = {
    "Dirty": "dirty_bytes",
    "Writeback": "writeback_bytes",
    "MemAvailable": "memory_available_bytes",
}
_PRESSURE: Final = Path("/proc/pressure")


@dataclass(slots=True)
class _Reading:
    """Counters and gauges at one instant.

    A counter bears the name of the sample's field that is its growth per second; it is missing where the host does not
    tell. CPU times of the host and times of the disks' operations are compared with other counters instead.
    """

    monotonic_s: float
    busy_cpu_s: float
    steal_cpu_s: float
    total_cpu_s: float
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, int] = field(default_factory=dict)
    disk_read_ns: float | None = None
    disk_write_ns: float | None = None


class HostSampler:
    """Reads in a thread of its own from `__enter__` to `__exit__`.

    `device` names the target's disks, joined by +.
    """

    def __init__(self, groups: ProcessGroups, device: str | None) -> None:
        self._groups = groups
        self._devices = device.split("+") if device else []
        self._readings: list[_Reading] = []
        self._last: _Reading | None = None
        self._changed = self._broken = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="host-sampler", daemon=True)

    def __enter__(self) -> HostSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def samples(self, t0_monotonic_s: float) -> list[HostSample]:
        """One sample per interval, filed under the second since T0 that holds the middle of the interval."""
        samples = {}
        for before, after in zip(self._readings, self._readings[1:], strict=False):
            middle_s = (before.monotonic_s + after.monotonic_s) / 2 - t0_monotonic_s
            second = int(middle_s // 1)
            if second >= 0:
                samples[second] = _difference(before, after, second)
        return list(samples.values())

    def regroup(self, groups: ProcessGroups) -> None:
        """Processes have ended, or others have come: the second of the change has no figures by process."""
        self._groups = groups
        self._changed = self._broken = True

    def system_cpu_s(self) -> float | None:
        """CPU seconds of the system under test from `__enter__` to `__exit__`; None where the host does not tell, and
        when its processes did not stay the same.

        Exact, while samples lie up to half a second beside the phase whose second they bear.
        """
        if self._last is None or not self._readings or self._broken:
            return None
        counters = (self._readings[0].counters, self._last.counters)
        first, last = (found.get("system_cpu_ratio") for found in counters)
        return None if first is None or last is None else last - first

    def _sample(self) -> None:
        next_s = time.monotonic()
        while True:
            self._readings.append(self._read())
            next_s += INTERVAL_S
            if self._stop.wait(max(0.0, next_s - time.monotonic())):
                self._last = self._read()
                return

    def _read(self) -> _Reading:
        cpu = psutil.cpu_times()
        total_s = sum(cpu) - getattr(cpu, "guest", 0.0) - getattr(cpu, "guest_nice", 0.0)  # both are part of user, nice
        idle_s = cpu.idle + getattr(cpu, "iowait", 0.0)
        reading = _Reading(
            monotonic_s=time.monotonic(),
            busy_cpu_s=total_s - idle_s,
            steal_cpu_s=getattr(cpu, "steal", 0.0),
            total_cpu_s=total_s,
        )
        self._read_processes(reading)
        self._read_disks(reading)
        _read_network(reading)
        _read_memory(reading)
        _read_pressure(reading)
        reading.counters["sampler_cpu_ratio"] = time.thread_time()
        return reading

    def _read_processes(self, reading: _Reading) -> None:
        if self._changed:
            # What an ended process had used is now its parent's: a difference with before would mean nothing.
            self._changed = False
            return
        use = use_by_group(process_table(), self._groups)
        # Stolen time is busy and nobody's here.
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

    def _read_disks(self, reading: _Reading) -> None:
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


def _read_network(reading: _Reading) -> None:
    interfaces = psutil.net_io_counters(pernic=True, nowrap=False)
    loopback = interfaces.pop("lo", None)
    reading.counters["net_received_bytes"] = sum(nic.bytes_recv for nic in interfaces.values())
    reading.counters["net_sent_bytes"] = sum(nic.bytes_sent for nic in interfaces.values())
    if loopback is not None:
        reading.counters["loopback_bytes"] = loopback.bytes_sent


def _read_memory(reading: _Reading) -> None:
    for line in _MEMINFO.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in _GAUGES:
            reading.gauges[_GAUGES[name]] = int(rest.split()[0]) * 1024


def _read_pressure(reading: _Reading) -> None:
    """Stalled time so far, in seconds; a kernel without PSI has no such files."""
    for resource in ("cpu", "io", "memory"):
        try:
            text = (_PRESSURE / resource).read_text(encoding="ascii")
        except OSError:
            continue
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            reading.counters[f"{resource}_pressure_{kind}_ratio"] = int(rest.rpartition("total=")[2]) / 1e6


def _difference(before: _Reading, after: _Reading, second: int) -> HostSample:
    elapsed_s = after.monotonic_s - before.monotonic_s
    values: dict[str, float] = dict(after.gauges)
    for name, now in after.counters.items():
        if (then := before.counters.get(name)) is not None:
            # A clock tick can be counted for the host before it is for a process.
            rate = max(0.0, (now - then) / elapsed_s)
            values[name] = round(rate) if name.endswith("_bytes") else rate
    total_s = after.total_cpu_s - before.total_cpu_s
    if total_s > 0:
        # On an idle host the difference of two sums of seconds can come out a hair below nothing.
        values["cpu_ratio"] = max(0.0, (after.busy_cpu_s - before.busy_cpu_s) / total_s)
        values["steal_ratio"] = (after.steal_cpu_s - before.steal_cpu_s) / total_s
    for direction, then_ns, now_ns in (
        ("read", before.disk_read_ns, after.disk_read_ns),
        ("write", before.disk_write_ns, after.disk_write_ns),
    ):
        operations = values.get(f"disk_{direction}_operations", 0.0) * elapsed_s
        if then_ns is not None and now_ns is not None and operations > 0:
            values[f"disk_{direction}_latency_ns"] = (now_ns - then_ns) / operations
    return _sample_of(second, values)


def _sample_of(second: int, values: Mapping[str, float]) -> HostSample:
    fields: dict[str, float | None] = dict.fromkeys(HostSample.model_fields)
    return HostSample.model_validate(fields | {"cpu_ratio": 0.0} | dict(values) | {"second": second})
