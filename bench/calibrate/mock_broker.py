"""librdkafka's in-memory mock broker, in a process of its own.

Unlike the null broker it parses and stores records, as a real broker does. Its CPU time is not counted as the clients'.
As a script it prints its address and serves until standard input ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PARTITIONS: Final = 4
"""The number of partitions of a topic that is created by a request for its metadata."""


@contextmanager
def mock_broker() -> Iterator[str]:
    """The address of a mock broker."""
    command = [sys.executable, "-m", "highwater.bench.calibrate.mock_broker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate()


def make_topic(address: str, topic: str) -> None:
    from confluent_kafka import Producer

    Producer({"bootstrap.servers": address, "log_level": 0}).list_topics(topic, timeout=10)


def _main() -> None:
    from confluent_kafka import Producer

    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "unused", "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    sys.stdout.write(f"{broker.host}:{broker.port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _main()
