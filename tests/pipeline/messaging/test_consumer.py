"""The retrying consumer on a running broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.brake import FloodBrake
from highwater.pipeline.messaging.consumer import Handler, RetryingConsumer
from highwater.pipeline.messaging.delivery import Delivery
from highwater.pipeline.messaging.errors import MessagingError
from highwater.pipeline.messaging.policy import Reject, Retry
from tests.pipeline.source.topics import DEADLINE_S, Topics
from tests.waiting import wait_until

pytestmark = pytest.mark.clients


@contextmanager
def consuming(topics: Topics, topic: str, handle: Handler, **options: Any) -> Iterator[RetryingConsumer]:
    consumer = RetryingConsumer(topics.address, topic, f"{topic}-group", handle, **options)
    failed: list[Exception] = []

    def run() -> None:
        try:
            consumer.run()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield consumer
    finally:
        consumer.stop()
        thread.join()
    if failed:
        raise failed[0]


def produce(topics: Topics, topic: str, *values: str, key: str | None = None) -> None:
    producer = Producer({"bootstrap.servers": topics.address, "partitioner": "murmur2_random"})
    for value in values:
        producer.produce(topic, value.encode(), (key or value[0]).encode())
    assert producer.flush(DEADLINE_S) == 0


def header(row: dict[str, Any], name: str) -> str | None:
    return next((each["value"].decode() for each in row["headers"] or () if each["key"] == name), None)


@pytest.mark.slow
def test_retries_and_dead_letters(topics: Topics) -> None:
    topics.create("orders", 2)
    seen: list[tuple[str, int]] = []

    def handle(record: Delivery) -> None:
        value = (record.value or b"").decode()
        seen.append((value, record.attempt))
        if value == "rejected":
            raise Reject("no such customer")
        if value == "poison":
            raise UnicodeError("not a text")
        if value == "once" and record.attempt == 0:
            raise ConnectionError("the database is away")
        if value == "asked" and record.attempt == 0:
            raise Retry("busy", after="400ms")
        if value == "never":
            raise ValueError("never")
        record.send("done", record.value, record.key)
        if record.attempt:
            record.send("later", record.value, after="200ms")

    topics.create("done", 1)
    topics.create("later", 1)
    produce(topics, "orders", "fine", "rejected", "once", "asked", "poison", "never")
    with consuming(topics, "orders", handle, backoff="300ms 600ms", name="a") as consumer:
        wait_until(lambda: consumer.counts["handled"] + consumer.counts["dead"] == 6, "the end of all")
        wait_until(lambda: len(topics.rows("later", read_committed=True)) == 2, "what is sent later")
    dead = topics.rows("dlq.orders.orders-group", 2, read_committed=True)
    found = sorted((row["value"], header(row, headers.DISPOSITION), header(row, headers.ATTEMPT)) for row in dead)
    assert found == [(b"never", "exhausted", "3"), (b"poison", "poison", "1"), (b"rejected", "rejected", "1")]
    assert {header(row, headers.ERROR_CLASS) for row in dead} == {"ValueError", "UnicodeError", "Reject"}
    assert sorted(row["value"] for row in topics.rows("done", read_committed=True)) == [b"asked", b"fine", b"once"]
    assert sorted(seen) == sorted(
        [("fine", 0), ("rejected", 0), ("once", 0), ("once", 1), ("asked", 0), ("asked", 1), ("poison", 0)]
        + [("never", attempt) for attempt in range(3)]
    )


def test_order_by_key(topics: Topics) -> None:
    topics.create("ordered", 2)
    seen: list[str] = []

    def handle(record: Delivery) -> None:
        value = (record.value or b"").decode()
        if value == "a1" and record.attempt < 2:
            raise ConnectionError("away")
        seen.append(value)

    with consuming(topics, "ordered", handle, ordering="key", backoff="300ms 600ms", name="b") as consumer:
        produce(topics, "ordered", "a1", "a2", "b1", "a3", "b2")
        wait_until(lambda: consumer.counts["parked"] == 2, "those behind the first")
        wait_until(lambda: "b2" in seen, "the other key")
        assert [each for each in seen if each.startswith("a")] == []
        wait_until(lambda: len(seen) == 5, "all")
    assert [each for each in seen if each.startswith("a")] == ["a1", "a2", "a3"]


def test_parked_records_wait_for_the_next_consumer(topics: Topics) -> None:
    topics.create("resumed", 1)
    seen: list[tuple[str, int]] = []

    def fail(_: Delivery) -> None:
        raise ConnectionError("away")

    with consuming(topics, "resumed", fail, ordering="key", backoff="2s", name="c") as consumer:
        produce(topics, "resumed", "a1", "a2")
        wait_until(lambda: (consumer.counts["parked"], consumer.counts["retried"]) == (1, 1), "both")

    def handle(record: Delivery) -> None:
        seen.append(((record.value or b"").decode(), record.attempt))

    with consuming(topics, "resumed", handle, ordering="key", backoff="2s", name="c"):
        wait_until(lambda: len(seen) == 2, "both again")
    assert seen == [("a1", 1), ("a2", 0)]


def test_a_flood_of_dead_letters_pauses_the_consumer(topics: Topics) -> None:
    topics.create("flood", 1)
    said: list[str] = []

    def handle(_: Delivery) -> None:
        raise Reject("all wrong")

    options = {"flood_brake": FloodBrake(10, 20), "batch_records": 10, "say": said.append, "mover": False}
    produce(topics, "flood", *(f"{number}" for number in range(100)))
    with consuming(topics, "flood", handle, **options) as consumer:
        wait_until(lambda: bool(said), "the pause")
        assert consumer.counts["dead"] == 20
    assert said == [
        "flood-group pauses for 60 s: 20 of 20 records of the last minute became dead letters (dlq.flood.flood-group)"
    ]


def test_a_filter_passes_over_records(topics: Topics) -> None:
    topics.create("filtered", 1)
    seen: list[bytes | None] = []
    produce(topics, "filtered", "a1", "b1", "a2")
    with consuming(
        topics, "filtered", lambda record: seen.append(record.value), where="key = 'a'", mover=False
    ) as consumer:
        wait_until(lambda: len(seen) == 2, "what is taken")
        wait_until(lambda: topics.committed("filtered-group", "filtered") == 3, "the offset")
        assert consumer.counts["passed_over"] == 1


def test_a_consumer_stops_where_what_follows_cannot_be_written(topics: Topics) -> None:
    topics.create("dead-end", 1)
    produce(topics, "dead-end", "a1", "b1")

    def handle(record: Delivery) -> None:
        if record.value == b"b1":
            record.send("no-such-topic", b"x")

    with (
        pytest.raises(MessagingError, match=r"dead-end/0/1: .*there is no topic no-such-topic"),
        consuming(topics, "dead-end", handle, mover=False) as consumer,
    ):
        wait_until(lambda: consumer.counts["handled"] == 2 or consumer.is_stopped, "its end")
    assert topics.committed("dead-end-group", "dead-end") == 1


def test_wrong_use(topics: Topics) -> None:
    with pytest.raises(SettingsError, match="there is no topic nothing"):
        RetryingConsumer(topics.address, "nothing", "g", print)
    with pytest.raises(SettingsError, match="ordering='keys'"):
        RetryingConsumer(topics.address, "orders", "g", print, ordering="keys")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="batch_records=0"):
        RetryingConsumer(topics.address, "orders", "g", print, batch_records=0)
