"""The table of ZooKeeper's servers, from the newest snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from highwater.common.units import NONE
from highwater.monitor.figures.rows import Level
from highwater.monitor.model import Snapshot, ZooKeeperServer
from highwater.monitor.web import cells, words
from highwater.monitor.web.filters import Kind
from highwater.monitor.web.tables import Column, Table


def servers_table(snapshot: Snapshot) -> Table[ZooKeeperServer]:
    rows = snapshot.zookeeper.servers if snapshot.zookeeper is not None else ()
    empty = "No server of ZooKeeper was asked yet."
    return Table("zookeeper/servers", "Servers", _SERVERS, rows, empty, "address", _level)


def _level(row: ZooKeeperServer) -> str:
    return words.LEVEL_CLASSES[Level.WARN if row.error else Level.OK]


def _state(row: ZooKeeperServer) -> str:
    return cells.state(Level.WARN, row.error) if row.error else cells.state(Level.OK, row.mode or "serves")


def _number(name: str) -> Callable[[ZooKeeperServer], float | None]:
    return lambda row: row.numbers.get(name)


def _milliseconds(name: str) -> Callable[[ZooKeeperServer], str]:
    def shown(row: ZooKeeperServer) -> str:
        value = row.numbers.get(name)
        return NONE if value is None else words.time_ms(value) if value else "0 ms"

    return shown


_SERVERS: Final[tuple[Column[ZooKeeperServer], ...]] = (
    Column("address", "Address", Kind.TEXT, lambda r: r.address, lambda r: cells.name_text(r.address)),
    Column("state", "State", Kind.TEXT, lambda r: r.error or r.mode, _state, is_prose=True),
    Column("version", "Version", Kind.TEXT, lambda r: r.version or None),
    Column(
        "avg_latency",
        "Latency",
        Kind.MILLISECONDS,
        _number("avg_latency"),
        _milliseconds("avg_latency"),
        note="The average of requests since the server began or was reset.",
    ),
    Column("max_latency", "Longest", Kind.MILLISECONDS, _number("max_latency"), _milliseconds("max_latency")),
    Column("outstanding", "Waiting", Kind.NUMBER, _number("outstanding_requests"), note="Requests that wait."),
    Column("connections", "Connections", Kind.NUMBER, _number("num_alive_connections")),
    Column("znodes", "Znodes", Kind.NUMBER, _number("znode_count")),
    Column("watches", "Watches", Kind.NUMBER, _number("watch_count"), note="Of mntr alone."),
    Column("ephemerals", "Ephemerals", Kind.NUMBER, _number("ephemerals_count"), note="Of mntr alone."),
    Column("data", "Data", Kind.BYTES, _number("approximate_data_size"), note="Of mntr alone."),
    Column(
        "files",
        "Open files",
        Kind.NUMBER,
        _number("open_file_descriptor_count"),
        note="Of mntr alone.",
    ),
    Column(
        "synced_followers",
        "Followers in sync",
        Kind.NUMBER,
        _number("synced_followers"),
        note="The leader knows them.",
    ),
)
