"""Encodes records as one batch, and decodes the records of a batch.

A record (KIP-98; Apache Kafka, DefaultRecord.java): varint length of the rest, i8 attributes (0), varlong
timestamp delta, varint offset delta, key and value as varint length (−1 for null) and bytes, varint header count, and
each header's key and value likewise. Varints are zigzag, 7 bits a byte, the lowest first.

The produce and fetch paths never come here; command-line tools, tests, lookups by timestamp and control batches do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import partial
from mmap import MADV_DONTNEED, mmap
from typing import Final, NamedTuple

from highwater.kafka.pacing import aside, give_way
from highwater.kafka.records import compress
from highwater.kafka.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    CorruptBatch,
    ReadableBuffer,
    TimestampType,
    read_header,
    update_crc,
)

_MAX_VARINT_BITS: Final = 63
_SMALL_BYTES: Final = 64 * 1024
_SMALL_UNFOLDED_BYTES: Final = 1024 * 1024
_LET_GO_BYTES: Final = 4 * 1024 * 1024
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_CONTROL_KEY: Final = struct.Struct(">hh")
_END_MARKER_VALUE: Final = struct.Struct(">hi")


class Record(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = NO_TIMESTAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = 0


class EndMarker(NamedTuple):
    """The one record of a control batch: how a transaction ended, and under which coordinator epoch."""

    is_commit: bool
    coordinator_epoch: int


TRANSACTIONS_2: Final = 2
"""The version of transactions from which each end of a transaction raises the producer's epoch (KIP-890)."""
HIGHEST_EPOCH: Final = 32767
"""No producer gets it: it fences the last one of a producer id."""


class TransactionMarker(NamedTuple):
    """A request to end a producer's transaction, which its coordinator sends to each partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0
    """The version of transactions. A leader checks the epoch of version 2 strictly (KIP-1228). The log has it not."""


class RecordOutline(NamedTuple):
    """The position of a record in the uncompressed records of its batch, and its fields for compaction."""

    start: int
    """The position of its length."""
    after_timestamp: int
    """The position of its offset delta."""
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def write_varint(output: bytearray, value: int) -> None:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        output.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    output.append(zigzag)


def read_varint(buffer: ReadableBuffer | mmap, position: int) -> tuple[int, int]:
    """Return (value, position after it). Raises CorruptBatch if the varint does not end."""
    zigzag = shift = 0
    while True:
        if position >= len(buffer) or shift > _MAX_VARINT_BITS:
            raise CorruptBatch("a variable-length integer does not end")
        byte = buffer[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), position
        shift += 7


def encode_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytearray:
    """Encode `records` as one batch with consecutive offsets from `base_offset`; their own offsets are ignored."""
    if not records:
        raise ValueError("a batch needs at least one record")
    base_timestamp_ms = records[0].timestamp_ms
    body = bytearray()
    for offset_delta, record in enumerate(records):
        _write_record(body, record, record.timestamp_ms - base_timestamp_ms, offset_delta)
    payload = compress.compress(codec, body)
    batch = bytearray(HEADER_SIZE) + payload
    attributes = (
        codec
        | (TIMESTAMP_TYPE_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
    )
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - 12,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        len(records) - 1,
        base_timestamp_ms,
        max(record.timestamp_ms for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    update_crc(batch, 0, len(batch))
    return batch


def decode_batch(
    batch: ReadableBuffer, header: BatchHeader | None = None, *, limit_bytes: int = compress.DEFAULT_LIMIT_BYTES
) -> list[Record]:
    """Decode the records of the first batch in `batch`. Raises CorruptBatch if they do not match the header."""
    header = header or read_header(batch)
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        raise CorruptBatch(f"codec {header.attributes & CODEC_MASK} does not exist")
    if len(batch) < header.size_bytes:
        raise CorruptBatch(f"the batch is cut off: {len(batch)} of {header.size_bytes} bytes")
    if header.record_count == 0:
        return []  # Compaction leaves such a batch to keep its producer's last sequence number.
    payload = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    body = compress.decompress(header.codec, payload, limit_bytes=limit_bytes)
    records = []
    position = 0
    for _ in range(header.record_count):
        record, position = _read_record(body, position, header)
        records.append(record)
    if position != len(body):
        raise CorruptBatch(f"{len(body) - position} bytes follow the last of {header.record_count} records")
    return records


def uncompressed_records(
    batch: ReadableBuffer, header: BatchHeader, *, limit_bytes: int = compress.DEFAULT_LIMIT_BYTES
) -> bytes:
    """Return the decompressed bytes of the records of the first batch in `batch`."""
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        raise CorruptBatch(f"codec {header.attributes & CODEC_MASK} does not exist")
    payload = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    return compress.decompress(header.codec, payload, limit_bytes=limit_bytes) if header.record_count else b""


def unfolded_records(batch: ReadableBuffer, header: BatchHeader, *, limit_bytes: int) -> compress.Unfolded:
    """Return the decompressed records as a long request gets them: what may be large is decompressed aside.

    `let_go` gives the memory back. The caller's batch is not changed meanwhile.
    """
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        raise CorruptBatch(f"codec {header.attributes & CODEC_MASK} does not exist")
    payload = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    if header.codec is Codec.NONE or not header.record_count:
        return bytes(payload) if header.record_count else b""
    if len(payload) <= _SMALL_BYTES:
        try:
            return compress.decompress(header.codec, payload, limit_bytes=min(_SMALL_UNFOLDED_BYTES, limit_bytes))
        except CorruptBatch:
            pass  # It may only be larger than that.
    return aside(partial(compress.unfold, header.codec, payload, limit_bytes=limit_bytes))


def let_go(body: compress.Unfolded) -> None:
    """Give memory back piece by piece, as the kernel takes half a millisecond for each MiB."""
    if isinstance(body, mmap):
        for start in range(0, len(body), _LET_GO_BYTES):
            body.madvise(MADV_DONTNEED, start, min(_LET_GO_BYTES, len(body) - start))
            give_way()


def outlines(body: compress.Unfolded, header: BatchHeader) -> Iterator[RecordOutline]:
    """Every record of `uncompressed_records`, without looking at headers; CorruptBatch if they do not fit together."""
    position = 0
    least_delta, most_delta = _INT64_MIN - header.base_timestamp_ms, _INT64_MAX - header.base_timestamp_ms
    for _ in range(header.record_count):
        start = position
        length, position = read_varint(body, position)
        end = position + length
        if length < 0 or end > len(body):
            raise CorruptBatch(f"a record of {length} bytes does not fit")
        timestamp_delta, after_timestamp = read_varint(body, position + 1)
        offset_delta, position = read_varint(body, after_timestamp)
        if not least_delta <= timestamp_delta <= most_delta:
            raise CorruptBatch(f"a timestamp {timestamp_delta} ms after {header.base_timestamp_ms} cannot be")
        if not 0 <= offset_delta <= header.last_offset_delta:
            raise CorruptBatch(f"a record is numbered {offset_delta}, and the last {header.last_offset_delta}")
        key, position = _read_bytes(body, position)
        value_length, position = read_varint(body, position)
        if position + value_length > end:
            raise CorruptBatch(f"a value of {value_length} bytes does not fit")
        yield RecordOutline(start, after_timestamp, end, timestamp_delta, offset_delta, key, value_length >= 0)
        position = end
    if position != len(body):
        raise CorruptBatch(f"{len(body) - position} bytes follow the last of {header.record_count} records")


def with_timestamp_delta(body: bytes, record: RecordOutline, timestamp_delta: int) -> bytes:
    """Return the record's bytes with another timestamp delta. Raises CorruptBatch for an impossible delta."""
    if not _INT64_MIN <= timestamp_delta <= _INT64_MAX:
        raise CorruptBatch(f"a timestamp delta of {timestamp_delta} ms cannot be written")
    output = bytearray()
    varint = bytearray()
    write_varint(varint, timestamp_delta)
    write_varint(output, 1 + len(varint) + record.end - record.after_timestamp)
    return bytes(output) + b"\x00" + varint + body[record.after_timestamp : record.end]


def encode_end_marker(marker: TransactionMarker, timestamp_ms: int) -> bytearray:
    """Encode the control batch that ends the transaction (Apache Kafka, EndTransactionMarker.java)."""
    key = _CONTROL_KEY.pack(0, int(marker.is_commit))
    value = _END_MARKER_VALUE.pack(0, marker.coordinator_epoch)
    return encode_batch(
        [Record(value, key, timestamp_ms)],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_end_marker(batch: ReadableBuffer, header: BatchHeader) -> EndMarker | None:
    """Return how the transaction of a control batch ended; None for another kind of control record."""
    records = decode_batch(batch, header)
    if not records:
        return None  # Compaction removed the marker, but keeps the empty batch for the state of its producer.
    record = records[0]
    if record.key is None or record.value is None:
        raise CorruptBatch("a control record lacks its key or value")
    if len(record.key) < _CONTROL_KEY.size or len(record.value) < _END_MARKER_VALUE.size:
        raise CorruptBatch("a control record is too short")
    _version, kind = _CONTROL_KEY.unpack_from(record.key)
    if kind not in (0, 1):
        return None
    _version, coordinator_epoch = _END_MARKER_VALUE.unpack_from(record.value)
    return EndMarker(is_commit=kind == 1, coordinator_epoch=coordinator_epoch)


def _write_record(output: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(1)
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_bytes(body, key.encode())
        _write_bytes(body, value)
    write_varint(output, len(body))
    output += body


def _write_bytes(output: bytearray, data: bytes | None) -> None:
    if data is None:
        write_varint(output, -1)
    else:
        write_varint(output, len(data))
        output += data


def _read_record(body: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_varint(body, position)
    end = position + length
    if length < 0 or end > len(body):
        raise CorruptBatch(f"a record of {length} bytes does not fit")
    timestamp_delta, position = read_varint(body, position + 1)
    offset_delta, position = read_varint(body, position)
    key, position = _read_bytes(body, position)
    value, position = _read_bytes(body, position)
    header_count, position = read_varint(body, position)
    headers = []
    for _ in range(header_count):
        name, position = _read_bytes(body, position)
        if name is None:
            raise CorruptBatch("a record header has no key")
        header_value, position = _read_bytes(body, position)
        headers.append((name.decode(errors="replace"), header_value))
    if position != end:
        raise CorruptBatch(f"a record ends {end - position} bytes off its length")
    timestamp_ms = (
        header.max_timestamp_ms
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME
        else header.base_timestamp_ms + timestamp_delta
    )
    if not _INT64_MIN <= timestamp_ms <= _INT64_MAX:
        raise CorruptBatch(f"a timestamp of {timestamp_ms} ms cannot be")
    return Record(value, key, timestamp_ms, tuple(headers), header.base_offset + offset_delta), position


def _read_bytes(body: compress.Unfolded, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    if length == -1:
        return None, position
    if length < 0 or length > len(body) - position:
        raise CorruptBatch(f"a field of {length} bytes does not fit")
    return body[position : position + length], position + length
