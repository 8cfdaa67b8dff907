"""Reads the committed records of a topic, for tests."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

DEADLINE_S = 60


def records_at(bootstrap_servers: str, topic: str) -> list[tuple[bytes, bytes]]:
    """Key and value of all committed records in partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "a test",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    found: list[tuple[bytes, bytes]] = []
    deadline_s = time.monotonic() + DEADLINE_S
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while time.monotonic() < deadline_s:
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                assert error is None, error
                key, value = message.key(), message.value()
                assert isinstance(key, bytes)
                assert isinstance(value, bytes)
                found.append((key, value))
    finally:
        consumer.close()
    raise AssertionError(f"the end of topic {topic} was not reached")
