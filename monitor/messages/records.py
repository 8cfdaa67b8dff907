"""Records of fetched batches for people, bounded in number and size, without aborted ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from highwater.common.units import count_text, plural, size_text
from highwater.kafka.records.batch import (
    CODEC_MASK,
    BatchHeader,
    CorruptBatch,
    ReadableBuffer,
    TimestampType,
    crc_is_valid,
    headers,
)
from highwater.kafka.records.record import (
    RecordOutline,
    outlines,
    read_end_marker,
    read_varint,
    uncompressed_records,
)

LARGEST_BATCH_BYTES: Final = 8 << 20
"""After decompression: a small batch can become a very large one."""
MOST_HEADERS: Final = 50
LARGEST_FIELD_BYTES: Final = 16 * 1024
"""The most bytes that are read of a key, a value or a header."""


class Bytes(NamedTuple):
    """The begin of a key, a value or a header."""

    data: bytes
    size: int
    """The size of the whole field."""

    @property
    def is_cut(self) -> bool:
        return self.size > len(self.data)


@dataclass(frozen=True, slots=True)
class Message:
    offset: int
    timestamp_ms: int | None
    is_append_time: bool
    key: Bytes | None
    value: Bytes | None
    headers: tuple[tuple[str, Bytes | None], ...]
    more_headers: int
    """Those that are left out."""
    producer_id: int | None


class Aborted(NamedTuple):
    """A transaction that was aborted, as Fetch reports it."""

    producer_id: int
    first_offset: int


@dataclass(slots=True)
class Found:
    """What a part of a log has."""

    messages: list[Message] = field(default_factory=list)
    next_offset: int = 0
    """The offset to go on from."""
    aborted_records: int = 0
    notes: list[str] = field(default_factory=list)
    """What is left out and why, in sentences."""
    decompressed_bytes: int = 0


def read(
    data: ReadableBuffer,
    start: int,
    most: int,
    aborted: Sequence[Aborted] | None = None,
    most_bytes: int = 1 << 62,
    key: bytes | None = None,
) -> Found:
    """The records from offset `start` on, at most `most`, of at most about `most_bytes` after decompression.

    aborted: of the fetch that read only what is committed; None shows records of all transactions. key: only records
    with it are read; None for all.
    """
    found = Found(next_offset=start)
    waiting = sorted(aborted or (), key=lambda each: each.first_offset)
    active: set[int] = set()
    try:
        for position, header in headers(data):
            if header.next_offset <= start:
                continue
            batch = memoryview(data)[position : position + header.size_bytes]
            while waiting and waiting[0].first_offset <= header.last_offset:
                active.add(waiting.pop(0).producer_id)
            if header.is_control:
                _end_transaction(batch, header, active)
            elif aborted is not None and header.is_transactional and header.producer_id in active:
                found.aborted_records += header.record_count
            elif not _add(batch, header, start, most, found, key):
                return found
            found.next_offset = header.next_offset
            if len(found.messages) >= most or found.decompressed_bytes >= most_bytes:
                return found
    except CorruptBatch as error:
        found.notes.append(f"What begins at offset {count_text(found.next_offset)} is not a valid batch: {error}.")
    return found


def _end_transaction(batch: memoryview, header: BatchHeader, active: set[int]) -> None:
    # Brokers write control batches without compression; another one is not decompressed for its looks.
    if not header.attributes & CODEC_MASK:
        marker = read_end_marker(batch, header)
        if marker is not None and not marker.is_commit:
            active.discard(header.producer_id)


def _add(batch: memoryview, header: BatchHeader, start: int, most: int, found: Found, key: bytes | None) -> bool:
    """False if there are records in this batch that there is no more room for."""
    where = f"The batch of {plural(header.record_count, 'record')} at offset {count_text(header.base_offset)}"
    if not crc_is_valid(batch, 0, header):
        found.notes.append(f"{where} is damaged: its checksum does not match.")
        return True
    try:
        body = uncompressed_records(batch, header, limit_bytes=LARGEST_BATCH_BYTES)
        found.decompressed_bytes += len(body)
        for outline in outlines(body, header):
            offset = header.base_offset + outline.offset_delta
            if offset < start or (key is not None and not _has_key(body, outline, key)):
                continue
            if len(found.messages) >= most:
                found.next_offset = offset
                return False
            found.messages.append(_message(body, header, outline, offset))
    except (CorruptBatch, ValueError) as error:
        reason = f"it is damaged, or has more than {size_text(LARGEST_BATCH_BYTES)} when decompressed ({error})"
        found.notes.append(f"{where} is not shown: {reason}.")
    return True


def _has_key(body: bytes, outline: RecordOutline, key: bytes) -> bool:
    _, position = read_varint(body, outline.after_timestamp)
    size, position = read_varint(body, position)
    return size == len(key) and body.startswith(key, position)


def _message(body: bytes, header: BatchHeader, outline: RecordOutline, offset: int) -> Message:
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    at_ms = header.max_timestamp_ms if is_append_time else header.base_timestamp_ms + outline.timestamp_delta
    _, position = read_varint(body, outline.after_timestamp)
    key, position = _bytes(body, position)
    value, position = _bytes(body, position)
    count, position = read_varint(body, position)
    return Message(
        offset,
        at_ms if at_ms >= 0 else None,
        is_append_time,
        key,
        value,
        tuple(_headers(body, position, min(count, MOST_HEADERS))),
        max(0, count - MOST_HEADERS),
        header.producer_id if header.producer_id >= 0 else None,
    )


def _headers(body: bytes, position: int, count: int) -> Iterator[tuple[str, Bytes | None]]:
    for _ in range(count):
        name, position = _bytes(body, position)
        value, position = _bytes(body, position)
        yield (name.data.decode("utf-8", "replace") if name is not None else "", value)


def _bytes(body: bytes, position: int) -> tuple[Bytes | None, int]:
    size, position = read_varint(body, position)
    if size < 0:
        return None, position
    if position + size > len(body):
        raise CorruptBatch(f"a field of {size} bytes does not fit")
    return Bytes(body[position : position + min(size, LARGEST_FIELD_BYTES)], size), position + size
