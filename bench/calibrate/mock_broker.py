"""librdkafka's in-memory mock broker, in a process of its own.

Unlike the null broker it parses and stores records, as a real broker does. Its CPU time is not counted as the clients'.
As a script it prints its address and serves until standard input ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from highwater.common.child_process import serving

PARTITIONS: Final = 4
"""The number of partitions of a topic that is created by a request for its metadata."""


@contextmanager
def mock_broker() -> Iterator[str]:
    """The address of a mock broker."""
    with serving("highwater.bench.calibrate.mock_broker") as server:
        yield server.address


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
