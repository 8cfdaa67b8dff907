"""Consumers of records that are not in the page cache, on a real broker and a real disk."""

from __future__ import annotations

import os
import re
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from highwater.bench.storage.page_cache import evict
from tests.broker.running import RunningBroker, running_broker
from tests.reading import read_to_end

# Its types are there, but not exported.
kafka_admin: Any = import_module("confluent_kafka.admin")

pytestmark = pytest.mark.slow

DEADLINE_S = 120.0
RECORDS = 20_000
VALUE_BYTES = 4_000
PROPERTIES = ("metrics.listener=HTTP://127.0.0.1:0", "log.segment.bytes=20000000")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "log", properties=PROPERTIES) as broker:
        yield broker
        assert broker.stop() == 0
        for word in ("Traceback", "ERROR", "CRITICAL", "a bug"):
            assert word not in broker.log_text()


def value(number: int) -> bytes:
    return number.to_bytes(8, "big") * (VALUE_BYTES // 8)


def write(broker: RunningBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5, "queue.buffering.max.messages": RECORDS})
    for number in range(RECORDS):
        producer.produce(topic, value(number), partition=0)
    assert producer.flush(DEADLINE_S) == 0


def forget(log_dir: Path) -> None:
    """Evict all logs from the page cache."""
    evict(log_dir.glob("*/*.log"))


def can_say_what_is_cached(folder: Path) -> bool:
    path = folder / "probe"
    path.write_bytes(b"x")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
        path.unlink()
    return True


def read_all(broker: RunningBroker, topic: str) -> None:
    """Read the topic from its start, and check each record."""
    found = [(each.offset, each.value) for each in read_to_end(broker.address, topic)]
    assert found == [(number, value(number)) for number in range(RECORDS)]


def fetches_from_disk(broker: RunningBroker) -> int:
    told = re.search(r"metrics at (http://\S+)", broker.log_text())
    assert told is not None
    with urllib.request.urlopen(told[1]) as answer:  # noqa: S310 - the URL is http on loopback
        found = re.search(r"^highwater_fetches_from_disk_total (\d+)", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def reads_from_disk(broker: RunningBroker, topic: str) -> int:
    """Read the topic from its start; returns how many of the fetches needed the disk."""
    before = fetches_from_disk(broker)
    read_all(broker, topic)
    return fetches_from_disk(broker) - before


def test_records_that_are_not_in_the_page_cache_are_read_whole(broker: RunningBroker) -> None:
    write(broker, "t")
    # Whoever else uses this machine may empty its page cache.
    assert 0 in (reads_from_disk(broker, "t") for _ in range(5))
    if not can_say_what_is_cached(broker.log_dir):
        assert "RWF_NOWAIT" in broker.log_text()
        return
    for _ in range(3):
        forget(broker.log_dir)
        assert reads_from_disk(broker, "t") > 0
    assert "RWF_NOWAIT" not in broker.log_text()


def test_topics_are_deleted_while_they_are_read_from_the_disk(broker: RunningBroker) -> None:
    admin = kafka_admin.AdminClient({"bootstrap.servers": broker.address})
    for number in range(3):
        topic = f"t{number}"
        write(broker, topic)
        forget(broker.log_dir)
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "reader", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            messages = consumer.consume(1, DEADLINE_S)
            assert [(message.offset(), message.value()) for message in messages] == [(0, value(0))]
            admin.delete_topics([topic])[topic].result(DEADLINE_S)
            # What was read before the deletion may still come; nothing wrong does.
            for message in consumer.consume(RECORDS, 0.5):
                offset = message.offset()
                assert offset is None or message.error() is not None or message.value() == value(offset)
        finally:
            consumer.close()
    write(broker, "last")
    forget(broker.log_dir)
    read_all(broker, "last")


def test_the_broker_stops_in_the_middle_of_reads_from_the_disk(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log", properties=PROPERTIES) as broker:
        write(broker, "t")
        forget(broker.log_dir)
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "reader", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
            assert len(consumer.consume(1, DEADLINE_S)) == 1
            assert broker.stop() == 0
        finally:
            consumer.close()
        assert "stopped cleanly" in broker.log_text()
    with running_broker(tmp_path / "log", properties=PROPERTIES) as broker:
        # The indexes are not in memory, and nothing of the topic is in the page cache.
        evict(path for path in broker.log_dir.glob("t-0/*") if path.suffix in (".log", ".index", ".timeindex"))
        read_all(broker, "t")
        assert broker.stop() == 0


def test_a_file_system_that_cannot_say_what_is_cached_is_named_once() -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:  # tmpfs, where a Linux system has it
        is_refusing = not can_say_what_is_cached(Path(folder))
        with running_broker(Path(folder) / "log", properties=PROPERTIES) as broker:
            write(broker, "t")
            read_all(broker, "t")
            assert broker.stop() == 0
            assert broker.log_text().count("cannot say what is in the page cache (RWF_NOWAIT)") == is_refusing
