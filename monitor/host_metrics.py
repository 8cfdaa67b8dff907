"""Series of hosts and headroom on the page for Prometheus. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from highwater.common.host_answer import HostAnswer
from highwater.common.prometheus_text import GAUGE, Family, LargeFamily, Samples
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.headroom import SHARES, Headroom
from highwater.monitor.figures.hosts import HostFigures
from highwater.monitor.model import Host, Snapshot

_HOST: Final = "highwater_monitor_host_"
_BROKER: Final = "highwater_monitor_broker_"


def host_families(snapshot: Snapshot, figures: Figures) -> Iterator[Family | LargeFamily]:
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
    hosts = Samples(lambda: known, lambda r: {"host": r[0].name})
    yield from _identity(known)
    yield from _gauges(hosts)
    yield from _disks_and_counters(hosts, known)
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


_Known = tuple[Host, HostAnswer, HostFigures]


def _identity(known: Sequence[_Known]) -> Iterable[Family]:
    info = Family(f"{_HOST}info", GAUGE, "The kernel of a host and the version of its agent; always 1.")
    joined = Family(f"{_HOST}broker", GAUGE, "1 for each broker that is on a host.")
    for host, answer, _ in known:
        info.add(1, host=host.name, kernel=answer.kernel, version=answer.version)
        for broker in host.brokers:
            joined.add(1, host=host.name, broker=broker)
    return info, joined


def _gauges(hosts: Samples[_Known]) -> Iterator[LargeFamily]:
    def gauge(name: str, help_text: str, read: Callable[[HostFigures], float | None]) -> LargeFamily:
        return hosts.gauge(f"{_HOST}{name}", help_text, lambda r: read(r[2]))

    yield gauge("as_tuned", "1 if all that was applied to a host is as it was applied.", lambda r: r.is_tuned)
    yield gauge("drifted_settings", "Settings of a host that are not as they were applied.", lambda r: r.drifted)
    yield gauge("cpu_ratio", "Share of all CPUs that was busy in the last minute.", lambda r: r.cpu_ratio)
    yield gauge("cpu_steal_ratio", "Share of all CPUs that other virtual machines had.", lambda r: r.steal_ratio)
    help_text = "Share of time in which something waited for a disk (PSI)."
    yield gauge("io_wait_ratio", help_text, lambda r: r.io_wait_ratio)
    yield gauge("memory_total_bytes", "Memory of a host.", lambda r: r.memory_total_bytes)
    yield gauge("memory_available_bytes", "Memory that programs can get.", lambda r: r.memory_available_bytes)
    yield gauge("page_cache_bytes", "Page cache without shared memory.", lambda r: r.page_cache_bytes)
    yield gauge("unwritten_bytes", "Dirty bytes, and bytes under write-back.", lambda r: r.unwritten_bytes)
    yield gauge("unwritten_ratio", "Of the bytes at which writers have to wait.", lambda r: r.unwritten_ratio)
    yield gauge("log_bytes", "Segments of all logs on a host.", lambda r: r.log_bytes)
    yield gauge("log_resident_bytes", "Of the segments, what memory holds.", lambda r: r.resident_bytes)


def _disks_and_counters(hosts: Samples[_Known], known: Sequence[_Known]) -> Iterator[LargeFamily]:
    used = Samples(
        lambda: ((host, disk) for host, _, row in known for disk in row.disks),
        lambda r: {"host": r[0].name, "device": r[1].name},
    )
    disks = Samples(
        lambda: ((host, disk) for host, answer, _ in known for disk in answer.disks),
        lambda r: {"host": r[0].name, "device": r[1].name},
    )
    help_text = "Share of the last minute in which a disk had something to do."
    yield used.gauge(f"{_HOST}disk_busy_ratio", help_text, lambda r: r[1].busy_ratio)
    help_text = "CPU time of all CPUs of a host since boot."
    yield hosts.counter(f"{_HOST}cpu_seconds_total", help_text, lambda r: r[1].cpu.busy_s)
    help_text = "Bytes received since boot, without loopback."
    yield hosts.counter(f"{_HOST}network_received_bytes_total", help_text, lambda r: r[1].network.received_bytes)
    help_text = "Bytes sent since boot, without loopback."
    yield hosts.counter(f"{_HOST}network_sent_bytes_total", help_text, lambda r: r[1].network.sent_bytes)
    help_text = "Bytes read from a disk below logs since boot."
    yield disks.counter(f"{_HOST}disk_read_bytes_total", help_text, lambda r: r[1].read_bytes)
    help_text = "Bytes written to a disk below logs since boot."
    yield disks.counter(f"{_HOST}disk_written_bytes_total", help_text, lambda r: r[1].written_bytes)


def _brokers(known: Sequence[_Known]) -> Iterator[LargeFamily]:
    processes = Samples(
        lambda: ((host, process) for host, _, row in known for process in row.processes),
        lambda r: {"host": r[0].name, "broker": r[1].broker_id},
    )
    help_text = "Share of a broker's sent bytes that its page cache had."
    yield processes.gauge(f"{_BROKER}cache_served_ratio", help_text, lambda r: r[1].cache_served_ratio)
    help_text = "Resident memory of a broker's process."
    yield processes.gauge(f"{_BROKER}resident_memory_bytes", help_text, lambda r: r[1].rss_bytes)
