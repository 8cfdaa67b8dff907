"""An answer of the agent in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from highwater.common.host_answer import BrokerProcess, HostAnswer, Tuning
from highwater.common.prometheus_text import COUNTER, GAUGE, Family, page_of

_START: Final = "highwater_host_"
_BYTES_OUT: Final = (
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_replicationbytesout_total",
)


def metrics_text(answer: HostAnswer) -> str:
    """What is not known has no sample."""
    families = [*_host(answer), *_disks(answer), *_directories(answer), *_brokers(answer.brokers)]
    if answer.tuning is not None:
        families += _tuning(answer.tuning)
    problems = _gauge("problems", "What the agent could not read: its JSON says what.")
    problems.add(len(answer.problems))
    return page_of([*families, problems])


def _gauge(name: str, text: str) -> Family:
    return Family(_START + name, GAUGE, text)


def _counter(name: str, text: str) -> Family:
    return Family(f"{_START}{name}_total", COUNTER, text)


def _host(answer: HostAnswer) -> Iterable[Family]:
    info = _gauge("info", "What the host is; always 1.")
    info.add(1, host=answer.host, kernel=answer.kernel, boot_id=answer.boot_id, version=answer.version)
    cpus = _gauge("cpus", "CPUs that are online.")
    cpus.add(answer.cpu.count)
    cpu = _counter("cpu_seconds", "CPU time of all CPUs since boot.")
    cpu.add(answer.cpu.busy_s - answer.cpu.steal_s, mode="busy")
    cpu.add(answer.cpu.steal_s, mode="steal")
    cpu.add(max(0.0, answer.cpu.total_s - answer.cpu.busy_s), mode="idle")
    memory = _gauge("memory_bytes", "Memory by kind; cached includes shared.")
    for kind in ("total", "available", "cached", "shared", "dirty", "writeback"):
        memory.add(getattr(answer.memory, f"{kind}_bytes"), kind=kind)
    limits = _gauge("dirty_threshold_bytes", "Dirty bytes at which write-back begins, and at which writers wait.")
    limits.add(answer.memory.dirty_background_bytes, kind="background")
    limits.add(answer.memory.dirty_limit_bytes, kind="limit")
    network = _counter("network_bytes", "Bytes of all interfaces but loopback since boot.")
    network.add(answer.network.received_bytes, direction="received")
    network.add(answer.network.sent_bytes, direction="sent")
    pressure = _counter("pressure_seconds", "Time in which tasks waited for a resource, since boot (PSI).")
    for name, seconds in answer.pressure_s.items():
        resource, _, kind = name.partition("_")
        pressure.add(seconds, resource=resource, kind=kind)
    return info, cpus, cpu, memory, limits, network, pressure


def _disks(answer: HostAnswer) -> Iterable[Family]:
    moved = _counter("disk_bytes", "Bytes that a disk below a log directory has read and written since boot.")
    operations = _counter("disk_operations", "Reads and writes of a disk since boot.")
    busy = _counter("disk_busy_seconds", "Time in which a disk had something to do, since boot.")
    for disk in answer.disks:
        moved.add(disk.read_bytes, device=disk.name, direction="read")
        moved.add(disk.written_bytes, device=disk.name, direction="write")
        operations.add(disk.reads, device=disk.name, direction="read")
        operations.add(disk.writes, device=disk.name, direction="write")
        busy.add(disk.busy_ms / 1000, device=disk.name)
    return moved, operations, busy


def _directories(answer: HostAnswer) -> Iterable[Family]:
    space = _gauge("log_directory_file_system_bytes", "Size and free space of the file system of a log directory.")
    log = _gauge("log_bytes", "Segments of a log directory.")
    resident = _gauge("log_resident_bytes", "Of the segments, what the page cache holds.")
    unwritten = _gauge("log_unwritten_bytes", "Of the segments, what is not on the disk yet.")
    for each in answer.directories:
        labels = {"directory": each.path} | ({} if each.broker_id is None else {"broker": each.broker_id})
        space.add(each.total_bytes, **labels, kind="total")
        space.add(each.free_bytes, **labels, kind="free")
        log.add(each.log_bytes, **labels)
        resident.add(each.resident_bytes, **labels)
        unwritten.add(each.unwritten_bytes, **labels)
    return space, log, resident, unwritten


def _brokers(brokers: Iterable[BrokerProcess]) -> Iterable[Family]:
    up = _gauge("broker_up", "1 if a process has the log directories of a broker open.")
    cpu = _counter("broker_cpu_seconds", "CPU time of a broker since its start.")
    memory = _gauge("broker_resident_memory_bytes", "Resident memory of a broker.")
    moved = _counter("broker_storage_bytes", "Bytes that a broker read from disks and made dirty since its start.")
    sent = _counter("broker_sent_bytes", "Bytes of batches that a broker sent to consumers and followers.")
    for each in brokers:
        labels = {"broker": "" if each.broker_id is None else each.broker_id}
        up.add(int(each.process_id is not None), **labels)
        cpu.add(each.cpu_s, **labels)
        memory.add(each.rss_bytes, **labels)
        moved.add(each.read_bytes, **labels, direction="read")
        moved.add(each.written_bytes, **labels, direction="write")
        if each.metrics is not None and _BYTES_OUT[0] in each.metrics:
            sent.add(sum(each.metrics.get(name, 0.0) for name in _BYTES_OUT), **labels)
    return up, cpu, memory, moved, sent


def _tuning(tuning: Tuning) -> Iterable[Family]:
    info = _gauge("tuning_info", "The fingerprint of the host's settings; always 1.")
    info.add(1, fingerprint=tuning.fingerprint, profile=tuning.profile)
    settings = _gauge("tuning_settings", "Applied settings by state.")
    if tuning.profile:
        settings.add(tuning.in_effect, state="in_effect")
        settings.add(tuning.waiting, state="waiting")
        settings.add(len(tuning.drift), state="drift")
    drift = _gauge("tuning_drift", "1 for each setting that is not as it was applied.")
    for each in tuning.drift:
        drift.add(1, parameter=each.parameter, target=each.target)
    return info, settings, drift
