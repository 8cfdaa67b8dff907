"""How a broker takes it when hundreds of members of one group join at once, and when a tenth of them leaves.

    python -m tools.many_members [MEMBERS] [TOPICS] [consumer|classic]

A broker on this host, and members of librdkafka in one other process that all subscribe to the same topics of 20
partitions. Told are the seconds until each partition has one reader, the broker's CPU time and memory, and how long a
client beside them waited for ApiVersions at most.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import api_versions
from highwater.kafka.client.settings import settings_of
from tests.broker.running import running_broker

_MEMBERS: Final = 500
_TOPICS: Final = 50
_PARTITIONS: Final = 20
_PATIENCE_S: Final = 300.0
_LEAVING: Final = 10
"""One of so many members leaves."""


class Bystander(threading.Thread):
    """Asks the broker for ApiVersions a hundred times a second, until it ends."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._client = BlockingClient(settings_of({"bootstrap.servers": address}))
        self.longest_s = 0.0

    def run(self) -> None:
        while True:
            began_s = time.perf_counter()
            try:
                self._client.ask(self._address, api_versions("bystander"))
            except ClientError:
                return
            self.longest_s = max(self.longest_s, time.perf_counter() - began_s)
            time.sleep(0.01)


def main() -> None:
    words = sys.argv[1:]
    numbers = [int(word) for word in words if word.isdecimal()]
    members, topics = (*numbers, *(_MEMBERS, _TOPICS)[len(numbers) :])
    protocol = next((word for word in words if not word.isdecimal()), "consumer")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _say(f"{members} members of the {protocol} protocol, {topics} topics of {_PARTITIONS} partitions")
    with tempfile.TemporaryDirectory(prefix="many-members-") as folder, running_broker(Path(folder) / "log") as broker:
        names = [f"orders-of-region-{index:04}" for index in range(topics)]
        admin = AdminClient({"bootstrap.servers": broker.address})
        for future in admin.create_topics([NewTopic(name, _PARTITIONS, 1) for name in names]).values():
            future.result()
        process = psutil.Process(broker.process.pid)
        bystander = Bystander(broker.address)
        bystander.start()
        settings = {"bootstrap.servers": broker.address, "group.id": "many", "group.protocol": protocol, "log_level": 0}
        consumers = [Consumer({**settings, "auto.offset.reset": "earliest"}) for _ in range(members)]
        _report("nobody has joined", bystander, process, 0.0)
        began_s = time.monotonic()
        for consumer in consumers:
            consumer.subscribe(names)
        _wait(consumers, topics * _PARTITIONS)
        _report("all have joined", bystander, process, time.monotonic() - began_s)
        leaving, staying = consumers[::_LEAVING], [each for each in consumers if each not in consumers[::_LEAVING]]
        began_s = time.monotonic()
        for consumer in leaving:
            consumer.close()
        _wait(staying, topics * _PARTITIONS)
        _report(f"{len(leaving)} have left", bystander, process, time.monotonic() - began_s)


def _wait(consumers: Sequence[Any], partitions: int) -> None:
    """Poll until each partition has one reader, and each member its share."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        for _ in range(20):
            for consumer in consumers:
                consumer.poll(0)
            time.sleep(0.005)
        held = [[(each.topic, each.partition) for each in consumer.assignment()] for consumer in consumers]
        readers = Counter(key for of_one in held for key in of_one)
        shares = sorted(map(len, held))
        if len(readers) == partitions == sum(shares) and shares[-1] - shares[0] <= 1:
            return
        if time.monotonic() > until_s:
            sys.exit(f"{len(readers)} of {partitions} partitions have readers; shares from {shares[0]} to {shares[-1]}")


def _report(what: str, bystander: Bystander, process: psutil.Process, took_s: float) -> None:
    times, longest_s, bystander.longest_s = process.cpu_times(), bystander.longest_s, 0.0
    _say(
        f"  {what:20} {took_s:6.1f} s; the broker: {times.user + times.system:6.1f} s of CPU, "
        f"{process.memory_info().rss / 2**20:5.0f} MiB; a client beside waited {longest_s * 1000:4.0f} ms at most"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
