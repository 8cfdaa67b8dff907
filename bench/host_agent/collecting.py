"""Reads this host for its agent: counters at every request, what takes longer once in a while."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import psutil

from highwater.bench.host.processes import ProcessGroups, process_table, resident_bytes, storage_bytes, use_by_group
from highwater.bench.host.readings import Reading, memory_bytes, read_host
from highwater.bench.host_agent.broker_metrics import NoMetricsError, read_metrics
from highwater.bench.host_agent.log_directories import Owner, Residency, has_open, owner_of, process_of, residency_of
from highwater.bench.host_agent.tuning_state import tuning_state
from highwater.common import distribution
from highwater.common.host_answer import BrokerProcess, Cpu, Disk, HostAnswer, LogDirectory, Memory, Network, Tuning
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts

_FRESH_S: Final = 1.0
"""Who asks more often gets the same answer, so that asking costs the host little."""
_SLOW_S: Final = 60.0
"""How old may be what takes longer: settings, and what memory holds of the logs."""
_VMSTAT: Final = Path("/proc/vmstat")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    directories: tuple[Path, ...] = ()
    metrics: Mapping[Path | None, str] = dataclasses.field(default_factory=dict)
    """The page of each broker by one of its log directories; None for the only broker of this host."""


@dataclass(frozen=True, slots=True)
class _Directory:
    """What changes only when a broker is set up anew."""

    path: Path
    owner: Owner | str


@dataclass(frozen=True, slots=True)
class _Host:
    """What takes longer to read."""

    facts: Facts
    tuning: Tuning
    directories: tuple[_Directory, ...]
    residency: Mapping[Path, Residency]
    problems: tuple[str, ...]


class HostReaderForAgent:
    """Answers from any thread, one at a time."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._answer = _Kept(self._read, _FRESH_S)
        self._host = _Kept(self._look, _SLOW_S)
        self._processes: dict[Path, int] = {}

    def answer(self) -> HostAnswer:
        with self._lock:
            return self._answer.value()

    def _look(self) -> _Host:
        facts = collect()
        tuning, problem = tuning_state(facts)
        directories = tuple(_Directory(path, owner_of(path)) for path in self._settings.directories)
        residency = {path: residency_of(path) for path in self._settings.directories}
        problems = [problem, *(each.owner for each in directories if isinstance(each.owner, str))]
        problems += [each.problem for each in residency.values()]
        return _Host(facts, tuning, directories, residency, tuple(filter(None, problems)))

    def _read(self) -> HostAnswer:
        host = self._host.value()
        reading = read_host()
        problems = list(host.problems)
        facts = host.facts
        return HostAnswer(
            host=os.uname().nodename,
            boot_id=facts.files.read("/proc/sys/kernel/random/boot_id").text or "",
            at_ms=time.time_ns() // 1_000_000,
            monotonic_ms=round(reading.monotonic_s * 1000),
            kernel=os.uname().release,
            version=distribution.version(),
            cpu=Cpu(os.cpu_count() or 1, reading.busy_cpu_s, reading.steal_cpu_s, reading.total_cpu_s),
            memory=_memory(),
            network=_network(reading),
            cpu_model=facts.cpu_model or "",
            runs_in=", ".join(filter(None, (facts.container, facts.virtual_machine))),
            pressure_s=_pressure(reading),
            disks=tuple(_disks(host)),
            directories=tuple(_log_directory(each, host) for each in host.directories),
            brokers=tuple(self._brokers(host.directories, problems)),
            tuning=host.tuning,
            problems=tuple(problems),
        )

    def _brokers(self, directories: Sequence[_Directory], problems: list[str]) -> Iterator[BrokerProcess]:
        by_owner: dict[Owner, list[Path]] = {}
        for each in directories:
            if isinstance(each.owner, Owner):
                by_owner.setdefault(each.owner, []).append(each.path)
        table = process_table() if by_owner else {}
        for owner, paths in by_owner.items():
            metrics = self._metrics(paths, alone=len(by_owner) == 1, problems=problems)
            broker = BrokerProcess(owner.broker_id, owner.cluster_id, None, metrics=metrics)
            process_id = self._process(paths)
            if process_id is None or process_id not in table:
                problems.append(f"no process has {paths[0]} open, or it may not be looked into")
                yield broker
                continue
            use = use_by_group(table, ProcessGroups(system=(process_id,)))["system"]
            moved = storage_bytes(use.process_ids)
            if moved is None:
                problems.append(f"what process {process_id} reads from disks is visible to root alone")
            yield dataclasses.replace(
                broker,
                process_id=process_id,
                started_ms=_started_ms(process_id),
                cpu_s=use.cpu_s,
                rss_bytes=resident_bytes(use.process_ids),
                read_bytes=None if moved is None else moved[0],
                written_bytes=None if moved is None else moved[1],
            )

    def _process(self, paths: Sequence[Path]) -> int | None:
        first = paths[0]
        known = self._processes.get(first)
        if known is not None and has_open(known, first):
            return known
        found = process_of(first)
        if found is None:
            self._processes.pop(first, None)
        else:
            self._processes[first] = found
        return found

    def _metrics(self, paths: Sequence[Path], *, alone: bool, problems: list[str]) -> dict[str, float] | None:
        pages = self._settings.metrics
        url = next((pages[path] for path in paths if path in pages), pages.get(None) if alone else None)
        if url is None:
            return None
        try:
            return read_metrics(url)
        except NoMetricsError as error:
            problems.append(str(error))
            return None


class _Kept(Generic[_Found]):
    """The value of a function, made anew if it is older than `seconds`."""

    def __init__(self, make: Callable[[], _Found], seconds: float) -> None:
        self._make = make
        self._seconds = seconds
        self._made_s = -seconds
        self._value: _Found | None = None

    def value(self) -> _Found:
        now_s = time.monotonic()
        if self._value is None or now_s - self._made_s >= self._seconds:
            self._value = self._make()
            self._made_s = now_s
        return self._value


def _memory() -> Memory:
    sizes = memory_bytes()
    background, limit = _dirty_limits()
    return Memory(
        total_bytes=sizes["MemTotal"],
        available_bytes=sizes.get("MemAvailable", sizes["MemFree"]),
        cached_bytes=sizes["Cached"],
        shared_bytes=sizes.get("Shmem", 0),
        dirty_bytes=sizes["Dirty"],
        writeback_bytes=sizes["Writeback"],
        dirty_background_bytes=background,
        dirty_limit_bytes=limit,
    )


def _dirty_limits() -> tuple[int | None, int | None]:
    """The limits that the kernel has computed from its settings and the memory that is free now."""
    pages = {}
    for line in _VMSTAT.read_text(encoding="ascii").splitlines():
        name, _, count = line.partition(" ")
        if name.startswith("nr_dirty_"):
            pages[name] = int(count) * _PAGE_BYTES
    return pages.get("nr_dirty_background_threshold"), pages.get("nr_dirty_threshold")


def _network(reading: Reading) -> Network:
    counters = reading.counters
    return Network(
        received_bytes=int(counters["net_received_bytes"]),
        sent_bytes=int(counters["net_sent_bytes"]),
        loopback_bytes=int(counters.get("loopback_bytes", 0)),
    )


def _pressure(reading: Reading) -> dict[str, float]:
    return {
        name.removesuffix("_ratio").replace("_pressure", ""): value
        for name, value in reading.counters.items()
        if "_pressure_" in name
    }


def _disks(host: _Host) -> Iterator[Disk]:
    found = {device.name: device for each in host.directories for device in host.facts.disks_of(str(each.path))}
    counters = psutil.disk_io_counters(perdisk=True, nowrap=False)
    for name, device in sorted(found.items()):
        if name in counters:
            disk = counters[name]
            yield Disk(
                name,
                device.medium or "unknown",
                disk.read_bytes,
                disk.write_bytes,
                disk.read_count,
                disk.write_count,
                disk.busy_time,
            )


def _log_directory(directory: _Directory, host: _Host) -> LogDirectory:
    path = str(directory.path)
    mount = host.facts.mount_of(path)
    residency = host.residency[directory.path]
    total, free = _space(path)
    return LogDirectory(
        path=path,
        broker_id=directory.owner.broker_id if isinstance(directory.owner, Owner) else None,
        cluster_id=directory.owner.cluster_id if isinstance(directory.owner, Owner) else "",
        devices=tuple(device.name for device in host.facts.disks_of(path)),
        file_system=mount.filesystem if mount is not None else "",
        total_bytes=total,
        free_bytes=free,
        log_bytes=residency.log_bytes,
        resident_bytes=residency.resident_bytes,
        unwritten_bytes=residency.unwritten_bytes,
    )


def _space(path: str) -> tuple[int | None, int | None]:
    try:
        volume = os.statvfs(path)
    except OSError:
        return None, None
    return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


def _started_ms(process_id: int) -> int | None:
    try:
        return round(psutil.Process(process_id).create_time() * 1000)
    except psutil.Error:
        return None
