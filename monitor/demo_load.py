"""Load of the demo: topics, producers, and groups that keep up, fall behind, and stop."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

_TOPICS: Final = {"orders": 6, "payments": 3, "clicks": 12}
_PER_S: Final = {"orders": 60, "payments": 20, "clicks": 300}
_PAUSE_S: Final = 0.1
_STOPS_AFTER_S: Final = 60.0
_WITHIN_S: Final = 10.0


def main(bootstrap: str) -> None:
    """Run until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    _make_topics(bootstrap)
    groups = (
        ("billing", "orders", None, None),  # keeps up
        ("analytics", "clicks", 120, None),  # reads less than is produced
        ("mailer", "payments", None, _STOPS_AFTER_S),  # stops
    )
    threads = [threading.Thread(target=_produce, args=(bootstrap, ended.is_set))]
    threads += [threading.Thread(target=_consume, args=(bootstrap, *group, ended.is_set)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    brokers = len(admin.list_topics(timeout=_WITHIN_S).brokers)
    topics = [NewTopic(name, count, min(3, brokers)) for name, count in _TOPICS.items()]
    for future in admin.create_topics(topics, operation_timeout=_WITHIN_S).values():
        future.result(_WITHIN_S)


def _produce(bootstrap: str, is_ended: Callable[[], bool]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
    chance = random.Random(1)
    while not is_ended():
        for topic, per_s in _PER_S.items():
            for _ in range(round(per_s * _PAUSE_S)):
                producer.produce(topic, chance.randbytes(100), key=str(chance.paretovariate(1.0) // 1).encode())
        producer.poll(0)
        time.sleep(_PAUSE_S)
    producer.flush(_WITHIN_S)


def _consume(
    bootstrap: str,
    group: str,
    topic: str,
    most_per_s: int | None,
    stops_after_s: float | None,
    is_ended: Callable[[], bool],
) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": f"{group}-1",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 1000,
        # With more at once a slow reader reads one partition for minutes, as if it had stopped on the others.
        "max.partition.fetch.bytes": 8192,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    until_s = None if stops_after_s is None else time.monotonic() + stops_after_s
    while not is_ended() and (until_s is None or time.monotonic() < until_s):
        began_s = time.monotonic()
        consumer.consume(most_per_s or 1000, timeout=_PAUSE_S)
        if most_per_s is not None:
            time.sleep(max(0.0, began_s + 1 - time.monotonic()))
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1])
