"""librdkafka's in-memory mock broker in a process of its own, so that its work does not count as the clients'.

Started as a script it prints the address and serves until its standard input ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from confluent_kafka import Producer

_numbers = count()


class MockBroker:
    """The mock makes a topic of four partitions for whoever asks for it by name."""

    PARTITIONS = 4

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self.address = process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()

    def new_topic(self) -> str:
        topic = f"load-{next(_numbers)}"
        Producer({"bootstrap.servers": self.address, "log_level": 0}).list_topics(topic, timeout=60)
        return topic


@contextmanager
def mock_broker(delay_ms: int = 0) -> Iterator[MockBroker]:
    """delay_ms: how long the broker waits before each answer."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), str(delay_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield MockBroker(process)
    finally:
        process.communicate()


def _serve(delay_ms: int) -> None:
    cluster = Producer(
        {
            "test.mock.num.brokers": 1,
            "test.mock.broker.rtt": delay_ms,
            "bootstrap.servers": "unused",
            "log_level": 0,
        }
    )
    (broker,) = cluster.list_topics(timeout=60).brokers.values()
    sys.stdout.write(f"{broker.host}:{broker.port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
