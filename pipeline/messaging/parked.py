"""Reads all records of partitions, once no transaction on them is open any more."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from highwater.common.topic_partition import partition_name
from highwater.pipeline.messaging.errors import MessagingError
from highwater.pipeline.messaging.exchange import record_of
from highwater.pipeline.messaging.record import Record

_TIMEOUT_S: Final = 120.0
_BATCH: Final = 1000
_POLL_S: Final = 0.1


def read_all(client: Mapping[str, Any], topic: str, ends: Mapping[int, int]) -> dict[int, list[Record]]:
    """The committed records of partitions up to these offsets. Raises MessagingError if that takes too long.

    The offsets are the ends of the logs, open transactions included: the reader waits until these are decided.
    """
    left = {partition: end for partition, end in ends.items() if end > 0}
    found: dict[int, list[Record]] = {partition: [] for partition in ends}
    if not left:
        return found
    consumer = Consumer(
        {
            "log_level": 0,
            **client,
            # librdkafka wants a group; nothing is committed to it.
            "group.id": f"highwater-read-{topic}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
    )
    deadline_s = time.monotonic() + _TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
        while left and time.monotonic() < deadline_s:
            for message in consumer.consume(_BATCH, _POLL_S):
                error, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
                if error is None:
                    found[partition].append(record_of(message))
                    offset += 1
                elif error.code() != KafkaError._PARTITION_EOF:
                    continue
                if offset >= left.get(partition, offset + 1):
                    del left[partition]
    finally:
        consumer.close()
    if left:
        names = ", ".join(partition_name(topic, partition) for partition in left)
        raise MessagingError(
            f"{names} could not be read to the end within {_TIMEOUT_S:.0f} s: a transaction may be open there"
        )
    return found
