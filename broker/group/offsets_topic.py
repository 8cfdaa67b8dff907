"""The internal topic `__consumer_offsets`: where a group's records go, how they are appended, and reading them back."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from broker.records.batch import Codec, CorruptBatch, headers
from broker.records.record import Record, decode_batch, encode_batch
from broker.replica.partition import Partition

if TYPE_CHECKING:
    from broker.config import BrokerConfig
    from broker.node import Node

_logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"

KeyValue = tuple[bytes, bytes | None]
"""A record of the topic; without a value it is a tombstone."""


class OffsetsTopic:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._codec = Codec(node.config.integer("offsets.topic.compression.codec"))
        self._read_bytes = node.config.integer("offsets.load.buffer.size")

    @property
    def partitions(self) -> Sequence[Partition]:
        """Empty while the topic does not exist."""
        topic = self._node.topic(OFFSETS_TOPIC)
        return [] if topic is None else topic.partitions

    def append(
        self, partition: Partition, records: Sequence[KeyValue], now_ms: int, then: Callable[[ErrorCode], None]
    ) -> None:
        """Append these as one batch, and call back when they are safe (the high watermark has passed them) or refused.

        That may be before this returns.
        """
        batch = encode_batch([Record(value, key, now_ms) for key, value in records], codec=self._codec)
        try:
            appended = partition.append(memoryview(batch), -1, now_ms)
        except OSError as error:
            _logger.error("cannot append to %s-%d: %s", OFFSETS_TOPIC, partition.index, error)
            then(ErrorCode.kafka_storage_error)
            return
        if isinstance(appended, ErrorCode):
            _logger.error("cannot append to %s-%d: %s", OFFSETS_TOPIC, partition.index, appended.name)
            then(appended)
        elif partition.is_acknowledged(appended.last_offset):
            then(ErrorCode.none)
        else:
            partition.when_acknowledged(appended.last_offset, then)

    def read(self, partition: Partition, latest: dict[bytes, bytes]) -> Iterator[None]:
        """Leave in `latest` the last value of every key; yields from time to time. Raises CorruptBatch."""
        log = partition.log
        offset = log.log_start_offset
        end_offset = log.log_end_offset
        while offset < end_offset:
            chunk = log.read(offset, self._read_bytes, end_offset=end_offset, at_least_one_batch=True)
            if isinstance(chunk, ErrorCode):
                raise CorruptBatch(f"offset {offset} cannot be read: {chunk.name}")
            if not chunk:
                return
            for position, header in headers(chunk):
                offset = header.next_offset
                if not header.is_control:
                    _keep_last(decode_batch(memoryview(chunk)[position:], header), latest)
                yield


def _keep_last(records: Sequence[Record], latest: dict[bytes, bytes]) -> None:
    for record in records:
        if record.key is None:
            raise CorruptBatch(f"the record at offset {record.offset} has no key")
        latest.pop(record.key, None)
        if record.value is not None:
            latest[record.key] = record.value


def topic_overrides(config: BrokerConfig) -> Mapping[str, str | None]:
    """The configuration that the topic is created with."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
    }


def partition_of(group_id: str, partition_count: int) -> int:
    """Where the records of a group are: by Java's hash of its name, as Kafka has it."""
    hashed = 0
    utf_16 = group_id.encode("utf-16-be")
    for unit in struct.unpack(f">{len(utf_16) // 2}H", utf_16):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    # Java's abs of its least integer is negative, so Kafka takes 0 there (Utils.abs).
    return 0 if signed == -(1 << 31) else abs(signed) % partition_count
