"""Topics of a running broker for the tests of the source, written and read by librdkafka: the second opinion."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from tests.reading import Read, read_to_end
from tests.topics import create_topics

Value = TypeVar("Value")

DEADLINE_S = 60.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HEADERS = [("same", b"1"), ("same", b""), ("none", None)]


class Topics:
    """Makes, fills, empties and deletes topics."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0}
        self._admin = AdminClient(self._client)

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        create_topics(self.address, [NewTopic(name, partitions, 1, config=settings)])

    def delete(self, name: str) -> None:
        for deleted in self._admin.delete_topics([name]).values():
            deleted.result(DEADLINE_S)

    def exists(self, name: str) -> bool:
        return name in self._admin.list_topics(timeout=DEADLINE_S).topics

    def grow(self, name: str, partitions: int) -> None:
        for grown in self._admin.create_partitions([NewPartitions(name, partitions)]).values():
            grown.result(DEADLINE_S)

    def delete_records(self, name: str, offset: int, partition: int = 0) -> None:
        for deleted in self._admin.delete_records([TopicPartition(name, partition, offset)]).values():
            deleted.result(DEADLINE_S)

    def committed(self, group: str, name: str, partition: int = 0) -> int:
        """−1001 if the group has no offset there."""
        consumer = Consumer({**self._client, "group.id": group})
        try:
            return int(consumer.committed([TopicPartition(name, partition)], DEADLINE_S)[0].offset)
        finally:
            consumer.close()

    def note(self, group: str, name: str, partition: int = 0) -> str:
        """The metadata of the group's offset. confluent-kafka returns them with bytes of other memory at the end."""
        with Client(settings_of({"bootstrap.servers": self.address})) as client:
            found = client.committed_offsets(group, [(name, partition)])
        assert not isinstance(found, BrokerError)
        committed = found[name, partition]
        assert not isinstance(committed, BrokerError)
        return committed.metadata

    def produce(
        self,
        name: str,
        count: int,
        *,
        partition: int = 0,
        keys: int | None = None,
        timestamps_ms: Sequence[int] = (),
        codec: str = "none",
    ) -> None:
        """Records with and without keys, values and headers; `keys` different keys, if it is given."""
        producer = Producer({**self._client, "compression.type": codec, "linger.ms": 5, "batch.num.messages": 50})
        for number in range(count):
            key = f"key {number % keys}".encode() if keys else None if number % 3 == 0 else b"key %d" % number
            producer.produce(
                name,
                None if number % 7 == 6 and not keys else b"value %d " % number * (1 + number % 5),
                key,
                partition,
                headers=[*HEADERS, ("number", b"%d" % number)] if number % 4 == 1 else None,
                timestamp=timestamps_ms[number] if timestamps_ms else 0,
            )
        assert producer.flush(DEADLINE_S) == 0

    def transaction(self, name: str, count: int, *, commit: bool, partition: int = 0) -> None:
        producer = Producer({**self._client, "transactional.id": f"{name}-{time.monotonic_ns()}"})
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(name, b"committed" if commit else b"aborted", b"%d" % number, partition)
        producer.flush(DEADLINE_S)
        if commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)

    def rows(self, name: str, partitions: int = 1, *, read_committed: bool = False) -> list[dict[str, Any]]:
        """What librdkafka reads, as the rows that the source should make of it, by partition and offset."""
        found = read_to_end(self._client, name, partitions, committed=read_committed, within_s=DEADLINE_S)
        return by_offset(_row(name, each) for each in found)


def _row(topic: str, found: Read) -> dict[str, Any]:
    kind, timestamp_ms = found.timestamp
    return {
        "key": found.key,
        "value": found.value,
        "topic": topic,
        "partition": found.partition,
        "offset": found.offset,
        "timestamp": EPOCH + timedelta(milliseconds=timestamp_ms),
        "timestampType": kind - 1,
        "headers": None if found.headers is None else [{"key": key, "value": value} for key, value in found.headers],
    }


def by_offset(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def copied(value: Value) -> Value:
    """A copy as Spark makes it for its other processes."""
    copy: Value = pickle.loads(pickle.dumps(value))  # noqa: S301 - of our own making
    return copy
