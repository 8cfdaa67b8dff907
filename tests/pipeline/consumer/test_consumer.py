"""The plain consumer: results and offsets together, failures, fenced owners, starts, losses, wrong uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from highwater.pipeline.consumer import Consumer
from highwater.pipeline.consumer.consumer import LostError
from highwater.pipeline.consumer.offsets_table import TABLE, OffsetsError, OffsetsTable
from highwater.pipeline.errors import ClientError, DatabaseError, SettingsError
from tests.pipeline.database.tables import Database
from tests.pipeline.source.topics import Topics
from tests.waiting import wait_until


class Seen:
    """Writes the offsets of records, and can be made to fail in between."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mark = database.dialect.mark
        self.fails = 0

    def create(self) -> None:
        self._database.sql("create table seen (topic_partition integer, topic_offset integer)")

    def write(self, cursor: Any, records: Sequence[Message]) -> None:
        for number, each in enumerate(records):
            cursor.execute(f"insert into seen values ({self._mark}, {self._mark})", (each.partition(), each.offset()))
            if self.fails and number == len(records) // 2:
                self.fails -= 1
                raise ZeroDivisionError

    def rows(self) -> list[tuple[int, int]]:
        return sorted((int(a), int(b)) for a, b in self._database.sql("select * from seen"))


@pytest.fixture
def seen(database: Database) -> Seen:
    found = Seen(database)
    found.create()
    return found


@contextmanager
def consumer(topics: Topics, topic: str, database: Database, **more: Any) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": topics.address, "session.timeout.ms": 30_000, "log_level": 0}
    with Consumer(settings, [topic], database.url, **{"name": topic, **more}) as opened:
        yield opened


def until_rows(reader: Consumer, seen: Seen, count: int) -> None:
    wait_until(lambda: reader.once(seen.write, wait_s=0.2) >= 0 and len(seen.rows()) >= count, f"{count} rows")


def topic_of(database: Database, name: str) -> str:
    return f"{name}-{database.kind}"


def test_it_goes_on_where_the_database_says(topics: Topics, database: Database, seen: Seen) -> None:
    topic = topic_of(database, "goes-on")
    topics.create(topic, 2)
    topics.produce(topic, 100)
    topics.produce(topic, 50, partition=1)
    with consumer(topics, topic, database, records_max=30) as reader:
        until_rows(reader, seen, 150)
    topics.produce(topic, 20)
    with consumer(topics, topic, database) as reader:
        until_rows(reader, seen, 170)
    assert seen.rows() == [(0, offset) for offset in range(120)] + [(1, offset) for offset in range(50)]
    # Tools that watch groups see the same.
    wait_until(lambda: topics.committed(topic, topic) >= 100, "the offsets of the group")


def test_a_write_that_fails(topics: Topics, database: Database, seen: Seen) -> None:
    topic = topic_of(database, "fails")
    topics.create(topic)
    topics.produce(topic, 40)
    seen.fails = 2
    with consumer(topics, topic, database) as reader:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                until_rows(reader, seen, 40)
            assert seen.rows() == []
        until_rows(reader, seen, 40)
    assert seen.rows() == [(0, offset) for offset in range(40)]


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_commit_whose_answer_is_lost(
    topics: Topics, database: Database, seen: Seen, monkeypatch: pytest.MonkeyPatch, is_carried_out: bool
) -> None:
    topic = topic_of(database, f"answer-{is_carried_out}")
    topics.create(topic)
    with consumer(topics, topic, database) as reader:
        wait_until(lambda: bool(reader._owned) or reader.once(lambda *_: 1 / 0, wait_s=0.0) > 0, "partitions")
        topics.produce(topic, 40)
        connection: Any = reader._open()
        lose = database.dialect.errors[0]("lost")

        class Loses:
            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

            def commit(self) -> None:
                connection.commit() if is_carried_out else connection.rollback()
                raise lose

        monkeypatch.setattr(reader, "_connection", Loses())
        with pytest.raises(DatabaseError, match="did not take records: lost"):
            until_rows(reader, seen, 40)
        assert len(seen.rows()) in ((0, 40) if is_carried_out else (0,))
        until_rows(reader, seen, 40)
    assert seen.rows() == [(0, offset) for offset in range(40)]


def test_an_owner_that_was_replaced_writes_nothing(topics: Topics, database: Database, seen: Seen) -> None:
    topic = topic_of(database, "fenced")
    topics.create(topic)
    topics.produce(topic, 10)
    with consumer(topics, topic, database) as old:
        until_rows(old, seen, 10)
        # As another member of the group does that is assigned the partition while this one does not notice.
        database.sql(f"update {database.dialect.quoted(TABLE)} set epoch = epoch + 1")
        topics.produce(topic, 10)
        calls: list[int] = []
        old.once(lambda _, records: calls.append(len(records)), wait_s=10.0)
        assert calls == []
        assert len(seen.rows()) == 10
        # It joins again, and has the partition by right.
        until_rows(old, seen, 20)
    assert seen.rows() == [(0, offset) for offset in range(20)]


def test_latest_is_one_place(topics: Topics, database: Database, seen: Seen) -> None:
    topic = topic_of(database, "latest")
    topics.create(topic)
    topics.produce(topic, 10)
    with consumer(topics, topic, database, start="latest") as reader:
        wait_until(lambda: reader.once(seen.write, wait_s=0.1) == 0 and bool(reader._owned), "partitions")
    topics.produce(topic, 5)
    with consumer(topics, topic, database, start="latest") as reader:
        until_rows(reader, seen, 5)
    assert seen.rows() == [(0, offset) for offset in range(10, 15)]


def test_records_that_are_gone(topics: Topics, database: Database, seen: Seen) -> None:
    topic = topic_of(database, "gone")
    topics.create(topic)
    topics.produce(topic, 10)
    with consumer(topics, topic, database) as reader:
        until_rows(reader, seen, 10)
    topics.produce(topic, 10)
    topics.delete_records(topic, 15)
    with consumer(topics, topic, database) as reader, pytest.raises(LostError, match="retention removed records"):
        until_rows(reader, seen, 20)
    assert len(seen.rows()) == 10


def test_a_topic_that_was_created_again(topics: Topics, database: Database, seen: Seen) -> None:
    topic = topic_of(database, "again")
    topics.create(topic)
    topics.produce(topic, 10)
    with consumer(topics, topic, database) as reader:
        until_rows(reader, seen, 10)
    topics.delete(topic)
    topics.create(topic)
    topics.produce(topic, 30)
    with (
        consumer(topics, topic, database) as reader,
        pytest.raises(OffsetsError, match="was deleted and created again"),
    ):
        until_rows(reader, seen, 20)
    assert len(seen.rows()) == 10


def test_a_topic_that_is_created_again_under_a_running_consumer(topics: Topics, database: Database, seen: Seen) -> None:
    """librdkafka would read on at offset 20 of the new topic, and nobody would miss the records before."""
    topic = topic_of(database, "under")
    topics.create(topic)
    topics.produce(topic, 20)
    with consumer(topics, topic, database) as reader:
        until_rows(reader, seen, 20)
        topics.delete(topic)
        wait_until(lambda: not topics.exists(topic), "the topic is gone")
        topics.create(topic)
        topics.produce(topic, 30)
        with pytest.raises(OffsetsError, match=f"topic {topic} was deleted and created again"):
            until_rows(reader, seen, 21)
    assert len(seen.rows()) == 20


def test_records_wait_while_no_broker_says_which_topic_they_are_of(
    topics: Topics, database: Database, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topic_of(database, "unsaid")
    topics.create(topic)
    topics.produce(topic, 20)
    with consumer(topics, topic, database) as reader:
        known = reader._topic_ids
        failures = [KafkaError._TRANSPORT, KafkaError._TIMED_OUT]

        def first_failing(names: set[str]) -> dict[str, str]:
            if reader._owned and failures:
                raise KafkaException(KafkaError(failures.pop()))
            return known(names)

        monkeypatch.setattr(reader, "_topic_ids", first_failing)
        until_rows(reader, seen, 20)
    assert not failures
    assert seen.rows() == [(0, offset) for offset in range(20)]


def test_a_longer_silence_of_all_brokers_is_no_other_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of librdkafka's admin client lasts for 60 s by default, and the callers wait for 30 s."""
    monkeypatch.setattr("highwater.pipeline.consumer.consumer._ANSWER_S", 0.2)
    settings = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    with Consumer(settings, ["orders"], f"sqlite:{tmp_path}/a.db", name="x") as reader:
        record: Any = SimpleNamespace(topic=lambda: "orders")
        assert not reader._is_of_known_topics([record])
        with pytest.raises(ClientError, match=r"^consumer x: "):
            reader._take([("orders", 0)])


def test_offsets_of_another_version(topics: Topics, database: Database, seen: Seen) -> None:
    topic = topic_of(database, "version")
    topics.create(topic)
    topics.produce(topic, 10)
    with consumer(topics, topic, database) as reader:
        until_rows(reader, seen, 10)
    database.sql(f"update {database.dialect.quoted(TABLE)} set schema_version = 2")
    with consumer(topics, topic, database) as reader, pytest.raises(OffsetsError, match="has schema version 2"):
        until_rows(reader, seen, 20)


def test_the_longest_names(database: Database) -> None:
    offsets, of = OffsetsTable(database.dialect, "n" * 200), ("t" * 249, 0)
    connection = database.dialect.connect()
    cursor = connection.cursor()
    offsets.create(cursor)
    connection.commit()
    offsets.take(cursor, of)
    assert offsets.locked(cursor, of).epoch == 1
    connection.rollback()
    connection.close()


@pytest.mark.parametrize(
    ("settings", "more", "sentence"),
    [
        ({"auto.offset.reset": "earliest"}, {}, "auto.offset.reset cannot be set: give start"),
        ({"group.id": "x"}, {}, "group.id cannot be set: it is the name"),
        (
            {"bootstrap.server": "x"},
            {},
            'the settings of the consumer cannot work: No such configuration property: "boot',
        ),
        ({}, {"start": "middle"}, "start=middle is neither earliest nor latest"),
        ({}, {"topics": "orders"}, "topics is a list of names"),
        ({}, {"url": "sqlite:/nowhere/a.db"}, "there is no folder /nowhere"),
        ({}, {"name": "x "}, "the name of a consumer has no space at its end"),
    ],
)
def test_wrong_uses(tmp_path: Any, settings: dict[str, Any], more: dict[str, Any], sentence: str) -> None:
    given: dict[str, Any] = {"topics": ["orders"], "url": f"sqlite:{tmp_path}/a.db", "name": "x", **more}
    with pytest.raises(SettingsError, match=sentence):
        Consumer({"bootstrap.servers": "127.0.0.1:1", **settings}, **given)
