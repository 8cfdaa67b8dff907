"""Rows of a snapshot and its figures: every column in its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from highwater.monitor.figures.cluster import derive
from highwater.monitor.history.database import open_history
from highwater.monitor.history.kinds import KINDS
from highwater.monitor.history.reader import HistoryReader, metrics_of
from highwater.monitor.history.rows import rows_of
from highwater.monitor.history.tick import EntityKey, Tick
from highwater.monitor.history.writer import TickWriter
from tests.monitor import clusters
from tests.monitor.agents import GIB, with_hosts


def test_each_row_has_the_columns_of_its_kind_and_comes_back(tmp_path: Path) -> None:
    ends = {("orders", 0): 100, ("orders", 1): 50}
    topic = clusters.topic(
        "orders", *(clusters.partition("orders", number, end=ends["orders", number]) for number in (0, 1))
    )
    snapshot = clusters.snapshot(
        topics=[topic],
        groups=[clusters.group("billing", {("orders", 0): 90, ("orders", 1): 50})],
        brokers=[clusters.broker(node_id) for node_id in range(3)],
    )
    (snapshot,) = with_hosts([snapshot], "h1")
    figures = derive([snapshot])
    rows = rows_of(snapshot, figures, {"monitor_rss_bytes": 1000})
    assert rows.keys() == KINDS.keys()
    details = {"partition", "group_partition"}
    assert rows_of(snapshot, figures, has_details=False).keys() == KINDS.keys() - details
    for name, kind in KINDS.items():
        assert rows[name]
        assert {len(values) for values in rows[name].values()} == {len(kind.columns)}
    database = open_history("sqlite", tmp_path)
    TickWriter(database).write(Tick(snapshot.taken_at_ms, rows))
    reader = HistoryReader(database)

    def value(kind: str, name: str, metric: str) -> object:
        (point,) = reader.series(kind, name, metric, snapshot.taken_at_ms, snapshot.taken_at_ms).points
        return point.value

    assert value("cluster", snapshot.cluster, "brokers") == 3
    assert value("cluster", snapshot.cluster, "monitor_rss_bytes") == 1000
    assert value("topic", "orders", "end_offsets") == 150
    assert value("group", "billing", "lag") == 10
    assert value("group_partition", "billing/orders-0", "committed") == 90
    assert value("partition", "orders-1", "in_sync") == 3
    assert value("broker", "0", "leaders") == figures.brokers[0].leaders
    assert value("host", "h1", "dirty_bytes") == GIB // 2
    assert value("host", "h1", "resident_bytes") == 3 * GIB
    assert value("host", "h1", "kernel") == "6.1.0"
    assert value("broker", "0", "bytes_in") is None  # it has no page of metrics
    for each in KINDS:
        (entity, *_) = reader.names(each)
        for metric in metrics_of(each):
            reader.series(each, entity, metric, snapshot.taken_at_ms, snapshot.taken_at_ms)
    database.close()


def test_what_a_silent_host_said_before_is_not_written_again() -> None:
    (snapshot,) = with_hosts([clusters.snapshot()], "h1")
    host = snapshot.hosts["h1"]
    for old in (replace(host, error="no answer within 10 s"), replace(host, is_new=False)):
        silent = replace(snapshot, hosts={"h1": old})
        assert rows_of(silent, derive([silent]))["host"] == {}


def test_an_end_offset_that_is_not_known_makes_no_sum() -> None:
    topic = clusters.topic("t", clusters.partition("t", 0, end=5), clusters.partition("t", 1, end=None))
    snapshot = clusters.snapshot(topics=[topic], brokers=[clusters.broker(0)])
    rows = rows_of(snapshot, derive([snapshot]))
    assert rows["topic"][EntityKey("topic", "t", "id-of-t")][0] is None
