"""Reads the committed records of partitions up to given offsets, once no transaction on them is open."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from highwater.common.topic_partition import TopicPartition as Partition
from highwater.common.topic_partition import partition_name
from highwater.pipeline.messaging.errors import MessagingError
from highwater.pipeline.messaging.exchange import record_of
from highwater.pipeline.messaging.record import Record

_TIMEOUT_S: Final = 120.0
_BATCH: Final = 1000
_POLL_S: Final = 0.1


def read_range(
    client: Mapping[str, Any], starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> Iterator[Record]:
    """The committed records of partitions from `starts` up to `ends`, in the order of offsets in each.

    `ends` may be those of the logs, open transactions included: the reader waits until these are decided. Raises
    MessagingError if it gets no further for two minutes.
    """
    left = {partition: end for partition, end in ends.items() if end > starts[partition]}
    if not left:
        return
    consumer = Consumer(
        {
            "log_level": 0,
            **client,
            # librdkafka wants a group; nothing is committed to it.
            "group.id": "highwater-reading",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
    )
    deadline_s = time.monotonic() + _TIMEOUT_S
    try:
        consumer.assign([TopicPartition(*partition, starts[partition]) for partition in left])
        while left and time.monotonic() < deadline_s:
            for message in consumer.consume(_BATCH, _POLL_S):
                error, offset = message.error(), message.offset() or 0
                partition = (message.topic() or "", message.partition() or 0)
                if error is None:
                    deadline_s = time.monotonic() + _TIMEOUT_S
                    if offset < ends[partition]:
                        yield record_of(message)
                    offset += 1
                elif error.code() != KafkaError._PARTITION_EOF:
                    continue
                if offset >= left.get(partition, offset + 1):
                    del left[partition]
                    consumer.incremental_unassign([TopicPartition(*partition)])
    except KafkaException as failure:
        raise MessagingError(f"records cannot be read: {failure.args[0].str()}") from None
    finally:
        consumer.close()
    if left:
        names = ", ".join(partition_name(*partition) for partition in left)
        raise MessagingError(
            f"{names} could not be read to the end within {_TIMEOUT_S:.0f} s: a transaction may be open there"
        )
