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

from tools.pipeline_speed.passes import cpu_s

RATE_PER_S: Final = 2000
_TICK_S: Final = 0.01
FORMATS: Final = ("kafka", "highwater")
PHASES: Final = ("latestOffset", "walCommit", "queryPlanning", "addBatch", "commitOffsets")
"""Those of Spark's durationMs that take longest."""
_START_S_MAX: Final = 120
_FIRST_BATCHES: Final = 3
"""They start Python's workers, and have the records of that time."""


@dataclass(frozen=True)
class Streams:
    """Of one format."""

    starts_s: list[float] = field(default_factory=list)
    durations_ms: list[int] = field(default_factory=list)
    """Of the micro-batches that had records."""
    phases_ms: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in PHASES})
    """The same, of each phase."""
    cpu_ms: list[float] = field(default_factory=list)
    """Of the JVM and its workers for a micro-batch, in each round."""

    def add(self, other: Streams) -> None:
        self.starts_s.extend(other.starts_s)
        self.durations_ms.extend(other.durations_ms)
        for name in PHASES:
            self.phases_ms[name].extend(other.phases_ms[name])
        self.cpu_ms.extend(other.cpu_ms)


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
                of_round = _run(spark, address, topic, name, seconds)
                if number:
                    found[name].add(of_round)
    return found


def _run(spark: SparkSession, address: str, topic: str, name: str, seconds: int) -> Streams:
    """One round."""
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
            while len(query.recentProgress) < _FIRST_BATCHES:
                assert time.time() < begun_s + _START_S_MAX, "no micro-batch ended"
                assert not query.awaitTermination(1), "the query ended"
            before, before_cpu_s = len(query.recentProgress), cpu_s()
            assert not query.awaitTermination(seconds), "the query ended"
            progress, used_s = query.recentProgress, cpu_s() - before_cpu_s
        finally:
            query.stop()
    first = progress[0]
    first_ended_s = datetime.fromisoformat(first.timestamp).timestamp() + first.durationMs["triggerExecution"] / 1000
    later = [each.durationMs for each in progress[before:] if each.numInputRows]
    return Streams(
        starts_s=[first_ended_s - begun_s],
        durations_ms=[each["triggerExecution"] for each in later],
        phases_ms={name: [each.get(name, 0) for each in later] for name in PHASES},
        cpu_ms=[used_s * 1000 / (len(progress) - before)],
    )
