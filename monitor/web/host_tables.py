"""The tables of hosts and of headroom; of one host its disks, brokers, log directories and drift."""

from __future__ import annotations

from typing import Final

from highwater.common.host_answer import Drift, HostAnswer, LogDirectory
from highwater.common.units import NONE
from highwater.monitor.figures.headroom import SHARES, Headroom
from highwater.monitor.figures.hosts import BrokerOnHost, DiskFigures, HostFigures
from highwater.monitor.web import cells, words
from highwater.monitor.web.pages import Seen
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import (
    BROKER,
    BYTES,
    BYTES_PER_S,
    COUNT,
    HOST,
    NAME,
    NAME_IF_ANY,
    PROSE,
    SHARE,
    TEXT,
    YES_NO,
)

FORMULA: Final = "headroom = 1 − demand / measured ceiling"


def headroom_table(seen: Seen) -> Table[Headroom]:
    needs = "Headroom needs a host with an agent, or a measured ceiling: the monitor's file names neither."
    return Table(
        name="headroom",
        title="Headroom",
        columns=_HEADROOM,
        rows=seen.figures.headroom,
        empty=needs if seen.snapshot.brokers else "No broker has answered yet.",
        sort="headroom",
        level=lambda row: row.level,
        notes=_HEADROOM_NOTES,
    )


def _amount(row: Headroom, value: float | None) -> str:
    return words.share(value) if row.resource in SHARES else words.size_rate(value)


def _ceiling(row: Headroom) -> str:
    if row.ceiling is None:
        return NONE
    return f"{'≥ ' if row.is_at_least else ''}{_amount(row, row.ceiling)}"


def _headroom_state(row: Headroom) -> str:
    return cells.with_note(cells.state(row.level, "grey" if row.stale else ""), row.sentence)


_HEADROOM: Final[tuple[Column[Headroom], ...]] = (
    Column("broker", "Broker", BROKER, lambda r: r.broker_id),
    Column("resource", "Resource", TEXT, lambda r: r.resource),
    Column("headroom", "Headroom", SHARE, lambda r: r.ratio),
    Column(
        "state",
        "State",
        PROSE,
        lambda r: "grey" if r.stale else r.level.value,
        _headroom_state,
        lambda r: (r.level.rank, bool(r.stale)),
    ),
    Column("demand", "Demand", COUNT, lambda r: r.demand, lambda r: _amount(r, r.demand)),
    Column("ceiling", "Ceiling", COUNT, lambda r: r.ceiling, _ceiling),
    Column("run", "Measured by", NAME_IF_ANY, lambda r: r.run),
    Column("why", "", TEXT, lambda r: r.sentence),
)
_HEADROOM_NOTES: Final = {
    "headroom": f"{FORMULA}.",
    "state": "Grey: the ceiling was measured under other conditions, and may not hold here.",
    "demand": "In the last minute.",
    "ceiling": "The highest rate that a benchmark saw on a host of this class; ≥ if no higher one was tried.",
}


NO_HOSTS: Final = "No hosts are configured: run highwater tune agent on each one, and list it under hosts: in the file."


def _cached_ratio(row: HostFigures) -> float | None:
    return row.resident_bytes / row.log_bytes if row.log_bytes and row.resident_bytes is not None else None


def hosts_table(seen: Seen) -> Table[HostFigures]:
    return Table(
        name="hosts",
        title="Hosts",
        columns=_HOSTS,
        rows=tuple(seen.figures.hosts.values()),
        empty=NO_HOSTS,
        sort="-state",
        level=lambda row: row.level,
        notes=_HOSTS_NOTES,
    )


def _state(row: HostFigures) -> str:
    return cells.with_note(cells.state(row.level), row.sentence)


def _brokers(row: HostFigures) -> str:
    return cells.joined([cells.broker_link(each) for each in row.brokers]) or NONE


_HOSTS: Final[tuple[Column[HostFigures], ...]] = (
    Column("host", "Host", HOST, lambda r: r.name),
    Column("state", "State", PROSE, lambda r: r.level.value, _state, lambda r: r.level.rank),
    Column("brokers", "Brokers", TEXT, lambda r: " ".join(map(str, r.brokers)), _brokers),
    Column("cpu", "CPU", SHARE, lambda r: r.cpu_ratio),
    Column("io_wait", "Waits for disks", SHARE, lambda r: r.io_wait_ratio),
    Column("disk", "Disk busy", SHARE, lambda r: r.busiest_disk_ratio),
    Column("read", "Read", BYTES_PER_S, lambda r: r.read_bytes_per_s),
    Column("written", "Written", BYTES_PER_S, lambda r: r.written_bytes_per_s),
    Column("page_cache", "Page cache", BYTES, lambda r: r.page_cache_bytes),
    Column("log_cached", "Log in memory", SHARE, _cached_ratio),
    Column(
        "unwritten",
        "Unwritten",
        BYTES,
        lambda r: r.unwritten_bytes,
        lambda r: cells.below(words.size(r.unwritten_bytes), _of_limit(r)),
    ),
    Column("available", "Memory free", BYTES, lambda r: r.memory_available_bytes),
    Column("memory", "Memory", BYTES, lambda r: r.memory_total_bytes),
    Column("tuned", "Tuning in place", YES_NO, lambda r: r.is_tuned),
    Column("steal", "", COUNT, lambda r: r.steal_ratio),
    Column("received", "", BYTES, lambda r: r.received_bytes_per_s),
    Column("sent", "", BYTES, lambda r: r.sent_bytes_per_s),
    Column("unwritten_ratio", "", COUNT, lambda r: r.unwritten_ratio),
    Column("sentence", "", TEXT, lambda r: r.sentence),
)
_HOSTS_NOTES: Final = {
    "cpu": "The share of all its CPUs.",
    "io_wait": "Share of the last minute in which some task waited for a disk (PSI).",
    "read": "By the disks below log directories.",
    "written": "By the disks below log directories.",
    "log_cached": "Share of the segments' bytes that the page cache holds.",
    "unwritten": "Dirty, or under write-back. Writers have to wait when it reaches the kernel's limit.",
    "available": "Available to programs.",
}


def _of_limit(row: HostFigures) -> str:
    return NONE if row.unwritten_ratio is None else f"{words.share(row.unwritten_ratio)} of the limit"


def host_brokers_table(row: HostFigures) -> Table[BrokerOnHost]:
    empty = "– the agent was given no log directory."
    return Table("host/brokers", "Brokers", _BROKERS, row.processes, empty, "broker", notes=_BROKERS_NOTES)


_BROKERS: Final[tuple[Column[BrokerOnHost], ...]] = (
    Column("broker", "Broker", BROKER, lambda r: r.broker_id),
    Column("cpu", "CPU", SHARE, lambda r: r.cpu_cores),
    Column("memory", "Memory", BYTES, lambda r: r.rss_bytes),
    Column("sent", "Sent", BYTES_PER_S, lambda r: r.sent_bytes_per_s),
    Column("read", "Read from disks", BYTES_PER_S, lambda r: r.read_bytes_per_s),
    Column("cache_served", "Cache-served", SHARE, lambda r: r.cache_served_ratio),
)
_BROKERS_NOTES: Final = {
    "cpu": "100 % is one core.",
    "memory": "Resident, of its processes.",
    "sent": "To consumers and followers; – without the broker's page of metrics.",
    "cache_served": "1 − read / sent: what the page cache served; – while nothing is sent.",
}


def host_disks_table(row: HostFigures) -> Table[DiskFigures]:
    return Table("host/disks", "Disks", _DISKS, row.disks, "– no log directory is known, or none is on a disk.", "disk")


_DISKS: Final[tuple[Column[DiskFigures], ...]] = (
    Column("disk", "Disk", NAME, lambda r: r.name),
    Column("medium", "Medium", NAME, lambda r: r.medium),
    Column("busy", "Busy", SHARE, lambda r: r.busy_ratio),
    Column("read", "Read", BYTES_PER_S, lambda r: r.read_bytes_per_s),
    Column("written", "Written", BYTES_PER_S, lambda r: r.written_bytes_per_s),
)


def host_directories_table(answer: HostAnswer | None) -> Table[LogDirectory]:
    rows = () if answer is None else answer.directories
    title, empty = "Log directories", "– the agent was given none."
    return Table("host/directories", title, _DIRECTORIES, rows, empty, "directory", notes=_DIRECTORIES_NOTES)


_DIRECTORIES: Final[tuple[Column[LogDirectory], ...]] = (
    Column("directory", "Directory", NAME, lambda r: r.path),
    Column("broker", "Broker", BROKER, lambda r: r.broker_id),
    Column("disks", "Disks", NAME_IF_ANY, lambda r: " ".join(r.devices)),
    Column("file_system", "File system", NAME_IF_ANY, lambda r: r.file_system),
    Column("total", "Size", BYTES, lambda r: r.total_bytes),
    Column("free", "Free", BYTES, lambda r: r.free_bytes),
    Column("log", "Segments", BYTES, lambda r: r.log_bytes),
    Column("resident", "In memory", BYTES, lambda r: r.resident_bytes),
    Column("unwritten", "Unwritten", BYTES, lambda r: r.unwritten_bytes),
)
_DIRECTORIES_NOTES: Final = {
    "resident": "Of the segments, by cachestat.",
    "unwritten": "Of the segments, not on the disk yet.",
}


def host_drift_table(answer: HostAnswer | None) -> Table[Drift]:
    tuning = None if answer is None else answer.tuning
    empty = "Every setting is as it was applied." if tuning is not None and tuning.profile else "Nothing is applied."
    return Table("host/drift", "Drift", _DRIFT, () if tuning is None else tuning.drift, empty, "setting")


_DRIFT: Final[tuple[Column[Drift], ...]] = (
    Column("setting", "Setting", NAME, lambda r: r.parameter),
    Column("of", "Where", TEXT, lambda r: r.target, lambda r: cells.name_text(r.target or "the host")),
    Column("applied", "Applied", NAME, lambda r: r.applied),
    Column("now", "Now", TEXT, lambda r: r.now, lambda r: cells.name_text(r.now or "?")),
    Column("note", "Why", PROSE, lambda r: r.note, lambda r: cells.name_text(r.note or NONE)),
)
