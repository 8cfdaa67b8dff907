"""How long a micro-batch takes: both formats into the sink `noop`, at a steady rate of records."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from pyspark.sql import SparkSession

RATE_PER_S: Final = 2000
_TICK_S: Final = 0.01
FORMATS: Final = ("kafka", "highwater")
_START_S_MAX: Final = 120


@dataclass(frozen=True)
class Streams:
    """Of one format."""

    starts_s: list[float] = field(default_factory=list)
    durations_ms: list[int] = field(default_factory=list)
    """Of the micro-batches that had records."""


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
) -> dict[str, Streams]:
    """Format → its streams, one for each round. The first round is not counted."""
    found = {name: Streams() for name in FORMATS}
    with steady_load(address, topic):
        for number in range(rounds + 1):
            for name in chooser.sample(FORMATS, len(FORMATS)):
                start_s, durations_ms = _run(spark, address, topic, name, seconds)
                if number:
                    found[name].starts_s.append(start_s)
                    found[name].durations_ms.extend(durations_ms)
    return found


def _run(spark: SparkSession, address: str, topic: str, name: str, seconds: int) -> tuple[float, list[int]]:
    """How long the start took, and the durations of later micro-batches."""
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
        begun_s = time.time()
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            while not query.recentProgress:
                assert time.time() < begun_s + _START_S_MAX, "no micro-batch ended"
                assert not query.awaitTermination(1), "the query ended"
            assert not query.awaitTermination(seconds), "the query ended"
            progress = query.recentProgress
        finally:
            query.stop()
    first = progress[0]
    first_ended_s = datetime.fromisoformat(first.timestamp).timestamp() + first.durationMs["triggerExecution"] / 1000
    # The first batches start Python's workers, and have the records of that time.
    return first_ended_s - begun_s, [each.durationMs["triggerExecution"] for each in progress if each.numInputRows][3:]
