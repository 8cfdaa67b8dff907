"""The life of a log in a running broker: retention and deleted records, with stock clients and kill -9."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.broker.running import RunningBroker, running_broker, start_broker
from tests.reading import read_to_end
from tests.waiting import wait_until

pytestmark = pytest.mark.clients

DEADLINE_S = 60.0


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """Which has RWF_NOWAIT, as the log of a broker has outside of tests."""
    return disk_path


def create(broker: RunningBroker, topic: str, **config: str) -> None:
    admin = AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(DEADLINE_S)


def produce(broker: RunningBroker, topic: str, count: int, *, timestamp_ms: int = 0, size: int = 200) -> None:
    failures: list[KafkaError] = []
    # One record in a batch, so that segments are as many as their size says.
    producer = Producer({"log_level": 0, "bootstrap.servers": broker.address, "batch.num.messages": 1})
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
    consumer = Consumer({"log_level": 0, "bootstrap.servers": broker.address, "group.id": "unused"})
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
        wait_until(lambda: watermarks(broker, "old") == (50, 50), "every old record is deleted", DEADLINE_S)
        wait_until(lambda: watermarks(broker, "big")[0] > 50, "the partition shrinks to its limit", DEADLINE_S)
        folder = tmp_path / "log" / "old-0"
        wait_until(
            lambda: [p.name for p in folder.glob("*.log*")] == [f"{50:020d}.log"], "its files are removed", DEADLINE_S
        )
        assert watermarks(broker, "kept") == (0, 50)
        kept_bytes = sum(path.stat().st_size for path in (tmp_path / "log" / "big-0").glob("*.log"))
        assert 8000 <= kept_bytes < 13_000
        start = watermarks(broker, "big")[0]
        broker.kill()
        with running_broker(tmp_path / "log", properties=properties) as again:
            assert watermarks(again, "old") == (50, 50)
            assert watermarks(again, "big") == (start, 100)


@pytest.mark.slow
def test_deleted_records_stay_deleted_after_kill_9(tmp_path: Path) -> None:
    broker = start_broker(tmp_path / "log")
    try:
        create(broker, "t")
        produce(broker, "t", 10)
        admin = AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
        asked = TopicPartition("t", 0, 7)
        assert admin.delete_records([asked])[asked].result(DEADLINE_S).low_watermark == 7
        broker.kill()
        broker = start_broker(tmp_path / "log")
        assert watermarks(broker, "t") == (7, 10)
    finally:
        broker.kill()


EAGER_CLEANER = ("log.cleaner.backoff.ms=0", "log.segment.delete.delay.ms=0", "log.cleaner.min.cleanable.ratio=0.01")


def produce_keyed(
    broker: RunningBroker, topic: str, count: int, keys: int, *, codec: str = "none"
) -> dict[bytes, bytes]:
    """Records that all but the last `keys` are made void by; what a reader of all of them ends up with."""
    producer = Producer(
        {
            "log_level": 0,
            "bootstrap.servers": broker.address,
            "compression.type": codec,
            "batch.num.messages": 50,
            "linger.ms": 5,
        }
    )
    state: dict[bytes, bytes] = {}
    for i in range(count):
        key, value = b"key %d" % (i * 7919 % keys), b"value %d " % i + b"x" * 100
        state[key] = value
        while True:
            try:
                producer.produce(topic, value, key, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(DEADLINE_S) == 0
    return state


def consume_all(broker: RunningBroker, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    found = [(each.offset, each.key, each.value) for each in read_to_end(broker.address, topic)]
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    return found


def segments_of(broker: RunningBroker, topic: str) -> int:
    size = 0
    for path in (broker.log_dir / f"{topic}-0").glob("*.log"):
        with suppress(FileNotFoundError):  # the cleaner replaces segments meanwhile
            size += path.stat().st_size
    return size


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_readers_of_a_topic_that_is_compacted_meanwhile_see_every_last_value(tmp_path: Path, codec: str) -> None:
    with running_broker(tmp_path / "log", properties=EAGER_CLEANER) as broker:
        create(broker, "t", cleanup_policy="compact", segment_bytes="20000")
        state: dict[bytes, bytes] = {}
        for _ in range(4):
            state |= produce_keyed(broker, "t", 4000, 50, codec=codec)
            found = consume_all(broker, "t")
            assert {key: value for _, key, value in found if key is not None} == state
        wait_until(lambda: len(consume_all(broker, "t")) < 3000, "most records are compacted away", DEADLINE_S)
        assert {key: value for _, key, value in consume_all(broker, "t") if key is not None} == state
        assert broker.stop() == 0
        assert "compacted up to offset" in broker.log_text()
        assert "WARNING" not in broker.log_text()
    with running_broker(tmp_path / "log", properties=EAGER_CLEANER) as again:
        assert {key: value for _, key, value in consume_all(again, "t") if key is not None} == state


@pytest.mark.slow
def test_kill_9_during_compaction_loses_nothing(tmp_path: Path) -> None:
    state: dict[bytes, bytes] = {}
    broker = start_broker(tmp_path / "log", properties=EAGER_CLEANER)
    try:
        create(broker, "t", cleanup_policy="compact", segment_bytes="50000")
        for round_ in range(8):
            state |= produce_keyed(broker, "t", 1500, 40 + round_)
            time.sleep(0.1 * round_)  # wherever the cleaner is then
            broker.kill()
            broker = start_broker(tmp_path / "log", properties=EAGER_CLEANER)
            assert {key: value for _, key, value in consume_all(broker, "t") if key is not None} == state
        wait_until(lambda: segments_of(broker, "t") < 400_000, "the log becomes small in the end", DEADLINE_S)
        assert {key: value for _, key, value in consume_all(broker, "t") if key is not None} == state
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_a_record_without_a_key_is_refused_where_records_are_compacted(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        create(broker, "t", cleanup_policy="compact")
        told: list[KafkaError | None] = []

        def note(error: KafkaError | None, _: object) -> None:
            told.append(error)

        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            told.clear()
            producer = Producer({"log_level": 0, "bootstrap.servers": broker.address, "compression.type": codec})
            producer.produce("t", b"value" * 100, on_delivery=note)
            producer.produce("t", b"value" * 100, b"key", on_delivery=note)
            producer.flush(DEADLINE_S)
            assert told[0] is not None
            assert told[0].code() == KafkaError.INVALID_RECORD
