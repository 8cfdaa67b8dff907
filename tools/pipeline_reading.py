"""Speed of the pipeline's reading on one core, beside a plain decoder and librdkafka.

    python -m tools.pipeline_reading

The broker of this checkout runs on another core. All readers make the same columns: key, value, topic, partition,
offset, timestamp, timestampType. They take turns in a new order in each round, so that what drifts on the host is not
charged to one of them.

- decode: the vectorised decoder over fetches of 4 MiB that are in memory.
- read: the same with its client, from the socket on.
- headers: `read` of columns that the headers of batches have (offset, batchBytes).
- plain: kafka.records makes an object of each record in memory, and Arrow the columns from these.
- librdkafka: consume(2000), and Arrow the columns from its messages.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

import pyarrow as pa
import typer
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.common.units import plural, rate_text, size_text
from highwater.kafka.records.batch import headers
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from highwater.kafka.requests.fetch import Fetch, Fetched
from highwater.pipeline.kafka.batches import offset_after
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.columns import DEFAULT_COLUMNS, schema_of
from highwater.pipeline.kafka.decode import decode
from highwater.pipeline.kafka.model import Appended
from highwater.pipeline.kafka.reader import FETCH_BYTES, OffsetRange, read_range
from highwater.pipeline.kafka.settings import settings_of
from tests.broker.running import start_broker

NOW_MS: Final = time.time_ns() // 1_000_000
"""A broker deletes records that are older than its retention."""
_CONSUMED_AT_ONCE: Final = 2000
_POOL_BYTES: Final = 1 << 20
_HEADER_COLUMNS: Final = ("offset", "batchBytes")


@dataclass(frozen=True, slots=True)
class Shape:
    """Records of a topic; `batch_bytes` is about what a producer puts into a batch."""

    name: str
    sizes: tuple[int, int]
    key_bytes: int
    batch_bytes: int
    record_share: float
    """Of the number of records that was asked for: fewer of the large ones."""


SHAPES: Final = (
    Shape("100 B, batches of 16 KiB", (100, 100), 0, 16 << 10, 1),
    Shape("100 B, batches of 512 KiB", (100, 100), 0, 512 << 10, 1),
    Shape("50-150 B, key 8 B, batches of 16 KiB", (50, 150), 8, 16 << 10, 1),
    Shape("50-150 B, key 8 B, batches of 512 KiB", (50, 150), 8, 512 << 10, 1),
    Shape("1 KiB, batches of 16 KiB", (1024, 1024), 0, 16 << 10, 0.2),
    Shape("1 KiB, batches of 512 KiB", (1024, 1024), 0, 512 << 10, 0.2),
)


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    count: int
    value_bytes: int


@dataclass(frozen=True, slots=True)
class Speed:
    """One pass over a topic."""

    wall_s: float
    cpu_s: float


def main(
    records: Annotated[int, typer.Option(min=10_000, help="Records of a topic.")] = 500_000,
    rounds: Annotated[int, typer.Option(min=5, help="Passes of each reader.")] = 5,
) -> None:
    """Measure how fast topics are read into Arrow columns; takes about two minutes."""
    chooser = random.Random(1)
    with pinned_broker() as address, Client(settings_of({"bootstrap.servers": address})) as client:
        typer.echo(f"{plural(rounds, 'round')}, load average {os.getloadavg()[0]:.1f}; median (slowest to fastest)\n")
        for index, shape in enumerate(SHAPES):
            topic = fill(client, f"t{index}", shape, int(records * shape.record_share))
            fetches = fetched(client, topic)
            readers: dict[str, Callable[[], int]] = {
                "decode": partial(decode_fetches, fetches, topic),
                "read": partial(read, client, topic, DEFAULT_COLUMNS),
                "headers": partial(read, client, topic, _HEADER_COLUMNS),
                "plain": partial(decode_plainly, fetches, topic),
                "librdkafka": partial(consume, address, topic),
            }
            speeds: dict[str, list[Speed]] = {name: [] for name in readers}
            for _ in range(rounds):
                for name in chooser.sample(list(readers), len(readers)):
                    speeds[name].append(timed(readers[name], topic.count))
            show(shape, topic, speeds)


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


def fill(client: Client, name: str, shape: Shape, count: int) -> Topic:
    """A topic with one partition and uncompressed batches."""
    chooser = random.Random(2)
    pool = chooser.randbytes(_POOL_BYTES)
    average = sum(shape.sizes) // 2 + shape.key_bytes
    per_batch = max(1, shape.batch_bytes // average)
    create(client, name)
    value_bytes = done = 0
    while done < count:
        records = []
        for _ in range(min(per_batch, count - done)):
            size, start = chooser.randint(*shape.sizes), chooser.randrange(_POOL_BYTES // 2)
            key = pool[start : start + shape.key_bytes] if shape.key_bytes else None
            records.append(Record(pool[start : start + size], key, NOW_MS + done // 1000))
            value_bytes += size
        appended = client.produce(name, 0, bytes(encode_batch(records)))
        assert isinstance(appended, Appended), str(appended)
        done += len(records)
    return Topic(name, done, value_bytes)


def create(client: Client, name: str) -> None:
    (host, port), *_ = client.settings.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)


def fetched(client: Client, topic: Topic) -> list[bytes]:
    """The records of all fetches of the topic."""
    fetches = []
    offset = 0
    while offset < topic.count:
        answer = client.fetch(Fetch(topic.name, 0, offset, max_bytes=FETCH_BYTES))
        assert isinstance(answer, Fetched), str(answer)
        fetches.append(bytes(answer.records))
        offset = offset_after(answer.records) or offset
    return fetches


def timed(reader: Callable[[], int], count: int) -> Speed:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    assert reader() == count
    return Speed(time.perf_counter() - wall_s, time.process_time() - cpu_s)


def decode_fetches(fetches: list[bytes], topic: Topic) -> int:
    count = offset = 0
    for data in fetches:
        decoded = decode(data, topic=topic.name, partition=0, start_offset=offset)
        count, offset = count + decoded.rows.num_rows, decoded.next_offset
    return count


def read(client: Client, topic: Topic, columns: tuple[str, ...]) -> int:
    wanted = OffsetRange(topic.name, 0, 0, topic.count)
    return sum(decoded.rows.num_rows for decoded in read_range(client, wanted, columns=columns))


def decode_plainly(fetches: list[bytes], topic: Topic) -> int:
    count = 0
    for data in fetches:
        for position, header in headers(data):
            found = decode_batch(memoryview(data)[position:], header)
            rows = arrow_rows(
                [record.key for record in found],
                [record.value for record in found],
                [record.offset for record in found],
                [record.timestamp_ms * 1000 for record in found],
                topic,
            )
            count += rows.num_rows
    return count


def consume(address: str, topic: Topic) -> int:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "enable.auto.commit": False,
            "fetch.max.bytes": FETCH_BYTES,
            "max.partition.fetch.bytes": FETCH_BYTES,
            # By default it pauses for a second when its queue is full, which would be all that is measured.
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
        }
    )
    count = 0
    try:
        consumer.assign([TopicPartition(topic.name, 0, 0)])
        while count < topic.count:
            found = consumer.consume(_CONSUMED_AT_ONCE, 10)
            rows = arrow_rows(
                [message.key() for message in found],
                [message.value() for message in found],
                [message.offset() for message in found],
                [message.timestamp()[1] * 1000 for message in found],
                topic,
            )
            count += rows.num_rows
    finally:
        consumer.close()
    return count


def arrow_rows(keys: list[Any], values: list[Any], offsets: list[Any], timestamps_us: list[Any], topic: Topic) -> Any:
    count = len(values)
    columns = (keys, values, [topic.name] * count, [0] * count, offsets, timestamps_us, [0] * count)
    schema = schema_of(DEFAULT_COLUMNS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def show(shape: Shape, topic: Topic, speeds: dict[str, list[Speed]]) -> None:
    typer.echo(f"{shape.name} ({topic.count:,} records)")
    for name, passes in speeds.items():
        by_wall = sorted(topic.count / each.wall_s for each in passes)
        by_cpu = median(topic.count / each.cpu_s for each in passes)
        bytes_per_s = median(topic.value_bytes / each.wall_s for each in passes)
        typer.echo(
            f"  {name:<11}{rate_text(median(by_wall)):>13} ({rate_text(by_wall[0])} to {rate_text(by_wall[-1])}), "
            f"values {size_text(bytes_per_s)}/s; {rate_text(by_cpu)} by CPU second"
        )
    typer.echo("")


if __name__ == "__main__":
    typer.run(main)
