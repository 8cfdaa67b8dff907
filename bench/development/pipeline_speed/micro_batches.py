"""How long a micro-batch takes: both formats into the sink `noop`, at a steady rate of records."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from pyspark.sql import SparkSession

RATE_PER_S: Final = 2000
_TICK_S: Final = 0.01
FORMATS: Final = ("kafka", "highwater")


@contextmanager
def steady_load(address: str, topic: str) -> Iterator[None]:
    """RATE_PER_S records of 100 bytes, every 10 ms a few, until the end of the with statement."""
    over = threading.Event()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 0})

    def produce() -> None:
        next_s = time.monotonic()
        while not over.is_set():
            for _ in range(int(RATE_PER_S * _TICK_S)):
                producer.produce(topic, b"v" * 100)
            producer.poll(0)
            next_s += _TICK_S
            over.wait(max(0.0, next_s - time.monotonic()))
        producer.flush(30)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def measure(
    spark: SparkSession, address: str, topic: str, rounds: int, seconds: int, chooser: random.Random
) -> dict[str, list[int]]:
    """Format → the durations in ms of the micro-batches that had records."""
    found: dict[str, list[int]] = {name: [] for name in FORMATS}
    with steady_load(address, topic):
        for number in range(rounds + 1):
            for name in chooser.sample(FORMATS, len(FORMATS)):
                durations = _run(spark, address, topic, name, seconds)
                if number:
                    found[name] += durations
    return found


def _run(spark: SparkSession, address: str, topic: str, name: str, seconds: int) -> list[int]:
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        frame = (
            spark.readStream.format(name)
            .options(
                **{"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "latest"},
                **({"initialOffsetsLocation": f"{folder}/first"} if name == "highwater" else {}),
            )
            .load()
        )
        checkpoint = str(Path(folder) / "checkpoint")
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            assert not query.awaitTermination(seconds), "the query ended"
            progress = query.recentProgress
        finally:
            query.stop()
    # The first batches start Python's workers.
    return [each.durationMs["triggerExecution"] for each in progress if each.numInputRows][3:]
