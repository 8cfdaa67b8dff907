"""Measures how late a mover delivers delayed records.

python -m tests.pipeline.messaging.lateness --rate 1000 --seconds 30
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.delay import delay
from highwater.pipeline.messaging.exchange import record_of
from tests.broker.running import running_broker
from tests.pipeline.source.topics import Topics

_PARTITIONS: Final = 3
_TICK_S: Final = 0.01
_SPREAD_MS: Final = (500, 8000)


def produce(bootstrap: str, rate: int, seconds: int) -> None:
    """Records that are due half a second to eight seconds later, at random."""
    rng = random.Random(1)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})
    start_s = time.monotonic()
    for number in range(rate * seconds):
        wait_s = start_s + number / rate - time.monotonic()
        if wait_s > _TICK_S:
            producer.poll(wait_s)
        due_ms = now_ms() + rng.randint(*_SPREAD_MS)
        producer.produce(**delay("late", b"x" * 100, b"%d" % number, due_ms=due_ms).arguments())
        producer.poll(0)
    producer.flush(60)


def measure(bootstrap: str, rate: int, seconds: int) -> list[int]:
    """How many ms after its time each record reached a reader of committed records."""
    settings = {"group.id": "lateness", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, "fetch.wait.max.ms": 20, **settings})
    # To join a group takes seconds, in which records would be late for another reason.
    consumer.assign([TopicPartition("late", number, 0) for number in range(_PARTITIONS)])
    thread = threading.Thread(target=produce, args=(bootstrap, rate, seconds))
    thread.start()
    late: list[int] = []
    deadline_s = time.monotonic() + seconds + 60
    while len(late) < rate * seconds and time.monotonic() < deadline_s:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            received_ms = now_ms()
            late.append(received_ms - (headers.whole_number(record_of(message), headers.DUE_MS) or 0))
    thread.join()
    consumer.close()
    return late


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1000, help="records a second")
    parser.add_argument("--seconds", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running_broker(Path(name, "log")) as broker:
        Topics(broker.address).create("late", _PARTITIONS)
        command = ["highwater", "broker", "delay", "run", "-b", broker.address, "--name", "m"]
        mover = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True)
        try:
            assert mover.stdout is not None
            mover.stdout.readline()
            time.sleep(5)  # the mover gets its partitions
            late = measure(broker.address, options.rate, options.seconds)
        finally:
            mover.terminate()
            mover.wait()
        percentiles = ", ".join(f"p{p:g} {np.percentile(late, p):.0f} ms" for p in (50, 90, 99, 99.9, 100))
        sent = options.rate * options.seconds
        print(f"{len(late)} of {sent} delivered, {sum(each < 0 for each in late)} early; late by {percentiles}")  # noqa: T201


if __name__ == "__main__":
    main()
