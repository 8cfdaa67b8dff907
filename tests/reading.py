"""Reads topics to their ends with librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.waiting import wait_until


class Read(NamedTuple):
    partition: int
    offset: int
    key: Any
    """Bytes, or None."""
    value: Any
    """Bytes, or None."""
    timestamp: tuple[int, int]
    headers: Any


def read_to_end(
    client: str | Mapping[str, Any],
    topic: str,
    partitions: int = 1,
    *,
    at_least: int = 0,
    committed: bool = True,
    within_s: float = 120.0,
) -> list[Read]:
    """All records of the topic, each partition in its order; more if fewer than `at_least` are there yet.

    client: the address of a broker, or properties.
    """
    properties = {"bootstrap.servers": client} if isinstance(client, str) else client
    consumer = Consumer(
        {
            "log_level": 0,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            **properties,
        }
    )
    found: list[Read] = []
    ended: set[int] = set()

    def is_read() -> bool:
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                found.append(_read(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
            else:
                # The client goes on to connect to brokers that are away.
                assert error.code() == KafkaError._ALL_BROKERS_DOWN, error
        return len(ended) == partitions and len(found) >= at_least

    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        wait_until(is_read, f"the end of {topic} and {at_least} records", within_s)
    finally:
        consumer.close()
    return found


def _read(message: Message) -> Read:
    place = message.partition() or 0, message.offset() or 0
    return Read(*place, message.key(), message.value(), message.timestamp(), message.headers())
