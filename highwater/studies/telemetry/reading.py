"""Reads the whole telemetry topic in this process, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition

from highwater.bench.telemetry.control import ControlTopic
from highwater.common.errors import UsageError
from highwater.common.nearest import no_topic
from highwater.studies.telemetry.rows import rows_of
from highwater.studies.telemetry.sums import Sums, summed

_ANSWER_S: Final = 10.0
_MESSAGES: Final = 5000


def sums_in_one_process(control: ControlTopic) -> Sums:
    """All that is on the topic now, summed up without Spark. Raises UsageError when it cannot be read."""
    sums = Sums()
    try:
        for messages in _messages(control):
            sums.add(summed(pa.Table.from_batches([rows_of(messages)])))
    except KafkaException as error:
        raise UsageError(
            f"topic {control.topic} at {control.bootstrap_servers} cannot be read: {error.args[0].str()}"
        ) from error
    return sums


def _messages(control: ControlTopic) -> Iterator[list[bytes | None]]:
    settings = {"bootstrap.servers": control.bootstrap_servers, "group.id": "highwater-telemetry", "log_level": 0}
    consumer = Consumer({**settings, **control.connection, "enable.auto.commit": False, "auto.offset.reset": "error"})
    try:
        # Asked for one topic, the broker might make it.
        topics = consumer.list_topics(timeout=_ANSWER_S).topics
        if control.topic not in topics:
            raise UsageError(
                f"at {control.bootstrap_servers} {no_topic(control.topic)}; bench run --telemetry "
                f"{control.bootstrap_servers} makes hw.telemetry"
            )
        partitions = topics[control.topic].partitions
        left: dict[int, int] = {}
        starts = []
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(control.topic, partition), timeout=_ANSWER_S)
            if low < high:
                left[partition] = high
                starts.append(TopicPartition(control.topic, partition, low))
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
