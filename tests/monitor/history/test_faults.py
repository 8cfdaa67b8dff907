"""Faults of the history: locked, full, damaged, newer, of another monitor, killed in a write."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select

from highwater.monitor.errors import HistoryError
from highwater.monitor.events import Event, EventKind
from highwater.monitor.figures.cluster import derive
from highwater.monitor.history.database import FILE_NAME, Database, open_history, open_to_read
from highwater.monitor.history.kinds import Retention, Tier
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.history.rollup import delete_old, keep_below
from highwater.monitor.history.rows import rows_of
from highwater.monitor.history.tables import ROWS
from highwater.monitor.history.tick import Tick
from highwater.monitor.history.writer import HistoryWriter, TickWriter
from tests.database_servers import PASSWORD, PASSWORD_IN_URL, running_postgresql
from tests.monitor import clusters
from tests.monitor.history.ticks import HOUR_MS, START_MS, tick
from tests.waiting import wait_until

TICK_MS = 15_000
EVENT = Event(START_MS, EventKind.BROKER_GONE, "broker", "2", "broker 2 is gone")


def test_a_locked_file_pauses_the_history_and_no_event_is_lost(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    writer = HistoryWriter(database)
    writer.start()
    try:
        with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as other:
            other.execute("begin immediate")
            writer.submit(tick(START_MS, events=[EVENT]))
            wait_until(lambda: writer.state.paused_since_ms is not None, "the pause")
            assert writer.state.paused_since_ms == START_MS
            assert writer.state.reason == "database is locked"
            assert writer.state.missed_ticks == 1
            other.execute("rollback")
        writer.submit(tick(START_MS + TICK_MS))
        wait_until(lambda: writer.state.written_ms == START_MS + TICK_MS, "the next tick")
        after = writer.state
        assert (after.paused_since_ms, after.reason, after.note) == (None, "", "")
        assert HistoryReader(database).events(START_MS) == [EVENT]
    finally:
        writer.close()
        database.close()


def test_a_full_file_pauses_the_history_until_there_is_room(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    writer = HistoryWriter(database)
    with database.writing.connect() as connection:
        connection.exec_driver_sql("pragma max_page_count = 1")  # as many as it has
    writer.start()
    number = 0

    def is_paused() -> bool:
        nonlocal number
        number += 1
        names = [Event(START_MS, EventKind.GROUP_NEW, "group", f"g{number}-{each}", "x" * 400) for each in range(20)]
        writer.submit(tick(START_MS + number * TICK_MS, end_offsets=number, events=names))
        return writer.state.paused_since_ms is not None

    try:
        wait_until(is_paused, "the pause")
        assert "full" in writer.state.reason
        assert HistoryReader(database).sizes().size_bytes > 0  # readers go on
        with database.writing.connect() as connection:
            connection.exec_driver_sql("pragma max_page_count = 100000")
        number += 1
        writer.submit(tick(START_MS + number * TICK_MS))
        wait_until(lambda: writer.state.written_ms == START_MS + number * TICK_MS, "the next tick")
        assert writer.state.paused_since_ms is None
        events = HistoryReader(database).events(START_MS, most=100_000)
        assert len({event.name for event in events}) == 20 * (number - 1)
    finally:
        writer.close()
        database.close()


@pytest.mark.parametrize("damage", ["overwritten", "cut", "another file"])
def test_a_damaged_file_is_set_aside_and_never_deleted(tmp_path: Path, damage: str) -> None:
    database = open_history("sqlite", tmp_path)
    writer = TickWriter(database)
    for number in range(300):
        writer.write(tick(START_MS + number * TICK_MS, end_offsets=number, lag=number))
    database.close()
    file = tmp_path / FILE_NAME
    data = bytearray(file.read_bytes())
    if damage == "overwritten":
        data[8192 : 8192 + 20_000] = random.Random(1).randbytes(20_000)
    elif damage == "cut":
        del data[len(data) // 2 :]
    else:
        data = bytearray(b"not a database at all\n" * 300)
    file.write_bytes(data)
    database = open_history("sqlite", tmp_path)
    try:
        assert database.set_aside is not None
        assert database.set_aside.read_bytes() == data
        assert "set aside as " in HistoryWriter(database).state.note
        TickWriter(database).write(tick(START_MS))
        assert len(HistoryReader(database).names("topic")) == 1
    finally:
        database.close()


def test_a_history_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    open_history("sqlite", tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("update about set value = '99' where name = 'schema_version'")
        connection.commit()
    for opening in (open_history, open_to_read):
        with pytest.raises(HistoryError, match=r"a newer Highwater wrote this history \(schema 99") as raised:
            opening("sqlite", tmp_path)
        assert "\n" not in str(raised.value)
    assert [each.name for each in tmp_path.glob("*damaged*")] == []


def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("create table about (name text, value text)")
        connection.commit()
    with pytest.raises(HistoryError, match="tables of another program"):
        open_history("sqlite", tmp_path)


def test_two_monitors_do_not_write_one_history(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    with pytest.raises(HistoryError, match="another monitor writes this history"):
        open_history("sqlite", tmp_path)
    open_to_read("sqlite", tmp_path).close()
    database.close()
    open_history("sqlite", tmp_path).close()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("mysql://u:secret@h/d", "cannot be kept in mysql"),
        ("postgres://u:secret@h/d", "cannot be kept in postgres; did you mean postgresql?"),
        ("sqlite://", "names no file"),
        ("nonsense", "not a URL"),
        ("postgresql://u:secret@127.0.0.1:1/d", "cannot open the history"),
    ],
)
def test_an_address_that_cannot_work_is_told_without_its_password(tmp_path: Path, address: str, says: str) -> None:
    with pytest.raises(HistoryError) as raised:
        open_history(address, tmp_path)
    assert says in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot keep the history there"):
        open_history("sqlite", tmp_path / "file" / "data")
    with pytest.raises(HistoryError, match="there is no history"):
        open_to_read("sqlite", tmp_path)


def hostile_tick(at_ms: int) -> Tick:
    names = (*clusters.HOSTILE_NAMES, "a\0b", "half \ud800 of a character", "\0", "")
    partition = ("orders", 0)
    snapshot = clusters.snapshot(
        topics=[clusters.topic("orders", clusters.partition("orders", end=9))],
        groups=[clusters.group(name, {partition: 4}, clusters.member(name, partition)) for name in names],
    )
    event = Event(at_ms, EventKind.GROUP_NEW, "group", "a\0b", "a\0b appeared", "\ud800", "\0")
    return Tick(at_ms, rows_of(snapshot, derive([snapshot])), [event])


def check_hostile_names(database: Database) -> None:
    for at_ms in (START_MS, START_MS + TICK_MS):
        # A writer of its own, as after a restart: names are found again.
        TickWriter(database).write(hostile_tick(at_ms))
    reader = HistoryReader(database)
    assert len(reader.names("group")) == len(clusters.HOSTILE_NAMES) + 4
    for name in (*clusters.HOSTILE_NAMES, "a\0b", "half \ud800 of a character"):
        points = reader.series("group", name, "lag", START_MS, START_MS + TICK_MS).points
        assert {point.value for point in points} == {5.0}
    assert [event.name for event in reader.events(START_MS)] == ["a\u2400b"] * 2


def test_names_that_a_database_cannot_take_stop_nothing(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    check_hostile_names(database)
    database.close()


def test_a_fault_that_nobody_thought_of_pauses_the_history_alone(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    writer = HistoryWriter(database)
    writer.start()
    writer.submit(tick(START_MS, end_offsets=2**2000))
    wait_until(lambda: writer.state.paused_since_ms is not None, "the pause")
    writer.submit(tick(START_MS + TICK_MS))
    wait_until(lambda: writer.state.written_ms == START_MS + TICK_MS, "the next tick")
    writer.close()
    database.close()


WRITES_UNTIL_KILLED = """
import sys
from pathlib import Path
from highwater.monitor.history.database import open_history
from highwater.monitor.history.writer import TickWriter
from tests.monitor import clusters
from tests.database_servers import PASSWORD, PASSWORD_IN_URL, running_postgresql
from tests.monitor.history.ticks import START_MS, tick
writer = TickWriter(open_history("sqlite", Path(sys.argv[1])))
number = int(sys.argv[2])
while True:
    number += 1
    at_ms = START_MS + number * 15_000
    writer.write(tick(at_ms, end_offsets=number, lag=number, partitions=50))
    print(number, flush=True)
    writer.maintain(at_ms)
"""


@pytest.mark.slow
def test_kill_9_at_any_moment_loses_at_most_one_tick(tmp_path: Path) -> None:
    chance = random.Random(24)
    safe = 0
    for _ in range(12):
        command = [sys.executable, "-c", WRITES_UNTIL_KILLED, str(tmp_path), str(safe)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            printed = [int(process.stdout.readline()) for _ in range(chance.randint(1, 120))]
            os.kill(process.pid, signal.SIGKILL)
            printed += [int(line) for line in process.stdout.read().split("\n")[:-1]]
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        database = open_history("sqlite", tmp_path)
        assert database.set_aside is None
        with database.reading.connect() as connection:
            cluster, topic, group = (ROWS[kind, Tier.RAW] for kind in ("cluster", "topic", "group"))
            newest = connection.scalar(select(func.max(cluster.c.t)))
            # A tick is there as a whole, or not at all.
            assert connection.scalar(select(func.max(topic.c.t))) == newest
            assert connection.scalar(select(func.max(group.c.t))) == newest
            count = connection.scalar(select(func.count()).select_from(cluster))
        database.close()
        assert newest is not None
        written = (newest - START_MS) // TICK_MS
        assert printed[-1] <= written <= printed[-1] + 1
        assert count == written  # every tick of before is there
        safe = written
    assert safe * TICK_MS > HOUR_MS  # buckets of hours were closed too


@pytest.mark.slow
def test_postgresql_by_its_address_keeps_the_same_history(tmp_path: Path) -> None:
    with running_postgresql(tmp_path) as server:
        database = open_history(server.url, tmp_path)
        assert database.file is None
        assert "@" in database.shown
        assert PASSWORD not in database.shown
        assert PASSWORD_IN_URL not in database.shown
        check_hostile_names(database)
        delete_old(database, Retention(0, 0, 0, 0), START_MS + HOUR_MS)
        writer = TickWriter(database)
        for number in range(500):
            now_ms = START_MS + number * TICK_MS
            writer.write(tick(now_ms, end_offsets=number * 150, lag=number % 5, partitions=3, events=[EVENT]))
            writer.maintain(now_ms)
        reader = HistoryReader(database)
        assert len(reader.events(START_MS, most=1000)) == 500
        rates = reader.series("topic", "orders", "end_offsets.rate", START_MS, now_ms, 10_000).points
        assert {point.value for point in rates} == {10.0}
        lags = reader.series("group", "billing", "lag", START_MS, now_ms, 20).points
        assert {(point.low, point.high) for point in lags} == {(0.0, 4.0)}
        assert reader.sizes().size_bytes > 100_000
        delete_old(database, Retention(raw_ms=HOUR_MS), now_ms)
        far = reader.series("group", "billing", "lag", START_MS, now_ms)
        assert far.tier is Tier.MINUTES
        assert keep_below(database, 1)
        thread = HistoryWriter(database)
        thread.start()
        try:
            server.kill()
            thread.submit(tick(now_ms + TICK_MS))
            wait_until(lambda: thread.state.paused_since_ms is not None, "the pause")
            assert PASSWORD not in thread.state.reason
            server.start()
            thread.submit(tick(now_ms + 2 * TICK_MS))
            wait_until(lambda: thread.state.written_ms == now_ms + 2 * TICK_MS, "the next tick")
        finally:
            thread.close()
            database.close()
        open_to_read(server.url, tmp_path).close()


def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = open_history("sqlite", tmp_path)
    finally:
        os.umask(before)
    try:
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert FILE_NAME in modes
        assert set(modes.values()) == {0o600}
    finally:
        database.close()
