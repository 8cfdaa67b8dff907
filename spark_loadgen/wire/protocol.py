"""Kafka's requests and answers of the wire driver, as bytes; no version is a flexible one. Pure.

ApiVersions 0, Metadata 5 (Kafka 1.0), InitProducerId 1 (Kafka 2.0), Produce 7 (Kafka 2.1):
https://kafka.apache.org/protocol. Every request and every answer is framed by its length as an int32.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

PRODUCE: Final = 0
METADATA: Final = 3
API_VERSIONS: Final = 18
INIT_PRODUCER_ID: Final = 22
PRODUCE_VERSION: Final = 7
METADATA_VERSION: Final = 5
INIT_PRODUCER_ID_VERSION: Final = 1
LENGTH: Final = struct.Struct(">i")

# Errors after which the driver may resend the same batch.
RETRIABLE: Final = frozenset({2, 3, 5, 6, 7, 9, 13, 19, 20, 56, 74, 75})
# Those retriable errors that mean that another broker may lead the partition now.
STALE_METADATA: Final = frozenset({3, 5, 6, 9, 13, 56, 74, 75})

# Errors for idempotent producers: a gap before the batch (59, UNKNOWN_PRODUCER_ID: brokers before Kafka 2.5 that have
# forgotten the producer), and a batch that is in the log already.
OUT_OF_SEQUENCE: Final = frozenset({45, 59})
DUPLICATE_SEQUENCE: Final = 46

_HEADER: Final = struct.Struct(">hhi")
_GIVEN_PRODUCER: Final = struct.Struct(">ihqh")
_ANSWERED_PARTITION: Final = struct.Struct(">ihqqq")


class MalformedAnswerError(Exception):
    """A peer sent something that is not a valid answer to the request."""


class ProduceAnswer(NamedTuple):
    error: int
    throttle_ms: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """brokers: id -> (host, port). leaders: (topic, partition) -> broker id, -1 for none. errors: topic -> code."""

    brokers: dict[int, tuple[str, int]]
    leaders: dict[tuple[str, int], int]
    errors: dict[str, int]


def request(api: int, version: int, correlation: int, client_id: str, body: bytes) -> bytes:
    """A complete frame."""
    payload = _HEADER.pack(api, version, correlation) + _string(client_id) + body
    return LENGTH.pack(len(payload)) + payload


def api_versions_request(correlation: int, client_id: str) -> bytes:
    return request(API_VERSIONS, 0, correlation, client_id, b"")


def metadata_request(correlation: int, client_id: str, topics: Sequence[str]) -> bytes:
    """A Metadata request that does not create topics."""
    body = LENGTH.pack(len(topics)) + b"".join(map(_string, topics)) + b"\x00"
    return request(METADATA, METADATA_VERSION, correlation, client_id, body)


def init_producer_id_request(correlation: int, client_id: str) -> bytes:
    """For a producer without transactions; the broker ignores the timeout."""
    return request(INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, correlation, client_id, struct.pack(">hi", -1, 60_000))


class ProducePrefix:
    """All bytes of a Produce request for one partition that precede the batch."""

    def __init__(self, client_id: str, acks: int, timeout_ms: int, topic: str, partition: int) -> None:
        head = _string(client_id) + struct.pack(">hhii", -1, acks, timeout_ms, 1) + _string(topic)
        self._tail = head + struct.pack(">ii", 1, partition)
        self.size_bytes = LENGTH.size + _HEADER.size + len(self._tail) + LENGTH.size

    def encode(self, correlation: int, batch_bytes: int) -> bytes:
        return b"".join(
            (
                LENGTH.pack(self.size_bytes - LENGTH.size + batch_bytes),
                _HEADER.pack(PRODUCE, PRODUCE_VERSION, correlation),
                self._tail,
                LENGTH.pack(batch_bytes),
            )
        )


def correlation_of(answer: bytes | memoryview) -> int:
    """The correlation id of an answer without its length field."""
    try:
        correlation: int = LENGTH.unpack_from(answer)[0]
    except struct.error as error:
        raise MalformedAnswerError("an answer shorter than its header") from error
    return correlation


def parse_api_versions(answer: bytes) -> dict[int, tuple[int, int]]:
    """api -> lowest and highest version. Raises MalformedAnswerError."""
    reader = _Reader(answer)
    if error := reader.int16():
        raise MalformedAnswerError(f"error {error} for ApiVersions 0")
    return {reader.int16(): (reader.int16(), reader.int16()) for _ in range(reader.int32())}


def parse_metadata(answer: bytes) -> Cluster:
    """Raises MalformedAnswerError."""
    reader = _Reader(answer)
    reader.int32()  # throttle time
    brokers, leaders, errors = {}, {}, {}
    for _ in range(reader.int32()):
        broker, host, port = reader.int32(), reader.string() or "", reader.int32()
        reader.string()  # rack
        brokers[broker] = (host, port)
    reader.string()  # cluster id
    reader.int32()  # controller
    for _ in range(reader.int32()):
        error, topic = reader.int16(), reader.string() or ""
        reader.skip(1)  # is internal
        errors[topic] = error
        for _ in range(reader.int32()):
            reader.int16()  # the partition's error; a partition without a leader has leader -1
            partition, leader = reader.int32(), reader.int32()
            for _ in range(3):  # replicas, in sync, offline
                reader.skip(LENGTH.size * reader.int32())
            leaders[topic, partition] = leader
    return Cluster(brokers, leaders, {topic: error for topic, error in errors.items() if error})


def parse_init_producer_id(answer: bytes) -> tuple[int, int]:
    """Error and producer id; the epoch of a new producer is 0. Raises MalformedAnswerError."""
    _, error, producer_id, _ = _Reader(answer).unpack(_GIVEN_PRODUCER)
    return error, producer_id


def parse_produce(answer: bytes) -> ProduceAnswer:
    """Parse the answer to a request for one partition. Raises MalformedAnswerError."""
    reader = _Reader(answer)
    if reader.int32() != 1:
        raise MalformedAnswerError("a Produce answer that is not for one topic")
    reader.string()
    if reader.int32() != 1:
        raise MalformedAnswerError("a Produce answer that is not for one partition")
    _, error, _, _, _ = reader.unpack(_ANSWERED_PARTITION)
    return ProduceAnswer(error, reader.int32())


class _Reader:
    """Reads the fields of an answer that follow its correlation id."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._at = LENGTH.size

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        try:
            values = layout.unpack_from(self._answer, self._at)
        except struct.error as error:
            raise MalformedAnswerError("an answer that ends early") from error
        self._at += layout.size
        return values

    def int16(self) -> int:
        return self.unpack(_INT16)[0]

    def int32(self) -> int:
        return self.unpack(LENGTH)[0]

    def skip(self, size_bytes: int) -> None:
        self._at += max(0, size_bytes)

    def string(self) -> str | None:
        size = self.int16()
        if size < 0:
            return None
        text = self._answer[self._at : self._at + size]
        self._at += size
        return text.decode("utf-8", "replace")


_INT16: Final = struct.Struct(">h")


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
