"""Rows of ticks: what is written, skipped, closed into buckets, deleted, and read again."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from highwater.monitor.errors import HistoryError
from highwater.monitor.events import Event, EventKind
from highwater.monitor.history.database import Database, open_history
from highwater.monitor.history.kinds import KINDS, Retention, Tier
from highwater.monitor.history.reader import About, HistoryReader, metrics_of
from highwater.monitor.history.rollup import close_buckets, delete_old, keep_below
from highwater.monitor.history.tables import ROWS
from highwater.monitor.history.tick import Tick
from highwater.monitor.history.writer import HistoryWriter, TickWriter
from tests.monitor.history.ticks import HOUR_MS, MINUTE_MS, START_MS, point_values, tick
from tests.waiting import wait_until

TICK_MS = 15_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_history("sqlite", tmp_path)
    yield opened
    opened.close()


def rows_in(database: Database, kind: str, tier: Tier = Tier.RAW) -> int:
    with database.reading.connect() as connection:
        return connection.scalar(select(func.count()).select_from(ROWS[kind, tier])) or 0


def test_a_value_that_does_not_change_is_written_once_in_a_heartbeat(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(41):
        writer.write(tick(START_MS + number * TICK_MS))
    assert rows_in(database, "topic") == 3  # at 0, 5 and 10 minutes
    assert rows_in(database, "cluster") == 41


def test_a_line_through_the_rows_is_what_was_seen(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(10):
        writer.write(tick(START_MS + number * TICK_MS, lag=0 if number < 8 else 100))
    series = HistoryReader(database).series("group", "billing", "lag", START_MS, START_MS + HOUR_MS)
    expected = [(0, 0.0), (7, 0.0), (8, 100.0)]
    # Number 9 is as number 8 is, and not written.
    assert point_values(series.points) == [(START_MS + number * TICK_MS, lag) for number, lag in expected]


def test_a_tick_of_many_rows_is_written_whole(database: Database) -> None:
    writer = TickWriter(database)
    assert writer.write(tick(START_MS, partitions=2_500)) >= 2_500
    assert rows_in(database, "partition") == 2_500
    assert len(HistoryReader(database).names("partition", most=5_000)) == 2_500


def test_rows_of_partitions_are_five_minutes_apart(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(81):
        writer.write(tick(START_MS + number * TICK_MS, end_offsets=number, partitions=4))
    assert rows_in(database, "partition") == 4 * 5
    series = HistoryReader(database).series("partition", "orders-2", "end_offset", START_MS, START_MS + HOUR_MS)
    assert point_values(series.points) == [(START_MS + each * 5 * MINUTE_MS, each * 20.0) for each in range(5)]


def test_a_kind_of_which_a_tick_says_nothing_is_not_gone(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(41):
        found = tick(START_MS + number * TICK_MS, partitions=0 if number % 20 else 4)
        writer.write(replace(found, silent=["partition"] if number % 20 else []))
    assert rows_in(database, "partition") == 4  # nothing changed since the first tick
    writer.write(tick(START_MS + 41 * TICK_MS))
    writer.write(tick(START_MS + 60 * TICK_MS, partitions=4))
    assert rows_in(database, "partition") == 8  # they were gone, and came back


def test_buckets_hold_minimum_maximum_average_over_time_and_last_values(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(41):
        lag = 40 if number == 10 else 0  # a quarter of a minute of five
        writer.write(tick(START_MS + number * TICK_MS, end_offsets=number * 100, lag=lag, verdict=f"V{number}"))
    close_buckets(database, START_MS + 41 * TICK_MS)
    with database.reading.connect() as connection:
        table = ROWS["group", Tier.MINUTES]
        first, second = connection.execute(select(table).order_by(table.c.t)).mappings().all()
        topics = connection.execute(select(ROWS["topic", Tier.MINUTES])).mappings().all()
    assert (first["lag_min"], first["lag_max"]) == (0, 40)
    assert first["lag"] == pytest.approx(40 * TICK_MS / (5 * MINUTE_MS))
    assert (first["verdict"], second["verdict"]) == ("V19", "V39")
    assert (second["lag"], second["lag_max"]) == (0, 0)
    assert [row["end_offsets"] for row in topics] == [1900, 3900]


def test_closing_buckets_again_changes_nothing(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(300):
        writer.write(tick(START_MS + number * TICK_MS, end_offsets=number, lag=number % 7))
    now_ms = START_MS + 300 * TICK_MS
    close_buckets(database, now_ms)
    tables = [ROWS[kind, tier] for kind, tier in ROWS if tier is not Tier.RAW]
    with database.reading.connect() as connection:
        before = [connection.execute(select(table)).all() for table in tables]
    assert sum(map(len, before)) == 3 * (15 + 1)
    close_buckets(database, now_ms)
    with database.reading.connect() as connection:
        assert [connection.execute(select(table)).all() for table in tables] == before


def test_a_series_joins_tiers_and_counters_lose_no_rate(database: Database) -> None:
    """What the raw tier has no more comes from the coarser ones, and the newest points from the finest."""
    writer = TickWriter(database)
    hours = 6
    ticks = hours * HOUR_MS // MINUTE_MS
    for number in range(ticks + 1):
        writer.write(tick(START_MS + number * MINUTE_MS, end_offsets=number * 600))
    now_ms = START_MS + ticks * MINUTE_MS
    close_buckets(database, now_ms)
    delete_old(database, Retention(raw_ms=HOUR_MS, minutes_ms=3 * HOUR_MS), now_ms)
    reader = HistoryReader(database)
    assert reader.series("topic", "orders", "end_offsets", now_ms - HOUR_MS // 2, now_ms).tier is Tier.RAW
    assert reader.series("topic", "orders", "end_offsets", now_ms - 2 * HOUR_MS, now_ms).tier is Tier.MINUTES
    series = reader.series("topic", "orders", "end_offsets.rate", START_MS, now_ms)
    assert series.tier is Tier.HOURS
    assert [point.value for point in series.points] == pytest.approx([10.0] * len(series.points))
    assert series.points[-1].at_ms == now_ms


def test_most_points_keep_the_extremes(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(400):
        writer.write(tick(START_MS + number * TICK_MS, lag=500 if number == 333 else number % 3))
    series = HistoryReader(database).series("group", "billing", "lag", START_MS, START_MS + 400 * TICK_MS, 50)
    assert 40 <= len(series.points) <= 51
    assert max(point.high or 0 for point in series.points) == 500
    assert min(point.low or 0 for point in series.points) == 0


def test_a_time_in_which_nothing_was_seen_is_a_gap(database: Database) -> None:
    writer = TickWriter(database)
    writer.write(tick(START_MS, lag=1))
    writer.write(tick(START_MS + 2 * HOUR_MS, lag=2))
    series = HistoryReader(database).series("group", "billing", "lag", START_MS, START_MS + 2 * HOUR_MS)
    assert [point.value for point in series.points] == [1, None, 2]


def test_a_topic_made_again_is_another_series_and_no_negative_rate(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(4):
        again = number >= 2
        writer.write(
            tick(START_MS + number * TICK_MS, end_offsets=number * 150, topic_id="id-2" if again else "id-1")
            if not again
            else tick(START_MS + number * TICK_MS, end_offsets=(number - 2) * 15, topic_id="id-2")
        )
    series = HistoryReader(database).series("topic", "orders", "end_offsets.rate", START_MS, START_MS + HOUR_MS)
    assert [point.value for point in series.points] == [10.0, None, 1.0]


def test_a_clock_that_steps_back_loses_nothing_and_is_an_event(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(41):
        writer.write(tick(START_MS + number * TICK_MS, lag=5))
    writer.maintain(START_MS + 41 * TICK_MS)
    back_ms = START_MS + 2 * MINUTE_MS
    for number in range(41):
        writer.write(tick(back_ms + number * TICK_MS, lag=9))
    writer.maintain(back_ms + 41 * TICK_MS)
    reader = HistoryReader(database)
    (event,) = reader.events(START_MS)
    assert event.kind is EventKind.CLOCK_STEP
    assert "went back by 480.000 s" in event.text
    points = reader.series("group", "billing", "lag", START_MS, START_MS + HOUR_MS).points
    assert {point.value for point in points} == {5.0, 9.0}
    with database.reading.connect() as connection:
        table = ROWS["group", Tier.MINUTES]
        highest = connection.execute(select(table.c.lag_max).order_by(table.c.t)).scalars().all()
    assert highest == [9.0, 9.0]


def test_the_largest_size_takes_the_oldest_rows_first(database: Database) -> None:
    writer = TickWriter(database)
    for number in range(2000):
        writer.write(tick(START_MS + number * TICK_MS, end_offsets=number, lag=number))
    now_ms = START_MS + 2000 * TICK_MS
    close_buckets(database, now_ms)
    size_bytes = database.size_bytes
    assert keep_below(database, size_bytes // 2)
    assert database.size_bytes <= size_bytes // 2
    with database.reading.connect() as connection:
        assert connection.exec_driver_sql("pragma freelist_count").scalar() == 0
    spans = {span.tier: span for span in HistoryReader(database).sizes().tiers}
    assert spans[Tier.RAW].newest_ms == START_MS + 1999 * TICK_MS
    assert spans[Tier.RAW].oldest_ms > START_MS
    assert not keep_below(database, size_bytes // 2)
    assert keep_below(database, 1)  # cannot be reached: the last hour stays
    assert rows_in(database, "group") >= HOUR_MS // TICK_MS


def test_events_come_newest_first_and_by_kind(database: Database) -> None:
    writer = TickWriter(database)
    first = Event(START_MS, EventKind.ISR_SHRINK, "partition", "orders-1", "it shrank", "2", "")
    second = Event(START_MS + 5, EventKind.TOPIC_CREATED, "topic", "<b>", "made", "", "x")
    writer.write(tick(START_MS + 5, events=[first, second]))
    reader = HistoryReader(database)
    assert reader.events(START_MS) == [second, first]
    assert reader.events(START_MS, most=1) == [second]
    assert reader.events(START_MS, kinds=[EventKind.ISR_SHRINK]) == [first]
    assert reader.events(START_MS + 1) == [second]
    assert reader.events(START_MS, START_MS) == [first]


def test_an_unknown_metric_is_named_with_the_nearest_one(database: Database) -> None:
    reader = HistoryReader(database)
    with pytest.raises(HistoryError, match=r"no metric laag of a group; did you mean lag\?"):
        reader.series("group", "g", "laag", 0, 1)
    with pytest.raises(HistoryError, match=r"no kind topics; did you mean topic\?"):
        reader.series("topics", "g", "lag", 0, 1)
    assert reader.series("group", "nobody", "lag", 0, START_MS).points == ()
    assert "end_offsets.rate" in metrics_of("topic")
    assert all(metrics_of(kind) for kind in KINDS)


def test_a_restart_goes_on_with_the_same_entities(tmp_path: Path) -> None:
    for begin in (0, 10):
        database = open_history("sqlite", tmp_path)
        writer = TickWriter(database)
        for number in range(begin, begin + 10):
            writer.write(tick(START_MS + number * TICK_MS, end_offsets=number * 150))
        database.close()
    database = open_history("sqlite", tmp_path)
    series = HistoryReader(database).series("topic", "orders", "end_offsets.rate", START_MS, START_MS + HOUR_MS)
    assert [point.value for point in series.points] == [10.0] * 19
    database.close()


@pytest.mark.parametrize("minutes", [2, 4, 10])
def test_soon_after_the_start_of_a_monitor_every_tick_is_shown(database: Database, minutes: int) -> None:
    """A bucket that closes then begins before the first tick, and has less than the ticks."""
    writer = TickWriter(database)
    begin_ms = START_MS - minutes * MINUTE_MS // 2
    times = [begin_ms + number * TICK_MS for number in range(4 * minutes + 1)]
    for at_ms in times:
        writer.write(tick(at_ms, lag=at_ms % 977))
        writer.maintain(at_ms)
    writer.maintain(times[-1] + HOUR_MS)
    assert rows_in(database, "group", Tier.HOURS)
    for span_ms in (HOUR_MS, 24 * HOUR_MS):
        series = HistoryReader(database).series("group", "billing", "lag", times[-1] - span_ms, times[-1], 100_000)
        assert series.tier is Tier.RAW
        assert [point.at_ms for point in series.points] == times


def test_events_about_a_thing_are_its_own_and_those_that_concern_all(database: Database) -> None:
    told = {
        "own": Event(START_MS, EventKind.CONFIG_CHANGE, "topic", "orders", "own"),
        "partition": Event(START_MS, EventKind.LEADER_CHANGE, "partition", "orders-3", "partition", "2", "1"),
        "longer name": Event(START_MS, EventKind.LEADER_CHANGE, "partition", "orders-new-3", "longer name", "3", "4"),
        "capital": Event(START_MS, EventKind.ISR_SHRINK, "partition", "Orders-3", "capital", "2"),
        "all": Event(START_MS, EventKind.BROKER_GONE, "broker", "9", "all"),
        "group": Event(START_MS, EventKind.GROUP_REBALANCE, "group", "billing", "group"),
    }
    TickWriter(database).write(tick(START_MS, events=list(told.values())))
    reader = HistoryReader(database)

    def about(*names: tuple[str, str]) -> set[str]:
        return {event.text for event in reader.events(START_MS, about=About(names))}

    assert about(("topic", "orders")) == {"own", "partition", "all"}
    assert about(("group", "billing"), ("topic", "orders-new")) == {"group", "longer name", "all"}
    assert about(("broker", "2")) == {"partition", "capital", "all"}
    assert about(("cluster", "c")) == set(told)


class Rows(dict[str, Any]):
    """A mapping whose end can be seen."""


def test_a_tick_that_is_written_is_not_kept_until_the_next_one(tmp_path: Path) -> None:
    """Of a large cluster it takes as much memory as the snapshot that is made meanwhile."""
    database = open_history("sqlite", tmp_path)
    writer = HistoryWriter(database)
    writer.start()
    try:
        rows = Rows(tick(START_MS, partitions=3).rows)
        kept = weakref.ref(rows)
        writer.submit(Tick(START_MS, rows))
        del rows
        wait_until(lambda: writer.state.ticks == 1, "the tick to be written")
        wait_until(lambda: kept() is None, "the rows of the tick to be freed")
    finally:
        writer.close()
        database.close()
