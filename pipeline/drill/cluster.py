"""The cluster that a drill uses: makes and removes topics, produces and reads by librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from highwater.admin.client import with_tokens
from highwater.admin.terminal import UsageError
from highwater.pipeline.drill.errors import DrillError, DrillSetupError
from highwater.pipeline.drill.ledger import Row
from highwater.pipeline.drill.names import BATCH_HEADER

DEADLINE_S: Final = 60.0
_UNKNOWN: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND)


class DrillCluster:
    """properties: librdkafka's, `bootstrap.servers` among them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        try:
            self._properties: dict[str, Any] = {"log_level": 0, **with_tokens(properties)}
            self._admin = AdminClient(self._properties)
            self._admin.list_topics(timeout=DEADLINE_S / 4)
        except UsageError as error:
            raise DrillSetupError(str(error)) from None
        except KafkaException as error:
            raise DrillSetupError(f"{properties['bootstrap.servers']}: {error.args[0].str()}") from None

    def create_topic(self, name: str, partitions: int) -> None:
        """Replicated as the cluster's default says. Raises DrillSetupError."""
        _wait(self._admin.create_topics([NewTopic(name, partitions)]), "cannot be created")

    def remove(self, topics: Iterable[str], groups: Iterable[str]) -> None:
        """What is not there is no error. Raises DrillError."""
        names, ids = list(topics), list(groups)
        if names:
            _wait(self._admin.delete_topics(names), "cannot be deleted")
        if ids:
            _wait(self._admin.delete_consumer_groups(ids), "cannot be deleted")

    def remove_groups(self, prefix: str) -> None:
        """All groups whose names begin with it. Raises DrillError."""
        found = self._admin.list_consumer_groups(request_timeout=DEADLINE_S).result(DEADLINE_S)
        self.remove([], [each.group_id for each in found.valid if each.group_id.startswith(prefix)])

    def produce(self, topic: str, partitions: int, keys: Iterable[str]) -> None:
        """Return when each record is acknowledged by all replicas. Raises DrillError."""
        # The broker may have been killed a moment ago: idempotence lets librdkafka repeat what was not acknowledged.
        producer = Producer({**self._properties, "enable.idempotence": True, "linger.ms": 5})
        refused: list[str] = []

        def on_delivery(error: KafkaError | None, _message: Any) -> None:
            if error is not None:
                refused.append(error.str())

        for number, key in enumerate(keys):
            value = f'{{"id":"{key}","text":"{"x" * (number % 50)}"}}'
            producer.produce(topic, value.encode(), key.encode(), number % partitions, on_delivery=on_delivery)
        left = producer.flush(DEADLINE_S)
        if left or refused:
            raise DrillError(f"{topic}: {left or len(refused)} records were not acknowledged {refused[:1]}")

    def reader(self, topic: str, partitions: int) -> TopicReader:
        return TopicReader(self._properties, topic, partitions)


class TopicReader:
    """Reads on with isolation.level=read_committed, and keeps all rows that it has seen."""

    def __init__(self, properties: Mapping[str, Any], topic: str, partitions: int) -> None:
        settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
        self._consumer = Consumer({**properties, **settings, "group.id": "hw-drill-unused", "fetch.wait.max.ms": 10})
        self._topic = topic
        self._next = dict.fromkeys(range(partitions), 0)
        self._rows: list[Row] = []

    def read_to_end(self, within_s: float = DEADLINE_S) -> list[Row]:
        """All rows up to the last stable offsets of now. Raises DrillError if these are not reached."""
        # librdkafka reports an end once; a new assignment makes it report the end again.
        self._consumer.assign([TopicPartition(self._topic, *position) for position in self._next.items()])
        left = set(self._next)
        deadline_s = time.monotonic() + within_s
        while left:
            if time.monotonic() > deadline_s:
                raise DrillError(f"{self._topic} could not be read to its end within {within_s:.0f} s")
            messages: list[Any] = self._consumer.consume(1000, 0.1)
            for message in messages:
                error = message.error()
                if error is None:
                    headers = dict(message.headers() or ())
                    self._rows.append(Row(message.key().decode(), headers.get(BATCH_HEADER, b"").decode()))
                    self._next[message.partition()] = message.offset() + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._next[message.partition()] = message.offset()
                    left.discard(message.partition())
        return self._rows

    def close(self) -> None:
        self._consumer.close()


def _wait(futures: Mapping[str, Future[Any]], what: str) -> None:
    for name, future in futures.items():
        try:
            future.result(DEADLINE_S)
        except KafkaException as error:
            if error.args[0].code() not in _UNKNOWN:
                raise DrillSetupError(f"{name} {what}: {error.args[0].str()}") from None
