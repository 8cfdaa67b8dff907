"""Produce (key 0), versions 3 to 13, by hand: this and Fetch are where the time goes.

    request  v3: transactional_id nullable_string, acks i16, timeout_ms i32,
                 topics [topic string, [partition i32, records bytes]]
             v9: flexible
            v13: topic ids for names (KIP-516)
    response v3: topics [topic string, [partition i32, error i16, base_offset i64, log_append_time_ms i64]],
                 throttle_time_ms i32
             v5: + log_start_offset i64
             v8: + record errors [batch_index i32, message], error message nullable_string
             v9: flexible
            v10: + tags "current leader" of a partition and "node endpoints" (KIP-951)
            v13: topic ids for names

v12 has the bytes of v11: it says that the client follows the rules of transactions of KIP-890's second part.

Records are handed on as views of the receive buffer, unopened.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.kafka.pacing import each
from highwater.kafka.protocol.frame import Part
from highwater.kafka.protocol.primitives import NO_TAGS, Decoder, array_length, nullable_string, string

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13

ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">ihqqq")
_PARTITION_BEFORE_V5: Final = struct.Struct(">ihqq")
# With no record errors, no message and no tags behind it, as nearly all answers are.
_FLEXIBLE_PARTITION: Final = struct.Struct(">ihqqqbbb")
_INT32: Final = struct.Struct(">i")


# Plain classes and tuples: machine code makes them without the interpreter (docs/results/request-cost.md).

ProducePartition: TypeAlias = tuple[int, memoryview | None]
"""(partition, records)"""
ProduceTopic: TypeAlias = tuple[str | UUID, list[ProducePartition]]
"""(topic, partitions): the topic is a name up to version 12 and a topic id from version 13."""


class ProduceRequest:
    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(self, transactional_id: str | None, acks: int, timeout_ms: int, topics: list[ProduceTopic]) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics


class PartitionProduced:
    """The answer for one partition."""

    __slots__ = (
        "base_offset",
        "error_code",
        "error_message",
        "log_append_time_ms",
        "log_start_offset",
        "partition",
        "record_errors",
    )

    def __init__(
        self,
        partition: int,
        error_code: ErrorCode,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        error_message: str | None = None,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        """`record_errors` are (position in the batch, reason)."""
        self.partition = partition
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.error_message = error_message
        self.record_errors = record_errors


def decode_request(decoder: Decoder, version: int) -> ProduceRequest:
    transactional_id = decoder.nullable_string()
    acks, timeout_ms = decoder.fields(ACKS_AND_TIMEOUT)
    topics: list[ProduceTopic] = []
    for _ in decoder.items():
        topic = decoder.string() if version < TOPIC_IDS_FROM else decoder.uuid()
        partitions: list[ProducePartition] = []
        for _ in decoder.items(least_item_bytes=5):
            partitions.append((decoder.int32(), decoder.nullable_bytes()))
            decoder.skip_tags()
        decoder.skip_tags()
        topics.append((topic, partitions))
    decoder.skip_tags()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_response(
    topics: Sequence[tuple[str | UUID, Sequence[PartitionProduced]]], version: int, throttle_time_ms: int = 0
) -> list[Part]:
    flexible = version >= FLEXIBLE_FROM
    no_record_errors = array_length(0, flexible)
    out = bytearray(array_length(len(topics), flexible))
    for topic, partitions in each(topics):
        out += string(topic, flexible) if isinstance(topic, str) else topic.bytes
        out += array_length(len(partitions), flexible)
        for answer in each(partitions):
            partition, error_code, base_offset = answer.partition, answer.error_code, answer.base_offset
            time_ms, log_start_offset = answer.log_append_time_ms, answer.log_start_offset
            error_message, record_errors = answer.error_message, answer.record_errors
            if flexible and error_message is None and not record_errors:
                out += _FLEXIBLE_PARTITION.pack(partition, error_code, base_offset, time_ms, log_start_offset, 1, 0, 0)
                continue
            if version >= 5:
                out += _PARTITION.pack(partition, error_code, base_offset, time_ms, log_start_offset)
            else:
                out += _PARTITION_BEFORE_V5.pack(partition, error_code, base_offset, time_ms)
            if version >= 8:
                out += _record_errors(record_errors, flexible) if record_errors else no_record_errors
                out += nullable_string(error_message, flexible)
            if flexible:
                out += NO_TAGS
        if flexible:
            out += NO_TAGS
    out += _INT32.pack(throttle_time_ms)
    if flexible:
        out += NO_TAGS
    return [out]


def _record_errors(errors: Sequence[tuple[int, str]], flexible: bool) -> bytearray:
    out = bytearray(array_length(len(errors), flexible))
    for position, message in each(errors):
        out += _INT32.pack(position)
        out += nullable_string(message, flexible)
        if flexible:
            out += NO_TAGS
    return out
