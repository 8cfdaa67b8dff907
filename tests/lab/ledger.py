"""A producer that keeps what was acknowledged to it, and a consumer that says what of that is missing or there twice.

Both through librdkafka, from outside of the hosts. Records are numbered; with acks=all and idempotence what is
acknowledged must be read exactly once, whatever happened to brokers meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.reading import read_to_end

_PAUSE_S: Final = 0.002
_WITHIN_S: Final = 120.0


class Ledger:
    """What was sent to one topic and what became of it."""

    def __init__(
        self, bootstrap_servers: str, topic: str, patience: int = 1, connection: Mapping[str, Any] | None = None
    ) -> None:
        """patience: how many times slower than hosts usually are these may be. connection: TLS and a login."""
        self._within_s = patience * _WITHIN_S
        self.bootstrap_servers = bootstrap_servers
        self.client: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, **(connection or {})}
        self.topic = topic
        self.acknowledged: set[int] = set()
        self.refused: list[str] = []
        self.sent = 0

    def create_topic(self, partitions: int, copies: int) -> None:
        admin = AdminClient(self.client)
        (made,) = admin.create_topics([NewTopic(self.topic, partitions, copies)]).values()
        made.result(self._within_s)

    @contextmanager
    def producing(self) -> Iterator[None]:
        """In the background, for the time of a with statement; all of it is answered at its end."""
        stop = threading.Event()
        thread = threading.Thread(target=self._produce, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _produce(self, stop: threading.Event) -> None:
        producer = Producer(
            {
                **self.client,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": int(self._within_s * 1000),
            }
        )

        def answered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acknowledged.add(int(message.value() or b""))
            else:
                self.refused.append(error.str())

        while not stop.is_set():
            producer.produce(self.topic, str(self.sent).encode(), key=str(self.sent), on_delivery=answered)
            self.sent += 1
            producer.poll(0)
            time.sleep(_PAUSE_S)
        producer.flush(self._within_s)

    def consumed(self) -> Counter[int]:
        """How often each number is in the topic, read from its begin to its end."""
        topics = AdminClient(self.client).list_topics(self.topic, self._within_s).topics
        partitions = len(topics[self.topic].partitions)
        client = {**self.client, "group.id": f"{self.topic}-ledger"}
        found = read_to_end(client, self.topic, partitions, within_s=self._within_s)
        return Counter(int(each.value or b"") for each in found)

    def faults(self) -> list[str]:
        """What must not be: refused, missing or there twice."""
        found = self.consumed()
        missing = sorted(self.acknowledged - found.keys())
        twice = sorted(number for number, count in found.items() if count > 1)
        return [
            *(f"refused: {text}" for text in self.refused[:3]),
            *([f"{len(missing)} acknowledged records are missing, such as {missing[:5]}"] if missing else []),
            *([f"{len(twice)} records are there twice, such as {twice[:5]}"] if twice else []),
        ]
