"""The topics of the control broker: made when they are missing, and read without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.bench.errors import UsageError
from highwater.bench.telemetry.rows import rows_of
from highwater.bench.telemetry.sums import Sums, summed

PARTITIONS: Final = 4
_ANSWER_S: Final = 10.0
_MESSAGES: Final = 5000


def cluster_of(bootstrap_servers: str, connection: Mapping[str, str]) -> str:
    """The id of the cluster that answers there. Raises UsageError when none does."""
    try:
        found = _admin(bootstrap_servers, connection).list_topics(timeout=_ANSWER_S).cluster_id
    except (KafkaException, ValueError) as error:
        raise UsageError(
            f"no control broker answers at {bootstrap_servers} within {_ANSWER_S:g} s; start one beside the system "
            "under test (highwater broker start), or leave telemetry out"
        ) from error
    return str(found)


def make_topic(bootstrap_servers: str, connection: Mapping[str, str], topic: str) -> None:
    """Make the topic if it is missing. Raises UsageError."""
    cluster_of(bootstrap_servers, connection)
    admin = _admin(bootstrap_servers, connection)
    if topic in admin.list_topics(timeout=_ANSWER_S).topics:
        return
    try:
        for future in admin.create_topics([NewTopic(topic, PARTITIONS)]).values():
            future.result(_ANSWER_S)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise UsageError(f"topic {topic} cannot be made at {bootstrap_servers}: {error.args[0].str()}") from error


def sums_in_one_process(bootstrap_servers: str, connection: Mapping[str, str], topic: str) -> Sums:
    """All that is on the topic now, summed up without Spark. Raises UsageError when it cannot be read."""
    sums = Sums()
    try:
        for messages in _messages(bootstrap_servers, connection, topic):
            sums.add(summed(pa.Table.from_batches([rows_of(messages)])))
    except KafkaException as error:
        raise UsageError(f"topic {topic} at {bootstrap_servers} cannot be read: {error.args[0].str()}") from error
    return sums


def _messages(bootstrap_servers: str, connection: Mapping[str, str], topic: str) -> Iterator[list[bytes | None]]:
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "highwater-telemetry", "log_level": 0}
    consumer = Consumer({**settings, **connection, "enable.auto.commit": False, "auto.offset.reset": "error"})
    try:
        partitions = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions
        left: dict[int, int] = {}
        starts = []
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ANSWER_S)
            if low < high:
                left[partition] = high
                starts.append(TopicPartition(topic, partition, low))
        consumer.assign(starts)
        while left:
            taken: list[bytes | None] = []
            for message in consumer.consume(_MESSAGES, 1.0):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if partition in left and offset < left[partition]:
                    value = message.value()
                    taken.append(value if isinstance(value, bytes) else None)
                    if offset + 1 >= left[partition]:
                        del left[partition]
            yield taken
    finally:
        consumer.close()


def _admin(bootstrap_servers: str, connection: Mapping[str, str]) -> AdminClient:
    return AdminClient({**connection, "bootstrap.servers": bootstrap_servers, "log_level": 0})
