"""Fetch (key 1), versions 4 to 18, by hand.

    request  v4: replica_id i32, max_wait_ms i32, min_bytes i32, max_bytes i32, isolation_level i8,
                 topics [topic string, [partition i32, fetch_offset i64, partition_max_bytes i32]]
             v5: + log_start_offset i64 after fetch_offset
             v7: + session_id i32, session_epoch i32 before the topics, forgotten topics [topic, [partition i32]] after
                 them (KIP-227)
             v9: + current_leader_epoch i32 after partition
            v11: + rack_id string at the end
            v12: flexible, + last_fetched_epoch i32 after fetch_offset; tag 0 cluster_id
            v13: topic ids for names (KIP-516)
            v15: replica_id leaves for tag 1 {replica_id, replica_epoch} (KIP-903)
            v17: a partition may have tag 0, the id of a directory, which only KRaft brokers send (KIP-853)
            v18: and tag 1, the high watermark that a replica of KRaft's metadata knows (KIP-1166)
    response v4: throttle_time_ms i32, topics [topic string, [partition i32, error i16, high_watermark i64,
                 last_stable_offset i64, aborted transactions [producer_id i64, first_offset i64] or null,
                 records bytes]]
             v5: + log_start_offset i64 after last_stable_offset
             v7: + error i16, session_id i32 after the throttle time
            v11: + preferred_read_replica i32 after the aborted transactions
            v12: flexible; partition tags: 0 diverging epoch, 1 current leader, 2 snapshot id

Records are separate parts of the answer, so they are never copied into it.

Followers ask and are answered in version 17 alone: Kafka 3.9 does the same, from inter.broker.protocol.version=3.9 on.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.kafka.pacing import each
from highwater.kafka.protocol.frame import Part
from highwater.kafka.protocol.primitives import (
    NO_TAGS,
    Decoder,
    array_length,
    bytes_length,
    error_code_of,
    int32_array,
    string,
    unsigned_varint,
)

FOLLOWER_VERSION: Final = 17
FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
_REPLICA_IN_TAGS_FROM: Final = 15
CONSUMER_REPLICA_ID: Final = -1
NO_ERROR: Final = ErrorCode.none
"""Looked up once: a member of an enumeration costs as much as the rest of a small object."""
READ_COMMITTED: Final = 1

_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_PARTITION_V12: Final = struct.Struct(">iiqiqi")
_PARTITION_HEAD: Final = struct.Struct(">ihqq")
_ANSWER_HEAD: Final = struct.Struct(">ihqqq")
_FLEXIBLE_ANSWER: Final = struct.Struct(">ihqqqbi")
_FOLLOWER_HEAD: Final = struct.Struct(">iiibii")
_RESPONSE_HEAD: Final = struct.Struct(">ihi")
_REPLICA_STATE: Final = struct.Struct(">iq")
_EPOCH_AND_OFFSET: Final = struct.Struct(">iq")
_ABORTED: Final = struct.Struct(">qq")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


# Plain classes and tuples, as in produce.py.


class FetchPartition:
    """What a fetch wants of one partition; `log_start_offset` is that of the follower that asks."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
    )

    def __init__(
        self,
        partition: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        partition_max_bytes: int,
        log_start_offset: int = -1,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.partition_max_bytes = partition_max_bytes
        self.log_start_offset = log_start_offset


FetchTopic: TypeAlias = tuple[str | UUID, list[FetchPartition]]
"""(topic, partitions): the topic is a name up to version 12 and a topic id from version 13."""


class FetchRequest:
    __slots__ = (
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_epoch",
        "replica_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        replica_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        session_id: int,
        session_epoch: int,
        topics: Sequence[FetchTopic],
        forgotten: list[tuple[str | UUID, int]],
        rack_id: str,
        replica_epoch: int = -1,
    ) -> None:
        """`forgotten` are (topic, partition) that an incremental fetch wants no longer.

        replica_epoch: the broker epoch of the follower that asks, where it says so.
        """
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten = forgotten
        self.rack_id = rack_id
        self.replica_epoch = replica_epoch


class PartitionFetched:
    """The answer for one partition."""

    __slots__ = (
        "aborted_transactions",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "records",
    )

    def __init__(
        self,
        partition: int,
        error_code: ErrorCode = NO_ERROR,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: Part = b"",
        aborted_transactions: Sequence[tuple[int, int]] | None = None,
        diverging_epoch: tuple[int, int] | None = None,
        preferred_read_replica: int = -1,
    ) -> None:
        """Records are empty, not null, on an error: librdkafka refuses null.

        aborted_transactions: (producer id, first offset); None unless the reader asked for committed records only.
        diverging_epoch: (epoch, end offset) of the largest epoch that the log and the reader share (KIP-595).
        preferred_read_replica: the follower that the reader shall read from instead (KIP-392).
        """
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.aborted_transactions = aborted_transactions
        self.diverging_epoch = diverging_epoch
        self.preferred_read_replica = preferred_read_replica


def decode_request(decoder: Decoder, version: int) -> FetchRequest:
    replica_id = decoder.int32() if version < _REPLICA_IN_TAGS_FROM else CONSUMER_REPLICA_ID
    max_wait_ms = decoder.int32()
    min_bytes = decoder.int32()
    max_bytes = decoder.int32()
    isolation_level = decoder.int8()
    session_id, session_epoch = (decoder.int32(), decoder.int32()) if version >= 7 else (0, -1)
    topics: list[FetchTopic] = []
    for _ in decoder.items():
        topic = _topic(decoder, version)
        partitions: list[FetchPartition] = []
        for _ in decoder.items(least_item_bytes=16):
            partitions.append(_partition(decoder, version))
            decoder.skip_tags()
        decoder.skip_tags()
        topics.append((topic, partitions))
    forgotten: list[tuple[str | UUID, int]] = []
    if version >= 7:
        for _ in decoder.items():
            topic = _topic(decoder, version)
            forgotten += [(topic, decoder.int32()) for _ in decoder.items(least_item_bytes=4)]
            decoder.skip_tags()
    rack_id = decoder.string() if version >= 11 else ""
    replica_epoch = -1
    if decoder.flexible:
        replica_id, replica_epoch = _replica_from_tags(decoder, replica_id)
    return FetchRequest(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        replica_epoch,
    )


def _partition(decoder: Decoder, version: int) -> FetchPartition:
    current_leader_epoch = last_fetched_epoch = log_start = -1
    if version >= 12:
        partition, current_leader_epoch, offset, last_fetched_epoch, log_start, max_bytes = decoder.fields(
            _PARTITION_V12
        )
    elif version >= 9:
        partition, current_leader_epoch, offset, log_start, max_bytes = decoder.fields(_PARTITION_V9)
    elif version >= 5:
        partition, offset, log_start, max_bytes = decoder.fields(_PARTITION_V5)
    else:
        partition, offset, max_bytes = decoder.fields(_PARTITION_V4)
    return FetchPartition(partition, current_leader_epoch, offset, last_fetched_epoch, max_bytes, log_start)


def _topic(decoder: Decoder, version: int) -> str | UUID:
    return decoder.uuid() if version >= TOPIC_IDS_FROM else decoder.string()


def _replica_from_tags(decoder: Decoder, replica_id: int) -> tuple[int, int]:
    replica_epoch = -1
    for tag, section in decoder.tags():
        if tag == 1:
            replica_id, replica_epoch = section.fields(_REPLICA_STATE)
    return replica_id, replica_epoch


class FetchAnswer(NamedTuple):
    error_code: ErrorCode
    session_id: int
    topics: list[tuple[UUID, list[PartitionFetched]]]
    """The records are views of the answer's bytes."""


def encode_follower_request(request: FetchRequest) -> bytes:
    """A follower's request in FOLLOWER_VERSION; its topics are ids."""
    out = bytearray(_head(request))
    out += _topics(request.topics)
    forgotten: dict[UUID, list[int]] = {}
    for topic, partition in request.forgotten:
        assert isinstance(topic, UUID)
        forgotten.setdefault(topic, []).append(partition)
    out += unsigned_varint(len(forgotten) + 1)
    for topic, indexes in forgotten.items():
        out += topic.bytes + int32_array(indexes, flexible=True) + NO_TAGS
    out += string(request.rack_id, flexible=True)
    state = _REPLICA_STATE.pack(request.replica_id, request.replica_epoch) + NO_TAGS
    out += unsigned_varint(1) + unsigned_varint(1) + unsigned_varint(len(state)) + state
    return bytes(out)


def encode_consumer_request(request: FetchRequest, version: int) -> bytes:
    """A consumer's request without a session, in a flexible version; topics are ids from TOPIC_IDS_FROM on."""
    head = b"" if version >= _REPLICA_IN_TAGS_FROM else _INT32.pack(CONSUMER_REPLICA_ID)
    return b"".join(
        (
            head,
            _head(request),
            _topics(request.topics),
            array_length(0, flexible=True),
            string(request.rack_id, flexible=True),
            NO_TAGS,
        )
    )


def _head(request: FetchRequest) -> bytes:
    return _FOLLOWER_HEAD.pack(
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
    )


def _topics(topics: Sequence[FetchTopic]) -> bytes:
    out = bytearray(unsigned_varint(len(topics) + 1))
    for topic, partitions in topics:
        out += topic.bytes if isinstance(topic, UUID) else string(topic, flexible=True)
        out += unsigned_varint(len(partitions) + 1)
        for wanted in partitions:
            out += _PARTITION_V12.pack(
                wanted.partition,
                wanted.current_leader_epoch,
                wanted.fetch_offset,
                wanted.last_fetched_epoch,
                wanted.log_start_offset,
                wanted.partition_max_bytes,
            )
            out += NO_TAGS
        out += NO_TAGS
    return bytes(out)


def decode_consumer_response(decoder: Decoder, version: int) -> tuple[ErrorCode, list[PartitionFetched]]:
    """The answer to a consumer that fetched one topic, in a flexible version; the records are views of its bytes.

    Raises MalformedRequestError.
    """
    _, error_code, _ = decoder.fields(_RESPONSE_HEAD)
    partitions: list[PartitionFetched] = []
    for _ in range(decoder.array_length()):
        _topic(decoder, version)
        partitions += _partitions_fetched(decoder)
        decoder.skip_tags()
    return error_code_of(error_code), partitions


def decode_follower_response(body: memoryview) -> FetchAnswer:
    """The answer to a follower. Raises MalformedRequestError."""
    decoder = Decoder(body, flexible=True)
    _, error_code, session_id = decoder.fields(_RESPONSE_HEAD)
    topics: list[tuple[UUID, list[PartitionFetched]]] = []
    for _ in range(decoder.array_length()):
        topic_id = decoder.uuid()
        topics.append((topic_id, _partitions_fetched(decoder)))
        decoder.skip_tags()
    return FetchAnswer(error_code_of(error_code), session_id, topics)


def _partitions_fetched(decoder: Decoder) -> list[PartitionFetched]:
    partitions = []
    for _ in range(decoder.array_length(least_item_bytes=_PARTITION_HEAD.size)):
        partition, error, high_watermark, last_stable_offset, log_start_offset = decoder.fields(_ANSWER_HEAD)
        aborted = [
            _read_aborted_transaction(decoder) for _ in range(decoder.array_length(least_item_bytes=_ABORTED.size))
        ]
        preferred_read_replica = decoder.int32()
        records = decoder.nullable_bytes()
        diverging_epoch = _diverging_epoch_from_tags(decoder)
        partitions.append(
            PartitionFetched(
                partition,
                error_code_of(error),
                high_watermark,
                last_stable_offset,
                log_start_offset,
                b"" if records is None else records,
                aborted,
                diverging_epoch,
                preferred_read_replica,
            )
        )
    return partitions


def _read_aborted_transaction(decoder: Decoder) -> tuple[int, int]:
    producer_id, first_offset = decoder.fields(_ABORTED)
    decoder.skip_tags()
    return producer_id, first_offset


def _diverging_epoch_from_tags(decoder: Decoder) -> tuple[int, int] | None:
    diverging = None
    for tag, section in decoder.tags():
        if tag == 0:
            epoch, end_offset = section.fields(_EPOCH_AND_OFFSET)
            diverging = (epoch, end_offset)
    return diverging


def encode_response(
    topics: Sequence[tuple[str | UUID, Sequence[PartitionFetched]]],
    version: int,
    *,
    error_code: ErrorCode = ErrorCode.none,
    session_id: int = 0,
    throttle_time_ms: int = 0,
) -> list[Part]:
    flexible = version >= FLEXIBLE_FROM
    parts: list[Part] = []
    out = bytearray(_RESPONSE_HEAD.pack(throttle_time_ms, error_code, session_id)[: None if version >= 7 else 4])
    out += array_length(len(topics), flexible)
    for topic, partitions in each(topics):
        out += topic.bytes if isinstance(topic, UUID) else string(topic, flexible)
        out += array_length(len(partitions), flexible)
        for answer in each(partitions):
            aborted, records = answer.aborted_transactions, answer.records
            if flexible and not aborted:
                out += _FLEXIBLE_ANSWER.pack(
                    answer.partition,
                    answer.error_code,
                    answer.high_watermark,
                    answer.last_stable_offset,
                    answer.log_start_offset,
                    0 if aborted is None else 1,
                    answer.preferred_read_replica,
                )
            else:
                out += _head_of(answer, version, flexible)
            size = len(records)
            out += bytes_length(size, flexible)
            if size:
                parts += (out, records)
                out = bytearray()
            if flexible:
                out += NO_TAGS if answer.diverging_epoch is None else _divergence(answer.diverging_epoch)
        if flexible:
            out += NO_TAGS
    if flexible:
        out += NO_TAGS
    if out:
        parts.append(out)
    return parts


def _head_of(answer: PartitionFetched, version: int, flexible: bool) -> bytearray:
    """What an answer has before the length of its records."""
    out = bytearray(
        _PARTITION_HEAD.pack(answer.partition, answer.error_code, answer.high_watermark, answer.last_stable_offset)
    )
    if version >= 5:
        out += _INT64.pack(answer.log_start_offset)
    aborted = answer.aborted_transactions
    out += array_length(-1 if aborted is None else len(aborted), flexible)
    for transaction in aborted or ():
        out += _ABORTED.pack(*transaction)
        if flexible:
            out += NO_TAGS
    if version >= 11:
        out += _INT32.pack(answer.preferred_read_replica)
    return out


def _divergence(diverging_epoch: tuple[int, int]) -> bytes:
    value = _EPOCH_AND_OFFSET.pack(*diverging_epoch) + NO_TAGS
    return unsigned_varint(1) + unsigned_varint(0) + unsigned_varint(len(value)) + value
