"""Samples the host once per second: CPU by group of processes, disk, network, caches, pressure."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from highwater.bench.host.processes import ProcessGroups
from highwater.bench.host.readings import HostReader, Reading
from highwater.results.host import HostSample

INTERVAL_S: Final = 1.0


class Readings:
    """The readings of one host in order of time, and the samples made from them."""

    def __init__(self) -> None:
        self._taken: list[Reading] = []
        self._first: Reading | None = None
        self._last: Reading | None = None

    def take(self, reading: Reading) -> None:
        self._taken.append(reading)

    def begin(self, reading: Reading) -> None:
        """Add a reading at the start of the load, for `system_cpu_s`; without it the first reading counts."""
        self._first = reading

    def finish(self, reading: Reading) -> None:
        """Add the last reading, at the end of the load and not of an interval: it makes no sample."""
        self._last = reading

    def samples(self, t0_monotonic_s: float) -> list[HostSample]:
        """One sample per interval, for the second since T0 that contains the middle of the interval."""
        return list(_samples(self._taken, t0_monotonic_s).values())

    def samples_from(self, position: int, t0_monotonic_s: float) -> tuple[list[HostSample], int]:
        """The samples of the intervals from number `position` on, and the number of the next one."""
        taken = self._taken[position:]
        samples = _samples(taken, t0_monotonic_s)
        return list(samples.values()), position + max(0, len(taken) - 1)

    def system_cpu_s(self) -> float | None:
        """CPU seconds of the system under test from the first to the last reading; None when unknown, or when its
        processes changed.

        This is exact, while samples may be up to half a second off their second.
        """
        begun = self._first or next(iter(self._taken), None)
        if self._last is None or begun is None or begun.epoch != self._last.epoch:
            return None
        first, last = (reading.counters.get("system_cpu_ratio") for reading in (begun, self._last))
        return None if first is None or last is None else last - first


class HostSampler:
    """Reads this host in a thread of its own from `__enter__` to `__exit__`.

    `device` names the target's disks, joined by +.
    """

    def __init__(self, groups: ProcessGroups, device: str | None) -> None:
        self._reader = HostReader(groups, device)
        self._readings = Readings()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="host-sampler", daemon=True)

    def __enter__(self) -> HostSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def samples(self, t0_monotonic_s: float) -> list[HostSample]:
        return self._readings.samples(t0_monotonic_s)

    def samples_from(self, position: int, t0_monotonic_s: float) -> tuple[list[HostSample], int]:
        """See `Readings.samples_from`; for use while it samples."""
        return self._readings.samples_from(position, t0_monotonic_s)

    def load_begins(self) -> None:
        """Start `system_cpu_s` now: the work for connecting clients is not part of the load."""
        self._readings.begin(self._reader.read())

    def system_cpu_s(self) -> float | None:
        """CPU time of the system under test from `load_begins`, or `__enter__`, to `__exit__` (see `Readings`)."""
        return self._readings.system_cpu_s()

    def regroup(self, groups: ProcessGroups) -> None:
        """Change the groups after processes have started or ended: that second has no figures by process."""
        self._reader.regroup(groups)

    def _sample(self) -> None:
        next_s = time.monotonic()
        while True:
            self._readings.take(self._reader.read())
            next_s += INTERVAL_S
            if self._stop.wait(max(0.0, next_s - time.monotonic())):
                self._readings.finish(self._reader.read())
                return


def _samples(readings: Sequence[Reading], t0_monotonic_s: float) -> dict[int, HostSample]:
    samples = {}
    for before, after in pairwise(readings):
        middle_s = (before.monotonic_s + after.monotonic_s) / 2 - t0_monotonic_s
        second = int(middle_s // 1)
        if second >= 0:
            samples[second] = _difference(before, after, second)
    return samples


def _difference(before: Reading, after: Reading, second: int) -> HostSample:
    elapsed_s = after.monotonic_s - before.monotonic_s
    values: dict[str, float] = dict(after.gauges)
    for name, now in after.counters.items():
        if (then := before.counters.get(name)) is not None:
            # The host may count a clock tick before a process does.
            rate = max(0.0, (now - then) / elapsed_s)
            values[name] = round(rate) if name.endswith("_bytes") else rate
    total_s = after.total_cpu_s - before.total_cpu_s
    if total_s > 0:
        # The difference of two sums may be slightly below 0 on an idle host, and above 1 on a busy one.
        values["cpu_ratio"] = min(max(0.0, (after.busy_cpu_s - before.busy_cpu_s) / total_s), 1.0)
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
