"""The tables of hosts: all of them, and of one its disks, brokers, log directories and drift."""

from __future__ import annotations

from typing import Final

from highwater.common.host_answer import Drift, HostAnswer, LogDirectory
from highwater.common.units import NONE
from highwater.monitor.figures.hosts import BrokerOnHost, DiskFigures, HostFigures
from highwater.monitor.web import cells, words
from highwater.monitor.web.filters import Kind
from highwater.monitor.web.pages import Seen
from highwater.monitor.web.tables import Column, Table

NO_HOSTS: Final = "No host is known: run highwater tune agent on each one, and name it under hosts: in the file."


def hosts_table(seen: Seen) -> Table[HostFigures]:
    return Table(
        name="hosts",
        title="Hosts",
        columns=_HOSTS,
        rows=tuple(seen.figures.hosts.values()),
        empty=NO_HOSTS,
        sort="-state",
        level=lambda row: words.LEVEL_CLASSES[row.level],
    )


def _state(row: HostFigures) -> str:
    return cells.with_note(cells.state(row.level), row.sentence)


def _brokers(row: HostFigures) -> str:
    return cells.joined([cells.broker_link(each) for each in row.brokers]) or NONE


_HOSTS: Final[tuple[Column[HostFigures], ...]] = (
    Column("host", "Host", Kind.TEXT, lambda r: r.name, lambda r: cells.host_link(r.name)),
    Column("state", "State", Kind.TEXT, lambda r: r.level.value, _state, lambda r: r.level.rank, is_prose=True),
    Column("brokers", "Brokers", Kind.TEXT, lambda r: " ".join(map(str, r.brokers)), _brokers),
    Column(
        "cpu", "CPU", Kind.NUMBER, lambda r: r.cpu_ratio, lambda r: words.share(r.cpu_ratio), note="Of all its CPUs."
    ),
    Column(
        "io_wait",
        "Waits for disks",
        Kind.NUMBER,
        lambda r: r.io_wait_ratio,
        lambda r: words.share(r.io_wait_ratio),
        note="Share of the last minute in which some task waited for a disk (PSI).",
    ),
    Column(
        "disk", "Disk busy", Kind.NUMBER, lambda r: r.busiest_disk_ratio, lambda r: words.share(r.busiest_disk_ratio)
    ),
    Column(
        "read",
        "Read",
        Kind.BYTES,
        lambda r: r.read_bytes_per_s,
        lambda r: words.size_rate(r.read_bytes_per_s),
        note="By the disks below log directories.",
    ),
    Column(
        "written",
        "Written",
        Kind.BYTES,
        lambda r: r.written_bytes_per_s,
        lambda r: words.size_rate(r.written_bytes_per_s),
        note="By the disks below log directories.",
    ),
    Column("page_cache", "Page cache", Kind.BYTES, lambda r: r.page_cache_bytes),
    Column(
        "log_cached",
        "Log in memory",
        Kind.NUMBER,
        lambda r: _cached_ratio(r),
        lambda r: words.share(_cached_ratio(r)),
        note="Share of the segments' bytes that the page cache holds.",
    ),
    Column(
        "unwritten",
        "Unwritten",
        Kind.BYTES,
        lambda r: r.unwritten_bytes,
        lambda r: cells.below(words.size(r.unwritten_bytes), _of_limit(r)),
        note="Dirty, or under write-back. Who writes has to wait when it reaches the kernel's limit.",
    ),
    Column("available", "Memory free", Kind.BYTES, lambda r: r.memory_available_bytes, note="Available to programs."),
    Column("memory", "Memory", Kind.BYTES, lambda r: r.memory_total_bytes),
    Column("tuned", "As tuned", Kind.YES_NO, lambda r: r.is_tuned),
    Column("steal", "Stolen", Kind.NUMBER, lambda r: r.steal_ratio, is_shown=False),
    Column("received", "Received", Kind.BYTES, lambda r: r.received_bytes_per_s, is_shown=False),
    Column("sent", "Sent", Kind.BYTES, lambda r: r.sent_bytes_per_s, is_shown=False),
    Column("unwritten_ratio", "Of the limit", Kind.NUMBER, lambda r: r.unwritten_ratio, is_shown=False),
    Column("sentence", "What is said", Kind.TEXT, lambda r: r.sentence, is_shown=False),
)


def _cached_ratio(row: HostFigures) -> float | None:
    return row.resident_bytes / row.log_bytes if row.log_bytes and row.resident_bytes is not None else None


def _of_limit(row: HostFigures) -> str:
    return NONE if row.unwritten_ratio is None else f"{words.share(row.unwritten_ratio)} of the limit"


def host_brokers_table(row: HostFigures) -> Table[BrokerOnHost]:
    return Table(
        "host/brokers", "Brokers", _BROKERS, row.processes, "– the agent was told of no log directory.", "broker"
    )


_BROKERS: Final[tuple[Column[BrokerOnHost], ...]] = (
    Column("broker", "Broker", Kind.NUMBER, lambda r: r.broker_id, lambda r: cells.broker_link(r.broker_id)),
    Column(
        "cpu", "CPU", Kind.NUMBER, lambda r: r.cpu_cores, lambda r: words.share(r.cpu_cores), note="100 % is one core."
    ),
    Column("memory", "Memory", Kind.BYTES, lambda r: r.rss_bytes, note="Resident, of its processes."),
    Column(
        "sent",
        "Sent",
        Kind.BYTES,
        lambda r: r.sent_bytes_per_s,
        lambda r: words.size_rate(r.sent_bytes_per_s),
        note="To consumers and followers; – without the broker's page of metrics.",
    ),
    Column(
        "read",
        "Read from disks",
        Kind.BYTES,
        lambda r: r.read_bytes_per_s,
        lambda r: words.size_rate(r.read_bytes_per_s),
    ),
    Column(
        "cache_served",
        "Cache-served",
        Kind.NUMBER,
        lambda r: r.cache_served_ratio,
        lambda r: words.share(r.cache_served_ratio),
        note="1 − read / sent: what the page cache served; – while nothing is sent.",
    ),
)


def host_disks_table(row: HostFigures) -> Table[DiskFigures]:
    return Table("host/disks", "Disks", _DISKS, row.disks, "– no log directory is known, or none is on a disk.", "disk")


_DISKS: Final[tuple[Column[DiskFigures], ...]] = (
    Column("disk", "Disk", Kind.TEXT, lambda r: r.name, lambda r: cells.name_text(r.name)),
    Column("medium", "Medium", Kind.TEXT, lambda r: r.medium, lambda r: cells.name_text(r.medium)),
    Column("busy", "Busy", Kind.NUMBER, lambda r: r.busy_ratio, lambda r: words.share(r.busy_ratio)),
    Column("read", "Read", Kind.BYTES, lambda r: r.read_bytes_per_s, lambda r: words.size_rate(r.read_bytes_per_s)),
    Column(
        "written",
        "Written",
        Kind.BYTES,
        lambda r: r.written_bytes_per_s,
        lambda r: words.size_rate(r.written_bytes_per_s),
    ),
)


def host_directories_table(answer: HostAnswer | None) -> Table[LogDirectory]:
    rows = () if answer is None else answer.directories
    return Table(
        "host/directories", "Log directories", _DIRECTORIES, rows, "– the agent was told of none.", "directory"
    )


_DIRECTORIES: Final[tuple[Column[LogDirectory], ...]] = (
    Column("directory", "Directory", Kind.TEXT, lambda r: r.path, lambda r: cells.name_text(r.path)),
    Column(
        "broker",
        "Broker",
        Kind.NUMBER,
        lambda r: r.broker_id,
        lambda r: NONE if r.broker_id is None else cells.broker_link(r.broker_id),
    ),
    Column(
        "disks",
        "Disks",
        Kind.TEXT,
        lambda r: " ".join(r.devices),
        lambda r: cells.name_text(" ".join(r.devices) or NONE),
    ),
    Column(
        "file_system",
        "File system",
        Kind.TEXT,
        lambda r: r.file_system,
        lambda r: cells.name_text(r.file_system or NONE),
    ),
    Column("total", "Size", Kind.BYTES, lambda r: r.total_bytes),
    Column("free", "Free", Kind.BYTES, lambda r: r.free_bytes),
    Column("log", "Segments", Kind.BYTES, lambda r: r.log_bytes),
    Column("resident", "In memory", Kind.BYTES, lambda r: r.resident_bytes, note="Of the segments, by cachestat."),
    Column(
        "unwritten", "Unwritten", Kind.BYTES, lambda r: r.unwritten_bytes, note="Of the segments, not on the disk yet."
    ),
)


def host_drift_table(answer: HostAnswer | None) -> Table[Drift]:
    tuning = None if answer is None else answer.tuning
    empty = "Every setting is as it was applied." if tuning is not None and tuning.profile else "Nothing is applied."
    return Table("host/drift", "Drift", _DRIFT, () if tuning is None else tuning.drift, empty, "setting")


_DRIFT: Final[tuple[Column[Drift], ...]] = (
    Column("setting", "Setting", Kind.TEXT, lambda r: r.parameter, lambda r: cells.name_text(r.parameter)),
    Column("of", "Of", Kind.TEXT, lambda r: r.target, lambda r: cells.name_text(r.target or "the host")),
    Column("applied", "Applied", Kind.TEXT, lambda r: r.applied, lambda r: cells.name_text(r.applied)),
    Column("now", "Now", Kind.TEXT, lambda r: r.now, lambda r: cells.name_text(r.now or "?")),
    Column("note", "Why", Kind.TEXT, lambda r: r.note, lambda r: cells.name_text(r.note or NONE), is_prose=True),
)
