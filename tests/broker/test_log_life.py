"""The life of a log in a running broker: retention and deleted records, with stock clients and kill -9."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.broker.running import RunningBroker, running_broker, start_broker

pytestmark = pytest.mark.clients

DEADLINE_S = 20.0


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.05)


def create(broker: RunningBroker, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(DEADLINE_S)


def produce(broker: RunningBroker, topic: str, count: int, *, timestamp_ms: int = 0, size: int = 200) -> None:
    failures: list[KafkaError] = []
    # One record in a batch, so that segments are as many as their size says.
    producer = Producer({"bootstrap.servers": broker.address, "batch.num.messages": 1})
    for i in range(count):
        producer.produce(
            topic,
            b"%d " % i + b"x" * size,
            partition=0,
            timestamp=timestamp_ms,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(DEADLINE_S) == 0
    assert failures == []


def watermarks(broker: RunningBroker, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "unused"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S, cached=False)
        return low, high
    finally:
        consumer.close()


def test_retention_deletes_whole_segments_and_their_files(tmp_path: Path) -> None:
    properties = ("log.retention.check.interval.ms=200", "log.segment.delete.delay.ms=300")
    with running_broker(tmp_path / "log", properties=properties) as broker:
        create(broker, "old", segment_bytes="5000", retention_ms="3600000")
        produce(broker, "old", 50, timestamp_ms=int(time.time() * 1000) - 7_200_000)
        create(broker, "big", segment_bytes="5000", retention_bytes="8000")
        produce(broker, "big", 100)
        create(broker, "kept", segment_bytes="5000", retention_ms="-1", retention_bytes="-1")
        produce(broker, "kept", 50, timestamp_ms=1000)
        eventually(lambda: watermarks(broker, "old") == (50, 50), "every old record is deleted")
        eventually(lambda: watermarks(broker, "big")[0] > 50, "the partition shrinks to its limit")
        folder = tmp_path / "log" / "old-0"
        eventually(lambda: [p.name for p in folder.glob("*.log*")] == [f"{50:020d}.log"], "its files are removed")
        assert watermarks(broker, "kept") == (0, 50)
        kept_bytes = sum(path.stat().st_size for path in (tmp_path / "log" / "big-0").glob("*.log"))
        assert 8000 <= kept_bytes < 13_000
        start = watermarks(broker, "big")[0]
        broker.kill()
        with running_broker(tmp_path / "log", properties=properties) as again:
            assert watermarks(again, "old") == (50, 50)
            assert watermarks(again, "big") == (start, 100)


def test_deleted_records_stay_deleted_after_kill_9(tmp_path: Path) -> None:
    broker = start_broker(tmp_path / "log")
    try:
        create(broker, "t")
        produce(broker, "t", 10)
        admin = AdminClient({"bootstrap.servers": broker.address})
        asked = TopicPartition("t", 0, 7)
        assert admin.delete_records([asked])[asked].result(DEADLINE_S).low_watermark == 7
        broker.kill()
        broker = start_broker(tmp_path / "log")
        assert watermarks(broker, "t") == (7, 10)
    finally:
        broker.kill()
