"""The table of ZooKeeper's servers, from the newest snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from highwater.common.units import NONE
from highwater.monitor.figures.rows import Level
from highwater.monitor.model import Snapshot, ZooKeeperServer
from highwater.monitor.web import cells, words
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import BYTES, COUNT, MILLISECONDS, NAME, PROSE, TEXT


def servers_table(snapshot: Snapshot) -> Table[ZooKeeperServer]:
    rows = snapshot.zookeeper.servers if snapshot.zookeeper is not None else ()
    empty = "No ZooKeeper server has been queried yet."
    return Table("zookeeper/servers", "Servers", _SERVERS, rows, empty, "address", _level, notes=_SERVERS_NOTES)


def _level(row: ZooKeeperServer) -> Level:
    return Level.WARN if row.error else Level.OK


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
    Column("address", "Address", NAME, lambda r: r.address),
    Column("state", "State", PROSE, lambda r: r.error or r.mode, _state),
    Column("version", "Version", TEXT, lambda r: r.version or None),
    Column("avg_latency", "Latency", MILLISECONDS, _number("avg_latency"), _milliseconds("avg_latency")),
    Column("max_latency", "Longest", MILLISECONDS, _number("max_latency"), _milliseconds("max_latency")),
    Column("outstanding", "Waiting", COUNT, _number("outstanding_requests")),
    Column("connections", "Connections", COUNT, _number("num_alive_connections")),
    Column("znodes", "Znodes", COUNT, _number("znode_count")),
    Column("watches", "Watches", COUNT, _number("watch_count")),
    Column("ephemerals", "Ephemerals", COUNT, _number("ephemerals_count")),
    Column("data", "Data", BYTES, _number("approximate_data_size")),
    Column("files", "Open files", COUNT, _number("open_file_descriptor_count")),
    Column("synced_followers", "Followers in sync", COUNT, _number("synced_followers")),
)
_SERVERS_NOTES: Final = {
    "avg_latency": "The average of requests since the server began or was reset.",
    "outstanding": "Requests that wait.",
    "watches": "Only mntr reports it.",
    "ephemerals": "Only mntr reports it.",
    "data": "Only mntr reports it.",
    "files": "Only mntr reports it.",
    "synced_followers": "Only the leader reports them.",
}
