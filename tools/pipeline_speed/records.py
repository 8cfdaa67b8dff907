"""The broker, topics and records that the measurements share, and the writers without Spark."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Producer as Librdkafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.kafka.records.record import Record, encode_batch
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.encode import encode
from highwater.pipeline.kafka.model import Appended, Producer
from highwater.pipeline.kafka.sender import BatchSender
from tests.broker.running import start_broker

_NOW_MS: Final = time.time_ns() // 1_000_000
"""A broker deletes records that are older than its retention."""
_BATCH_BYTES: Final = 512 << 10
"""About what a producer puts into a batch."""
_POOL_BYTES: Final = 1 << 20
_ROWS_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Shape:
    """Records of a topic."""

    name: str
    sizes: tuple[int, int]
    key_bytes: int = 0
    record_share: float = 1
    """Of the number of records that was asked for: fewer of the large ones."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    count: int
    value_bytes: int


@contextmanager
def pinned_broker() -> Iterator[str]:
    """A broker on the last core of this host, for readers on the first."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as directory:
        os.sched_setaffinity(0, cores[-1:])
        broker = start_broker(Path(directory) / "log")
        os.sched_setaffinity(0, cores[:1])
        try:
            yield broker.address
        finally:
            broker.kill()
            os.sched_setaffinity(0, cores)


def create(client: Client, name: str) -> None:
    (host, port), *_ = client.settings.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)


def fill(client: Client, name: str, shape: Shape, count: int) -> Topic:
    """A topic with one partition and uncompressed batches."""
    chooser = random.Random(2)
    pool = chooser.randbytes(_POOL_BYTES)
    average = sum(shape.sizes) // 2 + shape.key_bytes
    per_batch = max(1, _BATCH_BYTES // average)
    create(client, name)
    value_bytes = done = 0
    while done < count:
        records = []
        for _ in range(min(per_batch, count - done)):
            size, start = chooser.randint(*shape.sizes), chooser.randrange(_POOL_BYTES // 2)
            key = pool[start : start + shape.key_bytes] if shape.key_bytes else None
            records.append(Record(pool[start : start + size], key, _NOW_MS + done // 1000))
            value_bytes += size
        appended = client.produce(name, 0, bytes(encode_batch(records)))
        assert isinstance(appended, Appended), str(appended)
        done += len(records)
    return Topic(name, done, value_bytes)


def rows_of(value_bytes: int, count: int) -> list[Any]:
    """Arrow record batches of 10,000 rows, as Spark gives them to a task."""
    chooser = random.Random(2)
    pool = chooser.randbytes(_POOL_BYTES)
    batches = []
    for start in range(0, count, _ROWS_AT_ONCE):
        places = [chooser.randrange(_POOL_BYTES // 2) for _ in range(min(_ROWS_AT_ONCE, count - start))]
        values = pa.array([pool[at : at + value_bytes] for at in places], pa.binary())
        batches.append(pa.record_batch({"value": values}))
    return batches


def encode_all(batches: Sequence[Any]) -> int:
    """The vectorised encoder, without sending."""
    count = 0
    for rows in batches:
        for batch in encode(rows, now_ms=_NOW_MS):
            batch.seal()
            count += batch.record_count
    return count


def write_all(client: Client, topic: str, batches: Sequence[Any]) -> int:
    """The encoder with its sender: idempotent, five requests in flight."""
    producer = client.init_producer_id()
    assert isinstance(producer, Producer), str(producer)
    sender = BatchSender(client, producer)
    for rows in batches:
        for batch in encode(rows, now_ms=_NOW_MS):
            sender.send((topic, 0), batch)
    return sender.finish()[topic, 0].record_count


def produce(address: str, topic: str, batches: Sequence[Any]) -> int:
    """One call of librdkafka for each row, idempotent, as a client for Python does it."""
    producer = Librdkafka(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 512 << 10,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    count = 0
    for rows in batches:
        for value in rows.column("value").to_pylist():
            while True:
                try:
                    producer.produce(topic, value, None, 0)
                    break
                except BufferError:
                    producer.poll(0.01)
        count += rows.num_rows
    assert producer.flush(60) == 0
    return count
