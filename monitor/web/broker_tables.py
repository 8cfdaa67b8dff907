"""The tables of brokers and of the monitor itself: brokers, directories, sources."""

from __future__ import annotations

from typing import Final, NamedTuple

from highwater.common.units import NONE
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.headroom import host_of
from highwater.monitor.figures.hosts import BrokerOnHost, HostFigures
from highwater.monitor.figures.rows import BrokerFigures, Level
from highwater.monitor.model import Broker, LogDirectory, Snapshot, SourceState
from highwater.monitor.web import cells, words
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import (
    BROKER,
    BYTES,
    BYTES_PER_S,
    COUNT,
    MILLISECONDS,
    NAME,
    NAME_IF_ANY,
    PER_S,
    PROSE,
    PROSE_IF_ANY,
    SHARE,
    TEXT,
    TIME,
    YES_NO,
)


class BrokerRow(NamedTuple):
    broker: Broker
    figures: BrokerFigures
    host: HostFigures | None
    """None if no agent says which host it is on."""

    @property
    def process(self) -> BrokerOnHost | None:
        found = self.host.processes if self.host is not None else ()
        return next((each for each in found if each.broker_id == self.broker.node_id), None)

    @property
    def cache_served_ratio(self) -> float | None:
        return None if self.process is None else self.process.cache_served_ratio

    @property
    def unwritten_bytes(self) -> int | None:
        return None if self.host is None else self.host.unwritten_bytes


def brokers_table(snapshot: Snapshot, figures: Figures) -> Table[BrokerRow]:
    rows = []
    for node_id, row in figures.brokers.items():
        host = host_of(node_id, snapshot.hosts)
        rows.append(BrokerRow(snapshot.brokers[node_id], row, figures.hosts.get(host.name) if host else None))
    return Table(
        name="brokers",
        title="Brokers",
        columns=_BROKERS,
        rows=rows,
        empty="The cluster has reported no brokers.",
        sort="broker",
        level=lambda row: row.figures.level,
        notes=_BROKERS_NOTES,
    )


def _state(row: BrokerRow) -> str:
    controller = " (controller)" if row.figures.is_controller else ""
    shown = cells.state(row.figures.level, ("alive" if row.figures.is_alive else "gone") + controller)
    return cells.with_note(shown, row.figures.sentence)


def _disk(row: BrokerRow) -> str:
    free = row.figures.disk_usable_percent
    if free is None:
        return "– not reported by the broker"
    return f"{words.percent(free)} of {words.size(row.figures.disk_total_bytes)}"


def _loss_sentence(row: BrokerRow) -> str | None:
    return row.figures.if_it_dies.sentence if row.figures.if_it_dies else None


def _loss(row: BrokerRow) -> str:
    return _loss_sentence(row) or NONE


def _host(row: BrokerRow) -> str:
    return NONE if row.host is None else cells.host_link(row.host.name)


_BROKERS: Final[tuple[Column[BrokerRow], ...]] = (
    Column("broker", "Broker", BROKER, lambda r: r.broker.node_id),
    Column("state", "State", PROSE, lambda r: r.figures.level.value, _state, lambda r: r.figures.level.rank),
    Column("if_it_dies", "If it dies", PROSE, _loss_sentence, _loss),
    Column("address", "Address", NAME, lambda r: r.broker.address),
    Column("rack", "Rack", NAME_IF_ANY, lambda r: r.broker.rack),
    Column("leaders", "Leaders", COUNT, lambda r: r.figures.leaders),
    Column("leader_share", "Share", SHARE, lambda r: r.figures.leader_share),
    Column("replicas", "Replicas", COUNT, lambda r: r.figures.replicas),
    Column("out_of_sync", "Out of sync", COUNT, lambda r: r.figures.out_of_sync_replicas),
    Column("size", "Size", BYTES, lambda r: r.figures.size_bytes),
    Column("disk_free", "Disk free", COUNT, lambda r: r.figures.disk_usable_percent, _disk),
    Column("disk_full", "Full in", MILLISECONDS, lambda r: r.figures.disk_full_ms),
    Column("rate", "Produce rate", PER_S, lambda r: r.figures.offsets_per_s),
    Column("bytes_in", "Bytes in", BYTES_PER_S, lambda r: r.figures.bytes_in_per_s),
    Column("bytes_out", "Bytes out", BYTES_PER_S, lambda r: r.figures.bytes_out_per_s),
    Column("cache_served", "Cache-served", SHARE, lambda r: r.cache_served_ratio),
    Column("unwritten", "Unwritten", BYTES, lambda r: r.unwritten_bytes),
    Column("host", "Host", TEXT, lambda r: r.host.name if r.host else None, _host),
    Column("is_controller", "", YES_NO, lambda r: r.figures.is_controller),
    Column("sentence", "", TEXT, lambda r: r.figures.sentence),
)
_BROKERS_NOTES: Final = {
    "leader_share": "Its share of the cluster's leaders.",
    "out_of_sync": "Replicas on this broker that are not in sync.",
    "size": "The size of its replicas.",
    "disk_free": "Of the log directory with the least free space.",
    "disk_full": "At the present rate; – if it does not fill.",
    "bytes_out": "From the broker's own counter; – without its page of metrics.",
    "cache_served": "The share of what it sends that the page cache served; – without an agent that has its metrics.",
    "unwritten": "Dirty bytes of its host, and those under write-back; – without an agent.",
}


def directories_table(broker: Broker) -> Table[LogDirectory]:
    empty = "– the broker does not report its directories."
    return Table("broker/directories", "Directories", _DIRECTORIES, broker.directories, empty)


def _used(row: LogDirectory) -> int | None:
    return None if row.total_bytes is None or row.usable_bytes is None else row.total_bytes - row.usable_bytes


_DIRECTORIES: Final[tuple[Column[LogDirectory], ...]] = (
    Column("path", "Directory", NAME, lambda r: r.path),
    Column(
        "error", "State", TEXT, lambda r: r.error, lambda r: cells.state(Level.ERROR, r.error) if r.error else "online"
    ),
    Column("total", "File system", BYTES, lambda r: r.total_bytes),
    Column("used", "Used", BYTES, _used),
    Column("usable", "Usable", BYTES, lambda r: r.usable_bytes),
)


def sources_table(snapshot: Snapshot) -> Table[SourceState]:
    rows = tuple(snapshot.sources.values())
    return Table("about/sources", "Sources", _SOURCES, rows, "There are no sources.", "source", notes=_SOURCES_NOTES)


def _received(row: SourceState) -> int | None:
    """None of a part whose answers are counted with those of all parts."""
    return None if row.requests and not row.received_bytes and not row.error else row.received_bytes


_SOURCES: Final[tuple[Column[SourceState], ...]] = (
    Column("source", "Source", NAME, lambda r: r.name),
    Column("as_of", "Newest answer", TIME, lambda r: r.as_of_ms),
    Column("requests", "Requests", COUNT, lambda r: r.requests),
    Column("received", "Received", BYTES, lambda r: r.received_bytes, lambda r: words.size(_received(r))),
    Column("duration", "Took", MILLISECONDS, lambda r: r.duration_ms),
    Column("error", "Last error", PROSE_IF_ANY, lambda r: r.error),
)
_SOURCES_NOTES: Final = {
    "requests": "In the newest tick.",
    "received": "In the newest tick; kafka has that of its parts too.",
}
