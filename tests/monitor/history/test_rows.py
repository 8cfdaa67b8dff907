"""Rows of a snapshot and its figures: every column in its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.monitor.figures.cluster import derive
from highwater.monitor.figures.memory import BYTES_IN
from highwater.monitor.history.database import open_history
from highwater.monitor.history.kinds import KINDS
from highwater.monitor.history.reader import HistoryReader, metrics_of
from highwater.monitor.history.rows import read_at_ms, rows_of
from highwater.monitor.history.tick import EntityKey, Tick
from highwater.monitor.history.writer import TickWriter
from highwater.monitor.host_source.joining import with_hosts as joined
from highwater.monitor.model import Host, Snapshot
from tests.monitor import clusters
from tests.monitor.agents import GIB, answer, with_hosts
from tests.monitor.clusters import TICK_MS, UNIX_START_MS


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
    snapshot = clusters.with_clients(snapshot, clusters.push("orders", produce_ms=2.5))
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


def test_counters_have_the_time_at_which_an_agent_read_them(tmp_path: Path) -> None:
    """The first answer after a start was late, and came into the second tick; the third one was in time."""

    def tick(number: int, read_at_ms: int) -> Snapshot:
        found = clusters.snapshot(number=number, brokers=1)
        given = answer("h1", second=read_at_ms / 1000)
        host = Host("h1", "h1:9100", given, UNIX_START_MS + read_at_ms, answered_at_ms=read_at_ms)
        return joined(found, [host], frozenset({"h1"}))

    seen = [clusters.snapshot(brokers=1), tick(1, 1_500), tick(2, 2 * TICK_MS + 40), tick(3, 3 * TICK_MS + 20)]
    assert seen[1].brokers[0].metrics is not None
    assert BYTES_IN in seen[1].brokers[0].metrics
    for count in (3, 4):
        assert derive(seen[:count]).brokers[0].bytes_in_per_s == pytest.approx(50e6)
    database = open_history("sqlite", tmp_path)
    writer = TickWriter(database)
    for number, each in enumerate(seen, 1):
        writer.write(Tick(each.taken_at_ms, rows_of(each, derive(seen[:number])), read_at_ms=read_at_ms(each)))
    reader = HistoryReader(database)
    for kind, name, metric, rate in (("broker", "0", "bytes_in", 50e6), ("host", "h1", "disk_written_bytes", 50e6)):
        points = reader.series(kind, name, f"{metric}.rate", UNIX_START_MS, UNIX_START_MS + 4 * TICK_MS).points
        assert [each.value for each in points if each.value is not None] == pytest.approx([rate, rate])
    database.close()


def test_an_end_offset_that_is_not_known_makes_no_sum() -> None:
    topic = clusters.topic("t", clusters.partition("t", 0, end=5), clusters.partition("t", 1, end=None))
    snapshot = clusters.snapshot(topics=[topic], brokers=[clusters.broker(0)])
    rows = rows_of(snapshot, derive([snapshot]))
    assert rows["topic"][EntityKey("topic", "t", "id-of-t")][0] is None
