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
from highwater.monitor.web.filters import Kind
from highwater.monitor.web.tables import Column, Table


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
        empty="The cluster has told of no broker.",
        sort="broker",
        level=lambda row: words.LEVEL_CLASSES[row.figures.level],
    )


def _state(row: BrokerRow) -> str:
    controller = " (controller)" if row.figures.is_controller else ""
    shown = cells.state(row.figures.level, ("alive" if row.figures.is_alive else "gone") + controller)
    return cells.with_note(shown, row.figures.sentence)


def _disk(row: BrokerRow) -> str:
    free = row.figures.disk_usable_percent
    if free is None:
        return "– the broker does not say"
    return f"{words.percent(free)} of {words.size(row.figures.disk_total_bytes)}"


def _loss_sentence(row: BrokerRow) -> str | None:
    return row.figures.if_it_dies.sentence if row.figures.if_it_dies else None


def _loss(row: BrokerRow) -> str:
    return _loss_sentence(row) or NONE


def _host(row: BrokerRow) -> str:
    return NONE if row.host is None else cells.host_link(row.host.name)


_BROKERS: Final[tuple[Column[BrokerRow], ...]] = (
    Column(
        "broker",
        "Broker",
        Kind.NUMBER,
        lambda r: r.broker.node_id,
        lambda r: cells.broker_link(r.broker.node_id),
    ),
    Column(
        "state",
        "State",
        Kind.TEXT,
        lambda r: r.figures.level.value,
        _state,
        lambda r: r.figures.level.rank,
        is_prose=True,
    ),
    Column(
        "if_it_dies",
        "If it dies",
        Kind.TEXT,
        _loss_sentence,
        _loss,
        is_prose=True,
    ),
    Column(
        "address",
        "Address",
        Kind.TEXT,
        lambda r: r.broker.address,
        lambda r: cells.name_text(r.broker.address),
    ),
    Column("rack", "Rack", Kind.TEXT, lambda r: r.broker.rack, lambda r: cells.name_text(r.broker.rack or NONE)),
    Column("leaders", "Leaders", Kind.NUMBER, lambda r: r.figures.leaders),
    Column(
        "leader_share",
        "Share",
        Kind.NUMBER,
        lambda r: r.figures.leader_share,
        lambda r: words.share(r.figures.leader_share),
        note="Of the cluster's leaders.",
    ),
    Column("replicas", "Replicas", Kind.NUMBER, lambda r: r.figures.replicas),
    Column(
        "out_of_sync",
        "Out of sync",
        Kind.NUMBER,
        lambda r: r.figures.out_of_sync_replicas,
        note="Replicas on this broker that are not in sync.",
    ),
    Column("size", "Size", Kind.BYTES, lambda r: r.figures.size_bytes, note="Of its replicas."),
    Column(
        "disk_free",
        "Disk free",
        Kind.NUMBER,
        lambda r: r.figures.disk_usable_percent,
        _disk,
        note="Of the directory with the least.",
    ),
    Column(
        "disk_full",
        "Full in",
        Kind.MILLISECONDS,
        lambda r: r.figures.disk_full_ms,
        note="At the present rate; – if it does not fill.",
    ),
    Column(
        "rate",
        "Produce rate",
        Kind.NUMBER,
        lambda r: r.figures.offsets_per_s,
        lambda r: words.rate(r.figures.offsets_per_s),
    ),
    Column(
        "bytes_in",
        "Bytes in",
        Kind.BYTES,
        lambda r: r.figures.bytes_in_per_s,
        lambda r: words.size_rate(r.figures.bytes_in_per_s),
    ),
    Column(
        "bytes_out",
        "Bytes out",
        Kind.BYTES,
        lambda r: r.figures.bytes_out_per_s,
        lambda r: words.size_rate(r.figures.bytes_out_per_s),
        note="From the broker's own counter; – without its page of metrics.",
    ),
    Column(
        "cache_served",
        "Cache-served",
        Kind.NUMBER,
        lambda r: r.cache_served_ratio,
        lambda r: words.share(r.cache_served_ratio),
        note="Of what it sends, the share that the page cache served; – without an agent that knows its metrics.",
    ),
    Column(
        "unwritten",
        "Unwritten",
        Kind.BYTES,
        lambda r: r.unwritten_bytes,
        note="Dirty bytes of its host, and those under write-back; – without an agent.",
    ),
    Column("host", "Host", Kind.TEXT, lambda r: r.host.name if r.host else None, _host),
    Column("is_controller", "Controller", Kind.YES_NO, lambda r: r.figures.is_controller, is_shown=False),
    Column("sentence", "What is wrong", Kind.TEXT, lambda r: r.figures.sentence, is_shown=False),
)


def directories_table(broker: Broker) -> Table[LogDirectory]:
    empty = "– the broker does not say which directories it has."
    return Table("broker/directories", "Directories", _DIRECTORIES, broker.directories, empty)


def _used(row: LogDirectory) -> int | None:
    return None if row.total_bytes is None or row.usable_bytes is None else row.total_bytes - row.usable_bytes


_DIRECTORIES: Final[tuple[Column[LogDirectory], ...]] = (
    Column("path", "Directory", Kind.TEXT, lambda r: r.path, lambda r: cells.name_text(r.path)),
    Column(
        "error",
        "State",
        Kind.TEXT,
        lambda r: r.error,
        lambda r: cells.state(Level.ERROR, r.error) if r.error else "online",
    ),
    Column("total", "File system", Kind.BYTES, lambda r: r.total_bytes),
    Column("used", "Used", Kind.BYTES, _used),
    Column("usable", "Usable", Kind.BYTES, lambda r: r.usable_bytes),
)


def sources_table(snapshot: Snapshot) -> Table[SourceState]:
    return Table(
        "about/sources", "Sources", _SOURCES, tuple(snapshot.sources.values()), "There are no sources.", "source"
    )


def _received(row: SourceState) -> int | None:
    """None of a part whose answers are counted with those of all parts."""
    return None if row.requests and not row.received_bytes and not row.error else row.received_bytes


_SOURCES: Final[tuple[Column[SourceState], ...]] = (
    Column("source", "Source", Kind.TEXT, lambda r: r.name, lambda r: cells.name_text(r.name)),
    Column("as_of", "Newest answer", Kind.NUMBER, lambda r: r.as_of_ms, lambda r: words.clock_time(r.as_of_ms)),
    Column("requests", "Requests", Kind.NUMBER, lambda r: r.requests, note="In the newest tick."),
    Column(
        "received",
        "Received",
        Kind.BYTES,
        lambda r: r.received_bytes,
        lambda r: words.size(_received(r)),
        note="In the newest tick; kafka has that of its parts too.",
    ),
    Column("duration", "Took", Kind.MILLISECONDS, lambda r: r.duration_ms),
    Column(
        "error", "Last error", Kind.TEXT, lambda r: r.error, lambda r: cells.prose(r.error or "none"), is_prose=True
    ),
)
