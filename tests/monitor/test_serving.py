"""The monitor from tick to tick: views, failed ticks, history, cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.monitor.errors import HistoryError
from highwater.monitor.events import Event, EventKind
from highwater.monitor.history.database import open_history
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.history.writer import HistoryWriter
from highwater.monitor.model import Snapshot
from highwater.monitor.serving import Monitor
from tests.monitor import clusters
from tests.monitor.sources import MadeUpSource, small_source
from tests.waiting import until


async def ticking(monitor: Monitor, condition: Callable[[], bool]) -> None:
    task = asyncio.create_task(monitor.run())
    try:
        await until(condition)
    finally:
        task.cancel()


def test_ticks_make_views_history_and_cost(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    writer = HistoryWriter(database)
    writer.start()
    monitor = Monitor(small_source(), 0.05, writer)
    assert monitor.view() is None
    asyncio.run(ticking(monitor, lambda: monitor.state().ticks >= 4))
    writer.close()
    view = monitor.view()
    assert view is not None
    snapshot, figures = view
    assert figures.number == snapshot.number
    state = monitor.state()
    assert state.cost.requests == 12
    assert state.cost.rss_bytes > 1 << 20
    assert state.cost.cpu_share is not None
    assert state.history is not None
    assert state.history.ticks >= 3
    points = HistoryReader(database).series("cluster", "synthetic", "requests", 0, snapshot.taken_at_ms).points
    assert {point.value for point in points} == {12.0}
    # Of partitions there is a row in the first tick, and another one if five minutes ended meanwhile.
    (name, *_) = HistoryReader(database).names("partition")
    points = HistoryReader(database).series("partition", name, "leader", 0, snapshot.taken_at_ms).points
    assert 1 <= len(points) <= 2
    database.close()


def test_what_is_noted_is_in_the_history_with_the_next_tick(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    writer = HistoryWriter(database)
    writer.start()
    monitor = Monitor(small_source(failing=[0]), 0.05, writer)
    noted = Event(
        1_790_000_000_000, EventKind.ACTION, "topic", "orders", "ada (operator): elect leaders: done", "2", "1"
    )
    monitor.note(noted)
    asyncio.run(ticking(monitor, lambda: monitor.state().ticks >= 2))
    writer.close()
    assert [each for each in HistoryReader(database).events(0, 1 << 50, 100) if each.kind is EventKind.ACTION] == [
        noted
    ]
    database.close()


def test_a_history_is_of_the_cluster_that_answers_first(tmp_path: Path) -> None:
    cluster = clusters.snapshot()

    async def watched(cluster_id: str) -> None:
        database = open_history("sqlite", tmp_path)
        writer = HistoryWriter(database)
        writer.start()
        monitor = Monitor(MadeUpSource([replace(cluster, cluster_id=cluster_id)]), 0.02, writer)
        task = asyncio.create_task(monitor.run())
        try:
            await until(lambda: task.done() or writer.state.ticks > 0)
            if task.done():
                await task
        finally:
            task.cancel()
            writer.close()
            database.close()

    asyncio.run(watched(""))  # it says nothing, as none does to a history of before
    asyncio.run(watched("first"))
    with pytest.raises(HistoryError, match=r"history\.db: .* of cluster first, and cluster second answers") as told:
        asyncio.run(watched("second"))
    assert "\n" not in str(told.value)
    asyncio.run(watched("first"))
    asyncio.run(watched(""))
    database = open_history("sqlite", tmp_path)
    assert database.cluster_id == "first"
    database.close()


def test_a_tick_that_fails_keeps_the_view_and_is_told_in_one_line() -> None:
    monitor = Monitor(small_source(failing=range(1, 10_000)), 0.02)
    asyncio.run(ticking(monitor, lambda: monitor.state().failed_ticks >= 2))
    view = monitor.view()
    assert view is not None
    assert view[0].number == 0
    assert monitor.state().error == "no broker of 127.0.0.1:9 answers: connection refused"


def test_after_a_failed_tick_all_is_well_again() -> None:
    monitor = Monitor(small_source(failing=[0, 1]), 0.02)
    asyncio.run(ticking(monitor, lambda: monitor.state().ticks >= 1))
    assert monitor.state().error == ""
    assert monitor.state().failed_ticks == 2


def test_a_source_that_never_answers_costs_its_tick() -> None:
    class Silent(MadeUpSource):
        async def snapshot(self, number: int) -> Snapshot:
            await asyncio.sleep(3600)
            return await super().snapshot(number)

    monitor = Monitor(Silent([]), 0.01)
    asyncio.run(ticking(monitor, lambda: monitor.state().failed_ticks >= 1))
    assert monitor.state().error == "no snapshot within 0.01 s"
    assert monitor.state().late_ticks > 0


def test_ticks_are_shorter_while_the_bench_measures_the_cluster() -> None:
    measured = clusters.topic("highwater-01ab23cd-0-1", clusters.partition("highwater-01ab23cd-0-1"))
    source = MadeUpSource([clusters.snapshot(topics=[measured])])
    monitor = Monitor(source, 3600, bench_tick_s=0.02)
    asyncio.run(ticking(monitor, lambda: monitor.state().ticks >= 3))
    assert monitor.state().tick_s == 3600
