"""Produce 8 and Fetch 11 as a client writes and reads them: these two are most of a history, so by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

PRODUCE_VERSION: Final = 8
FETCH_VERSION: Final = 11

_PRODUCE_HEAD: Final = struct.Struct(">hhiih")
_PRODUCE_PARTITION: Final = struct.Struct(">ii")
_PRODUCED: Final = struct.Struct(">ihqqq")
_PRODUCED_BYTES: Final = _PRODUCED.size + 6
"""No errors of records and no message stand behind it."""
_FETCH_HEAD: Final = struct.Struct(">iiiibiiih")
_FETCH_PARTITION: Final = struct.Struct(">iiiqqi")
_FETCHED: Final = struct.Struct(">ihqqq")


class Produced(NamedTuple):
    error_code: ErrorCode
    base_offset: int


class Fetched(NamedTuple):
    error_code: ErrorCode
    high_watermark: int
    records: bytes


def encode_produce(topic: str, batches: Sequence[tuple[int, bytes]], *, acks: int, timeout_ms: int) -> bytes:
    """`batches` are (partition, records)."""
    name = topic.encode()
    parts = [_PRODUCE_HEAD.pack(-1, acks, timeout_ms, 1, len(name)), name, struct.pack(">i", len(batches))]
    for partition, records in batches:
        parts += _PRODUCE_PARTITION.pack(partition, len(records)), records
    return b"".join(parts)


def decode_produced(body: memoryview) -> list[Produced]:
    """Of the partitions of one topic."""
    (name_size,) = struct.unpack_from(">h", body, 4)
    at = 4 + 2 + name_size
    (count,) = struct.unpack_from(">i", body, at)
    answers = (_PRODUCED.unpack_from(body, at + 4 + number * _PRODUCED_BYTES) for number in range(count))
    return [Produced(ErrorCode(error_code), base_offset) for _, error_code, base_offset, _, _ in answers]


def encode_fetch(
    topic: str, partition: int, offset: int, *, leader_epoch: int, max_wait_ms: int, max_bytes: int, is_committed: bool
) -> bytes:
    name = topic.encode()
    return b"".join(
        (
            _FETCH_HEAD.pack(-1, max_wait_ms, 1, max_bytes, int(is_committed), 0, -1, 1, len(name)),
            name,
            _FETCH_PARTITION.pack(1, partition, leader_epoch, offset, -1, max_bytes),
            struct.pack(">ih", 0, 0),
        )
    )


def decode_fetched(body: memoryview) -> Fetched:
    """Of the one partition that was asked for."""
    _, error_code, _, topic_count = struct.unpack_from(">ihii", body)
    if error_code or not topic_count:
        return Fetched(ErrorCode(error_code), -1, b"")
    (name_size,) = struct.unpack_from(">h", body, 14)
    at = 14 + 2 + name_size + 4
    _, error_code, high_watermark, _, _ = _FETCHED.unpack_from(body, at)
    at += _FETCHED.size
    (aborted_count,) = struct.unpack_from(">i", body, at)
    at += 4 + max(aborted_count, 0) * 16 + 4
    (size,) = struct.unpack_from(">i", body, at)
    at += 4
    return Fetched(ErrorCode(error_code), high_watermark, bytes(body[at : at + max(size, 0)]))
