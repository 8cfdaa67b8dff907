"""What the host does while a trial runs, once a second: system under test, CPUs, the target's disk, dirty pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from bench.results import HostSample, HostUse

INTERVAL_S: Final = 1.0
_MEMINFO: Final = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counters at one instant; those that only grow are compared with the reading before."""

    monotonic_s: float
    busy_cpu_s: float
    total_cpu_s: float
    system_cpu_s: float | None
    system_rss_bytes: int | None
    disk_write_bytes: int | None
    disk_read_bytes: int | None
    dirty_bytes: int | None
    writeback_bytes: int | None


class HostSampler:
    """Reads in a thread of its own from `__enter__` to `__exit__`."""

    def __init__(self, process_ids: Sequence[int], device: str | None) -> None:
        self._processes = [psutil.Process(pid) for pid in process_ids if psutil.pid_exists(pid)]
        self._devices = device.split("+") if device else []
        self._readings: list[_Reading] = []
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

    def _sample(self) -> None:
        next_s = time.monotonic()
        while True:
            self._readings.append(self._read())
            next_s += INTERVAL_S
            if self._stop.wait(max(0.0, next_s - time.monotonic())):
                return

    def _read(self) -> _Reading:
        cpu = psutil.cpu_times()
        total_s = sum(cpu) - getattr(cpu, "guest", 0.0) - getattr(cpu, "guest_nice", 0.0)  # both are part of user, nice
        idle_s = cpu.idle + getattr(cpu, "iowait", 0.0)
        system_cpu_s, system_rss_bytes = self._read_processes()
        write_bytes, read_bytes = self._read_disks()
        dirty_bytes, writeback_bytes = _read_page_cache()
        return _Reading(
            monotonic_s=time.monotonic(),
            busy_cpu_s=total_s - idle_s,
            total_cpu_s=total_s,
            system_cpu_s=system_cpu_s,
            system_rss_bytes=system_rss_bytes,
            disk_write_bytes=write_bytes,
            disk_read_bytes=read_bytes,
            dirty_bytes=dirty_bytes,
            writeback_bytes=writeback_bytes,
        )

    def _read_processes(self) -> tuple[float | None, int | None]:
        if not self._processes:
            return None, None
        try:
            cpu_times = [process.cpu_times() for process in self._processes]
            rss_bytes = sum(process.memory_info().rss for process in self._processes)
        except psutil.Error:
            return None, None
        return sum(times.user + times.system for times in cpu_times), rss_bytes

    def _read_disks(self) -> tuple[int | None, int | None]:
        if not self._devices:
            return None, None
        counters = psutil.disk_io_counters(perdisk=True)
        found = [counters[name] for name in self._devices if name in counters]
        if len(found) != len(self._devices):
            return None, None
        return sum(disk.write_bytes for disk in found), sum(disk.read_bytes for disk in found)


def _read_page_cache() -> tuple[int | None, int | None]:
    values: dict[str, int] = {}
    with _MEMINFO.open(encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in ("Dirty", "Writeback"):
                values[name] = int(rest.split()[0]) * 1024
    return values.get("Dirty"), values.get("Writeback")


def _difference(before: _Reading, after: _Reading, second: int) -> HostSample:
    elapsed_s = after.monotonic_s - before.monotonic_s

    def grown(old: int | None, new: int | None) -> int | None:
        return None if old is None or new is None else round((new - old) / elapsed_s)

    total_s = after.total_cpu_s - before.total_cpu_s
    system_cpu_ratio = None
    if before.system_cpu_s is not None and after.system_cpu_s is not None:
        system_cpu_ratio = (after.system_cpu_s - before.system_cpu_s) / elapsed_s
    return HostSample(
        second=second,
        cpu_ratio=(after.busy_cpu_s - before.busy_cpu_s) / total_s if total_s > 0 else 0.0,
        system_cpu_ratio=system_cpu_ratio,
        system_rss_bytes=after.system_rss_bytes,
        disk_write_bytes=grown(before.disk_write_bytes, after.disk_write_bytes),
        disk_read_bytes=grown(before.disk_read_bytes, after.disk_read_bytes),
        dirty_bytes=after.dirty_bytes,
        writeback_bytes=after.writeback_bytes,
    )


def host_use(samples: Sequence[HostSample], start_s: float, end_s: float) -> HostUse:
    """Means over [start_s, end_s)."""
    measured = [sample for sample in samples if start_s <= sample.second < end_s]

    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    rss_bytes = mean([sample.system_rss_bytes for sample in measured])
    dirty = [sample.dirty_bytes for sample in measured if sample.dirty_bytes is not None]
    return HostUse(
        cpu_ratio=mean([sample.cpu_ratio for sample in measured]) or 0.0,
        system_cpu_ratio=mean([sample.system_cpu_ratio for sample in measured]),
        system_rss_bytes=None if rss_bytes is None else round(rss_bytes),
        disk_write_bytes_per_s=mean([sample.disk_write_bytes for sample in measured]),
        disk_read_bytes_per_s=mean([sample.disk_read_bytes for sample in measured]),
        dirty_bytes_max=max(dirty, default=None),
    )
