"""The mover on a running broker: on time, in order, once; what cannot be delivered does not hold up the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging import topics as messaging_topics
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.delay import delay
from highwater.pipeline.messaging.errors import MessagingError
from highwater.pipeline.messaging.levels import WHEEL, WHEEL_SLOTS
from highwater.pipeline.messaging.mover import Mover
from highwater.pipeline.messaging.record import Outgoing
from tests.pipeline.source.topics import DEADLINE_S, Topics
from tests.waiting import wait_until

pytestmark = pytest.mark.clients


@contextmanager
def moving(topics: Topics, said: list[str] | None = None, name: str | None = "only") -> Iterator[Mover]:
    mover = Mover({"bootstrap.servers": topics.address}, name=name, say=(said if said is not None else []).append)
    stopped = threading.Event()
    thread = threading.Thread(target=mover.run, args=(stopped,))
    thread.start()
    try:
        yield mover
    finally:
        stopped.set()
        thread.join()
        mover.close()


def send(topics: Topics, *outgoing: Outgoing) -> None:
    producer = Producer({"bootstrap.servers": topics.address, "partitioner": "murmur2_random"})
    for each in outgoing:
        producer.produce(**each.arguments())
    assert producer.flush(DEADLINE_S) == 0


def test_records_are_delivered_when_they_are_due(topics: Topics) -> None:
    topics.create("bills", 1)
    with moving(topics):
        start_ms = now_ms()
        due = {b"%d" % number: start_ms + 300 + 37 * number for number in range(60)}
        send(topics, *(delay("bills", value, b"k", due_ms=due_ms) for value, due_ms in due.items()))
        wait_until(lambda: len(topics.rows("bills", read_committed=True)) == len(due), "the delayed records")
    rows = topics.rows("bills", read_committed=True)
    assert sorted(int(row["value"]) for row in rows) == list(range(60))
    found = [{each["key"]: each["value"] for each in row["headers"]} for row in rows]
    assert [int(each[headers.DUE_MS]) for each in found] == [due[row["value"]] for row in rows]
    assert topics.committed("highwater-mover", "hw.delay.1s") > 0
    assert any(topics.committed("highwater-mover", WHEEL, slot) > 0 for slot in range(WHEEL_SLOTS))


def test_what_cannot_be_delivered_does_not_hold_up_others(topics: Topics) -> None:
    topics.create("small", 1, max_message_bytes="2000")
    topics.create("fine", 1)
    due_ms = now_ms() + 1100
    said: list[str] = []
    send(
        topics,
        delay("nowhere", b"1", b"k", due_ms=due_ms),
        delay("small", b"x" * 5000, b"k", due_ms=due_ms),
        delay("fine", b"2", b"k", due_ms=due_ms),
        delay("fine", b"3", b"k", due_ms=due_ms),
    )
    with moving(topics, said):
        wait_until(lambda: len(topics.rows("fine", read_committed=True)) == 2, "those behind")
    assert [row["value"] for row in topics.rows("fine", read_committed=True)] == [b"2", b"3"]
    dead = topics.rows("dlq.hw.delay.highwater-mover", read_committed=True)
    reasons = sorted(str(each["value"]) for row in dead for each in row["headers"] if each["key"] == headers.ERROR)
    assert len(reasons) == 2
    assert "no topic nowhere" in reasons[1]
    assert len(said) >= 2


def test_moved_records_are_deleted_later(topics: Topics) -> None:
    topics.create("trimmed", 1)
    mover = Mover({"bootstrap.servers": topics.address}, name="only", keep_ms=1)
    slots = [(WHEEL, slot) for slot in range(WHEEL_SLOTS)]
    admin = messaging_topics.Topics({"bootstrap.servers": topics.address})
    before = admin.starts(slots)
    try:
        send(topics, *(delay("trimmed", b"x", b"k", due_ms=now_ms() + 100) for _ in range(5)))
        wait_until(lambda: mover.step(0.1) >= 0 and mover.moved_count == 5, "the moves")
        mover.trim()
        assert sum(admin.starts(slots).values()) >= sum(before.values()) + 5
        assert len(topics.rows("trimmed", read_committed=True)) == 5
    finally:
        mover.close()


@pytest.mark.slow
def test_a_second_mover_of_a_name_ends_the_first(topics: Topics) -> None:
    client = {"bootstrap.servers": topics.address}
    first = Mover(client, name="same", say=print)
    wait_until(lambda: first.step(0.1) >= 0 and first.has_partitions, "its partitions")
    second = Mover(client, name="same", say=print)
    try:
        topics.create("later", 1)
        send(topics, delay("later", b"1", b"k", due_ms=now_ms() + 200))
        with pytest.raises(MessagingError, match="another one of this name"):
            wait_until(lambda: first.step(0.1) < 0 or second.step(0.1) < 0, "the end of the first")
    finally:
        first.close()
        second.close()
