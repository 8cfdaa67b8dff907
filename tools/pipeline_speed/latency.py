"""How long a record takes from one topic to another: Spark's real-time mode beside micro-batches."""

from __future__ import annotations

import random
import tempfile
import time
from typing import Final

from confluent_kafka import Consumer, Producer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from highwater.pipeline.kafka.client import Client
from tools.pipeline_speed.records import create

JAVA, OURS, REAL_TIME = "kafka", "highwater", "kafka, real time"
WAYS: Final = (JAVA, OURS, REAL_TIME)
RATE_PER_S: Final = 50
BATCH: Final = "10 seconds"
_FIRST_S: Final = 90.0


def measure(
    spark: SparkSession, client: Client, address: str, rounds: int, seconds: int, chooser: random.Random
) -> dict[str, list[int]]:
    """Way → the nanoseconds of each record, from `produce` of its producer to `poll` of its consumer."""
    found: dict[str, list[int]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in chooser.sample(WAYS, len(WAYS)):
            topic = f"{way}-{number}".replace(", ", "-").replace(" ", "-")
            for name in (topic, f"{topic}-out"):
                create(client, name)
            with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
                query = _start(spark, address, way, topic, folder)
                try:
                    found[way] += _latencies_ns(query, address, topic, seconds)
                finally:
                    query.stop()
    return found


def _start(spark: SparkSession, address: str, way: str, topic: str, folder: str) -> StreamingQuery:
    """Both sinks are at least once."""
    name = OURS if way == OURS else JAVA
    cluster = {"kafka.bootstrap.servers": address}
    frame = spark.readStream.format(name).options(**cluster, subscribe=topic, startingOffsets="earliest").load()
    writer = frame.select("key", "value").writeStream.format(name).options(**cluster, topic=f"{topic}-out")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    if way == REAL_TIME:
        # PySpark takes it, and its overloads do not have it.
        writer = writer.outputMode("update").trigger(realTime=BATCH)  # type: ignore[call-overload]
    return writer.start()


def _latencies_ns(query: StreamingQuery, address: str, topic: str, seconds: int) -> list[int]:
    """Of the records of `seconds` seconds, after the first one came through."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "log_level": 0})
    settings = {"group.id": "latency", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 5, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": address, "enable.auto.commit": False, **settings})
    found: list[int] = []
    counted_ns = 0
    try:
        consumer.subscribe([f"{topic}-out"])
        begun_s, over_s = time.monotonic(), None
        next_s = begun_s
        while over_s is None or time.monotonic() < over_s:
            assert query.isActive, query.exception()
            assert over_s is not None or time.monotonic() < begun_s + _FIRST_S, f"{topic}: no record came through"
            now_s = time.monotonic()
            if now_s >= next_s:
                producer.produce(topic, b"%d" % time.monotonic_ns())
                producer.poll(0)
                next_s += 1 / RATE_PER_S
            message = consumer.poll(max(0.0, min(1 / RATE_PER_S, next_s - now_s)))
            if message is None or message.error() is not None:
                continue
            if over_s is None:
                # Started: the records so far have waited for it.
                over_s = time.monotonic() + seconds
                counted_ns = time.monotonic_ns()
            elif int(message.value() or 0) >= counted_ns:
                found.append(time.monotonic_ns() - int(message.value() or 0))
        producer.flush(30)
    finally:
        consumer.close()
    return found
