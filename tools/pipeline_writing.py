"""Speed of the pipeline's writing on one core, beside a plain encoder and librdkafka.

    python -m tools.pipeline_writing

The broker of this checkout runs on another core. All writers begin with the same Arrow record batches of 10,000 rows,
as Spark gives them to a task, and end when the broker has acknowledged the last batch. They take turns in a new order
in each round, so that what drifts on the host is not charged to one of them.

- encode: the vectorised encoder, without sending.
- write: the same with its sender, idempotent, five requests in flight.
- plain: kafka.records makes a batch of an object for each record, without sending.
- librdkafka: produce() for each row, idempotent, as a client for Python does it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final

import pyarrow as pa
import typer
from confluent_kafka import Producer as Librdkafka

from highwater.common.units import plural
from highwater.kafka.records.record import Record, encode_batch
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.encode import encode
from highwater.pipeline.kafka.model import Producer
from highwater.pipeline.kafka.sender import BatchSender
from highwater.pipeline.kafka.settings import settings_of
from tools.pipeline_reading import NOW_MS, Shape, Speed, Topic, create, pinned_broker, show, timed

_ROWS_AT_ONCE: Final = 10_000
_PLAIN_RECORDS: Final = 1_000
_POOL_BYTES: Final = 1 << 20
SHAPES: Final = (
    Shape("100 B", (100, 100), 0, 0, 1),
    Shape("50-150 B, key 8 B", (50, 150), 8, 0, 1),
    Shape("1 KiB", (1024, 1024), 0, 0, 0.2),
)


def main(
    records: Annotated[int, typer.Option(min=10_000, help="Records of a pass.")] = 500_000,
    rounds: Annotated[int, typer.Option(min=5, help="Passes of each writer.")] = 5,
) -> None:
    """Measure how fast Arrow columns are written to a topic; takes about two minutes."""
    chooser = random.Random(1)
    with pinned_broker() as address, Client(settings_of({"bootstrap.servers": address})) as client:
        typer.echo(f"{plural(rounds, 'round')}, load average {os.getloadavg()[0]:.1f}; median (slowest to fastest)\n")
        for index, shape in enumerate(SHAPES):
            batches = rows_of(shape, int(records * shape.record_share))
            count = sum(rows.num_rows for rows in batches)
            name = f"t{index}"
            create(client, name)
            writers: dict[str, Callable[[], int]] = {
                "encode": partial(encode_all, batches),
                "write": partial(write_all, client, name, batches),
                "plain": partial(encode_plainly, batches),
                "librdkafka": partial(produce, address, name, batches),
            }
            speeds: dict[str, list[Speed]] = {each: [] for each in writers}
            for _ in range(rounds):
                for each in chooser.sample(list(writers), len(writers)):
                    speeds[each].append(timed(writers[each], count))
            value_bytes = sum(rows.column("value").nbytes for rows in batches)
            show(shape, Topic(name, count, value_bytes), speeds)


def rows_of(shape: Shape, count: int) -> list[Any]:
    chooser = random.Random(2)
    pool = chooser.randbytes(_POOL_BYTES)
    batches = []
    for start in range(0, count, _ROWS_AT_ONCE):
        places = [chooser.randrange(_POOL_BYTES // 2) for _ in range(min(_ROWS_AT_ONCE, count - start))]
        columns = {"value": pa.array([pool[at : at + chooser.randint(*shape.sizes)] for at in places], pa.binary())}
        if shape.key_bytes:
            columns["key"] = pa.array([pool[at : at + shape.key_bytes] for at in places], pa.binary())
        batches.append(pa.record_batch(columns))
    return batches


def encode_all(batches: Sequence[Any]) -> int:
    count = 0
    for rows in batches:
        for batch in encode(rows, now_ms=NOW_MS):
            batch.seal()
            count += batch.record_count
    return count


def write_all(client: Client, topic: str, batches: Sequence[Any]) -> int:
    producer = client.init_producer_id()
    assert isinstance(producer, Producer), str(producer)
    sender = BatchSender(client, producer)
    for rows in batches:
        for batch in encode(rows, now_ms=NOW_MS):
            sender.send((topic, 0), batch)
    return sender.finish()[topic, 0].record_count


def encode_plainly(batches: Sequence[Any]) -> int:
    count = 0
    for rows in batches:
        keys = rows.column("key").to_pylist() if "key" in rows.schema.names else [None] * rows.num_rows
        values = rows.column("value").to_pylist()
        for start in range(0, rows.num_rows, _PLAIN_RECORDS):
            places = range(start, min(start + _PLAIN_RECORDS, rows.num_rows))
            encode_batch([Record(values[at], keys[at], NOW_MS) for at in places])
            count += len(places)
    return count


def produce(address: str, topic: str, batches: Sequence[Any]) -> int:
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
        keys = rows.column("key").to_pylist() if "key" in rows.schema.names else [None] * rows.num_rows
        for key, value in zip(keys, rows.column("value").to_pylist(), strict=True):
            while True:
                try:
                    producer.produce(topic, value, key, 0)
                    break
                except BufferError:
                    producer.poll(0.01)
        count += rows.num_rows
    assert producer.flush(60) == 0
    return count


if __name__ == "__main__":
    typer.run(main)
