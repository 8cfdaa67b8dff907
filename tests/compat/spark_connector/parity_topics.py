"""The kinds of topic that the connector and our source read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import KafkaException, Producer

from tests.pipeline.source.topics import DEADLINE_S, Topics
from tests.waiting import wait_until

TIME_MS: Final = 1_700_000_000_000
STEP_MS: Final = 1000
_SEGMENT_BYTES: Final = "1048576"
"""Kafka 4 takes no smaller one."""
_LONGEST_TRANSACTION_MS: Final = 900_000
"""What brokers allow by default."""


def plain(topics: Topics, name: str) -> None:
    topics.create(name, 3)
    for partition in range(3):
        topics.produce(name, 100 * (partition + 1), partition=partition)


def empty(topics: Topics, name: str) -> None:
    topics.create(name, 2)


def codecs(topics: Topics, name: str) -> None:
    topics.create(name)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topics.produce(name, 120, codec=codec)


def many_partitions(topics: Topics, name: str) -> None:
    topics.create(name, 24)
    for partition in range(0, 24, 2):
        topics.produce(name, 5 + partition, partition=partition)


def compacted(topics: Topics, name: str) -> None:
    topics.create(name, cleanup_policy="compact", segment_bytes=_SEGMENT_BYTES, min_cleanable_dirty_ratio="0.01")
    topics.produce(name, 40_000, keys=400)
    wait_until(lambda: len(topics.rows(name)) < 30_000, f"{name} is compacted", within_s=120)


def transactions(topics: Topics, name: str) -> None:
    topics.create(name, 2)
    for partition in range(2):
        topics.produce(name, 7, partition=partition)
        for number in range(6):
            topics.transaction(name, 20 + number, commit=number % 2 == 0, partition=partition)
    topics.produce(name, 5)


def control_record_last(topics: Topics, name: str) -> None:
    topics.create(name)
    topics.transaction(name, 10, commit=True)


def aborted_alone(topics: Topics, name: str) -> None:
    topics.create(name)
    topics.transaction(name, 10, commit=False)


def log_append_time(topics: Topics, name: str) -> None:
    topics.create(name, message_timestamp_type="LogAppendTime")
    for codec in ("none", "zstd"):
        topics.produce(name, 60, timestamps_ms=[TIME_MS] * 60, codec=codec)


def times(topics: Topics, name: str) -> None:
    """Out of order within each batch, and the same in both partitions but for a shift; too old for any retention."""
    topics.create(name, 2, retention_ms="-1")
    for partition in range(2):
        order = [number ^ 3 for number in range(200)]
        stamps = [TIME_MS + STEP_MS * (each + 50 * partition) for each in order]
        topics.produce(name, 200, partition=partition, timestamps_ms=stamps)


def deleted_records(topics: Topics, name: str) -> None:
    topics.create(name, 2)
    for partition in range(2):
        topics.produce(name, 150, partition=partition)
    topics.delete_records(name, 70)


def all_deleted(topics: Topics, name: str) -> None:
    topics.create(name)
    topics.produce(name, 30)
    topics.delete_records(name, 30)


def large_records(topics: Topics, name: str) -> None:
    topics.create(name)
    producer = Producer({"bootstrap.servers": topics.address, "log_level": 0, "message.max.bytes": 1_000_000})
    for size in (0, 1, 900_000, 127, 128, 700_000, 16_383, 16_384):
        producer.produce(name, b"v" * size, b"k" * (size % 70_000), partition=0)
    assert producer.flush(DEADLINE_S) == 0


def nulls_and_headers(topics: Topics, name: str) -> None:
    topics.create(name)
    headers: list[list[tuple[str, str | bytes | None]] | None]
    producer = Producer({"bootstrap.servers": topics.address, "log_level": 0})
    for number in range(200):
        headers = [None, [], [("a", None), ("a", b"")], [("ü", b"\xff" * number)]]
        producer.produce(
            name,
            (None, b"", b"\x00\xff", "wörter".encode())[number % 4],
            (None, b"", b"k")[number % 3],
            partition=0,
            headers=headers[number // 2 % 4],
        )
    assert producer.flush(DEADLINE_S) == 0


def single_batches(topics: Topics, name: str) -> None:
    topics.create(name)
    producer = Producer({"bootstrap.servers": topics.address, "log_level": 0, "batch.num.messages": 1})
    for number in range(300):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(DEADLINE_S) == 0


KINDS: Final[dict[str, Callable[[Topics, str], None]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        plain,
        empty,
        codecs,
        many_partitions,
        compacted,
        transactions,
        control_record_last,
        aborted_alone,
        log_append_time,
        times,
        deleted_records,
        all_deleted,
        large_records,
        nulls_and_headers,
        single_batches,
    )
}
OPEN: Final = "open-transaction"


@contextmanager
def made(topics: Topics) -> Iterator[None]:
    """All kinds; a transaction stays open as long as the with statement."""
    for name, make in KINDS.items():
        make(topics, name)
    topics.create(OPEN)
    topics.produce(OPEN, 10)
    settings = {"bootstrap.servers": topics.address, "transactional.id": "open", "log_level": 0}
    producer = Producer({**settings, "transaction.timeout.ms": _LONGEST_TRANSACTION_MS})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for number in range(5):
        producer.produce(OPEN, b"%d" % number, partition=0)
    producer.flush(DEADLINE_S)
    topics.produce(OPEN, 3)
    try:
        yield
    finally:
        # On a slow host the broker has aborted it meanwhile.
        with suppress(KafkaException):
            producer.abort_transaction(DEADLINE_S)
