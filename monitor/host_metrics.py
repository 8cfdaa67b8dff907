"""Series of hosts and headroom on the page for Prometheus. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from highwater.common.host_answer import HostAnswer
from highwater.common.prometheus_text import COUNTER, GAUGE, Family
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.headroom import SHARES, Headroom
from highwater.monitor.figures.hosts import HostFigures
from highwater.monitor.model import Host, Snapshot

_HOST: Final = "highwater_monitor_host_"
_BROKER: Final = "highwater_monitor_broker_"


def host_families(snapshot: Snapshot, figures: Figures) -> Iterator[Family]:
    """Yield the families of hosts. A silent host has no sample but `up`: its last answer may be wrong by now."""
    up = Family(f"{_HOST}up", GAUGE, "1 if the agent of a host answered when it was asked last.")
    for host in snapshot.hosts.values():
        up.add(int(not host.error), host=host.name)
    yield up
    known = [
        (host, host.answer, figures.hosts[host.name])
        for host in snapshot.hosts.values()
        if host.answer is not None and host.name in figures.hosts and not figures.hosts[host.name].is_silent
    ]
    yield from _identity(known)
    yield from _gauges(known)
    yield from _counters(known)
    yield from _brokers(known)


def headroom_families(rows: Iterable[Headroom]) -> Iterable[Family]:
    """A grey figure has no ratio, so that no alert on the ratio needs to know of grey."""
    ratio = Family(
        "highwater_monitor_headroom_ratio", GAUGE, "1 - demand / measured ceiling; below 0 is more than was measured."
    )
    stale = Family("highwater_monitor_headroom_stale", GAUGE, "1 if the ceiling was measured under other conditions.")
    demand = Family("highwater_monitor_demand_bytes_per_second", GAUGE, "What is asked of a broker.")
    ceiling = Family("highwater_monitor_ceiling_bytes_per_second", GAUGE, "What was measured on a host of its class.")
    for row in rows:
        labels = {"broker": row.broker_id, "resource": row.resource}
        if row.ratio is not None:
            stale.add(int(bool(row.stale)), **labels)
            ratio.add(None if row.stale else row.ratio, **labels)
        if row.resource not in SHARES:
            demand.add(row.demand, **labels)
            ceiling.add(row.ceiling, **labels)
    return ratio, stale, demand, ceiling


_Known = list[tuple[Host, HostAnswer, HostFigures]]


def _identity(known: _Known) -> Iterable[Family]:
    info = Family(f"{_HOST}info", GAUGE, "The kernel of a host and the version of its agent; always 1.")
    joined = Family(f"{_HOST}broker", GAUGE, "1 for each broker that is on a host.")
    for host, answer, _ in known:
        info.add(1, host=host.name, kernel=answer.kernel, version=answer.version)
        for broker in host.brokers:
            joined.add(1, host=host.name, broker=broker)
    return info, joined


def _gauges(known: _Known) -> Iterator[Family]:
    as_tuned = Family(f"{_HOST}as_tuned", GAUGE, "1 if all that was applied to a host is as it was applied.")
    for host, _, row in known:
        as_tuned.add(None if row.is_tuned is None else int(row.is_tuned), host=host.name)
    yield as_tuned
    for name, text, field in (
        ("drifted_settings", "Settings of a host that are not as they were applied.", "drifted"),
        ("cpu_ratio", "Share of all CPUs that was busy in the last minute.", "cpu_ratio"),
        ("cpu_steal_ratio", "Share of all CPUs that other virtual machines had.", "steal_ratio"),
        ("io_wait_ratio", "Share of time in which something waited for a disk (PSI).", "io_wait_ratio"),
        ("memory_total_bytes", "Memory of a host.", "memory_total_bytes"),
        ("memory_available_bytes", "Memory that programs can get.", "memory_available_bytes"),
        ("page_cache_bytes", "Page cache without shared memory.", "page_cache_bytes"),
        ("unwritten_bytes", "Dirty bytes, and bytes under write-back.", "unwritten_bytes"),
        ("unwritten_ratio", "Of the bytes at which writers have to wait.", "unwritten_ratio"),
        ("log_bytes", "Segments of all logs on a host.", "log_bytes"),
        ("log_resident_bytes", "Of the segments, what memory holds.", "resident_bytes"),
    ):
        family = Family(_HOST + name, GAUGE, text)
        for host, _, row in known:
            family.add(getattr(row, field), host=host.name)
        yield family
    busy = Family(f"{_HOST}disk_busy_ratio", GAUGE, "Share of the last minute in which a disk had something to do.")
    for host, _, row in known:
        for disk in row.disks:
            busy.add(disk.busy_ratio, host=host.name, device=disk.name)
    yield busy


def _counters(known: _Known) -> Iterable[Family]:
    cpu = Family(f"{_HOST}cpu_seconds_total", COUNTER, "CPU time of all CPUs of a host since boot.")
    received = Family(f"{_HOST}network_received_bytes_total", COUNTER, "Bytes received since boot, without loopback.")
    sent = Family(f"{_HOST}network_sent_bytes_total", COUNTER, "Bytes sent since boot, without loopback.")
    read = Family(f"{_HOST}disk_read_bytes_total", COUNTER, "Bytes read from a disk below logs since boot.")
    written = Family(f"{_HOST}disk_written_bytes_total", COUNTER, "Bytes written to a disk below logs since boot.")
    for host, answer, _ in known:
        cpu.add(answer.cpu.busy_s, host=host.name)
        received.add(answer.network.received_bytes, host=host.name)
        sent.add(answer.network.sent_bytes, host=host.name)
        for disk in answer.disks:
            read.add(disk.read_bytes, host=host.name, device=disk.name)
            written.add(disk.written_bytes, host=host.name, device=disk.name)
    return cpu, received, sent, read, written


def _brokers(known: _Known) -> Iterable[Family]:
    served = Family(f"{_BROKER}cache_served_ratio", GAUGE, "Share of a broker's sent bytes that its page cache had.")
    rss = Family(f"{_BROKER}resident_memory_bytes", GAUGE, "Resident memory of a broker's process.")
    for host, _, row in known:
        for process in row.processes:
            served.add(process.cache_served_ratio, host=host.name, broker=process.broker_id)
            rss.add(process.rss_bytes, host=host.name, broker=process.broker_id)
    return served, rss
