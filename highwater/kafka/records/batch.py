"""Record batch v2: its 61-byte header, the checks of a produced batch, the fields of the broker.

The layout (KIP-98; Apache Kafka, DefaultRecordBatch.java), all big-endian:

    base offset i64 @0             assigned by the broker
    length i32 @8                  bytes after this field
    leader epoch i32 @12           assigned by the broker
    magic i8 @16                   2
    CRC-32C u32 @17                of everything from byte 21 to the end
    attributes i16 @21             bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
    last offset delta i32 @23
    base timestamp i64 @27
    max timestamp i64 @35
    producer id i64 @43
    producer epoch i16 @51
    base sequence i32 @53
    record count i32 @57
    records @61                    compressed as one block, if at all

The base offset and the leader epoch lie before the bytes that the CRC covers, so assigning them costs no second CRC.
This module never opens records: the header has everything that the broker needs. One field of it is not always right:
some clients write a max timestamp that is not the largest of the records, but the largest that they were given, the
last one, or none. Kafka's leader computes it from the records of every batch. This broker does so for a batch whose
header is not credible (`is_credible`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from highwater.kafka.records.checksum import crc32c

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
MAGIC: Final = 2
NO_PRODUCER_ID: Final = -1
NO_TIMESTAMP: Final = -1
CREDIBLE_MS: Final = 10_000
"""How far the max timestamp of a credible header may be from the broker's clock.

A batch of a producer that keeps up is nearer. A record that is not from the future is later than its credible header by
this at most.
"""
MAX_SEQUENCE: Final = 2**31 - 1

# `length` counts the bytes after it, so a whole batch is 12 bytes longer.
LENGTH_OVERHEAD: Final = 12
MINIMUM_LENGTH: Final = HEADER_SIZE - LENGTH_OVERHEAD
# The shortest record of any Kafka format (v0); a smaller length is invalid.
_LEGACY_MINIMUM_LENGTH: Final = 14

_ASSIGNED: Final = struct.Struct(">qii")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_OFFSET: Final = 8
MAGIC_OFFSET: Final = 16
_CRC: Final = struct.Struct(">I")
_CRC_OFFSET: Final = 17
CRC_COVERS_FROM: Final = 21
_ATTRIBUTES: Final = struct.Struct(">h")
_ATTRIBUTES_OFFSET: Final = 21
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_TIMESTAMPS: Final = struct.Struct(">qq")
_TIMESTAMPS_OFFSET: Final = 27
_MAX_TIMESTAMP_OFFSET: Final = 35
_PRODUCER: Final = struct.Struct(">qh")
_PRODUCER_OFFSET: Final = 43

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class CorruptBatch(Exception):  # noqa: N818 - it names the thing found, as Kafka's CorruptRecordException does
    """Stored bytes are not a valid record batch; the text says why."""


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time after which compaction may drop the batch's tombstones or marker; stored as the base timestamp."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest timestamp of the existing records: compaction keeps the max timestamp of empty batches."""
        return self.max_timestamp_ms if self.record_count else NO_TIMESTAMP

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        return self.length + LENGTH_OVERHEAD

    @property
    def last_sequence(self) -> int:
        return add_to_sequence(self.base_sequence, self.last_offset_delta)


def add_to_sequence(sequence: int, delta: int) -> int:
    """Add to a sequence, which counts the records of a producer in a partition; after 2^31 − 1 comes 0."""
    return (sequence + delta) & MAX_SEQUENCE


def read_header(buffer: ReadableBuffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`. Raises CorruptBatch if it is not a v2 header; checks nothing else."""
    if len(buffer) - position < HEADER_SIZE:
        raise CorruptBatch(f"{len(buffer) - position} bytes are fewer than a batch header's {HEADER_SIZE}")
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic} is not {MAGIC}")
    if header.length < MINIMUM_LENGTH:
        raise CorruptBatch(f"length {header.length} is below the least length of a batch, {MINIMUM_LENGTH}")
    return header


def headers(buffer: ReadableBuffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch in `buffer`; a batch cut off at the end is left out.

    Raises CorruptBatch for other bytes.
    """
    position = 0
    size = len(buffer)
    while size - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        if header.size_bytes > size - position:
            return
        yield position, header
        position += header.size_bytes


def crc_is_valid(buffer: ReadableBuffer, position: int, header: BatchHeader) -> bool:
    """Whether the bytes of the batch at `position` match the CRC in its header."""
    end = position + header.size_bytes
    computed: int = crc32c(memoryview(buffer)[position + CRC_COVERS_FROM : end])
    return computed == header.crc


def is_zstd(records: ReadableBuffer | None) -> bool:
    """Whether there is a first batch and its header has the codec zstd."""
    if records is None or len(records) < HEADER_SIZE:
        return False
    (attributes,) = _ATTRIBUTES.unpack_from(records, _ATTRIBUTES_OFFSET)
    return bool(attributes & CODEC_MASK == Codec.ZSTD)


def is_doubtful(records: ReadableBuffer | None, now_ms: int) -> bool:
    """Whether the first batch is compressed, and its timestamps must be compared with those of its records."""
    if records is None or len(records) < HEADER_SIZE or not records[_ATTRIBUTES_OFFSET + 1] & CODEC_MASK:
        return False
    base_timestamp_ms, max_timestamp_ms = _TIMESTAMPS.unpack_from(records, _TIMESTAMPS_OFFSET)
    return not _are_credible(base_timestamp_ms, max_timestamp_ms, now_ms)


def transactional_producer(records: ReadableBuffer | None) -> tuple[int, int] | None:
    """Return (id, epoch) of the producer if the first batch is transactional, else None."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    (attributes,) = _ATTRIBUTES.unpack_from(records, _ATTRIBUTES_OFFSET)
    if not attributes & TRANSACTIONAL_BIT:
        return None
    producer_id, producer_epoch = _PRODUCER.unpack_from(records, _PRODUCER_OFFSET)
    return producer_id, producer_epoch


def validate_produced(records: ReadableBuffer, *, max_message_bytes: int) -> BatchHeader | ErrorCode:
    """Check the records of one partition in a Produce request like a Kafka 3.9 leader, without opening them.

    There must be exactly one batch (ProduceRequest.validateRecords); an incomplete batch after it is dropped, as
    UnifiedLog.trimInvalidBytes does, so the log takes the first `size_bytes` of the header that is returned. The leader
    epoch is not checked: clients send −1 or 0 and the broker overwrites it.
    """
    size = len(records)
    if size < MAGIC_OFFSET + 1:
        return ErrorCode.invalid_record
    (length,) = _LENGTH.unpack_from(records, _LENGTH_OFFSET)
    magic = records[MAGIC_OFFSET]
    if length < _LEGACY_MINIMUM_LENGTH or magic > MAGIC:
        return ErrorCode.corrupt_message
    if length + LENGTH_OVERHEAD > size or magic != MAGIC:
        return ErrorCode.invalid_record
    if length < MINIMUM_LENGTH:
        return ErrorCode.corrupt_message
    header = BatchHeader._make(HEADER.unpack_from(records))
    batch_size = length + LENGTH_OVERHEAD
    if batch_size != size and (error := _check_trailing_bytes(records, batch_size)) is not None:
        return error
    if header.base_offset != 0:
        return ErrorCode.invalid_record
    if batch_size > max_message_bytes:
        return ErrorCode.message_too_large
    if not crc_is_valid(records, 0, header):
        return ErrorCode.corrupt_message
    attributes = header.attributes
    if attributes & CODEC_MASK > Codec.ZSTD:
        return ErrorCode.unsupported_compression_type
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        return ErrorCode.invalid_record
    if attributes & CONTROL_BIT:
        return ErrorCode.invalid_record
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        return ErrorCode.invalid_record
    if attributes & TIMESTAMP_TYPE_BIT:
        return ErrorCode.invalid_timestamp
    return header


def _check_trailing_bytes(records: ReadableBuffer, position: int) -> ErrorCode | None:
    """Check that only an incomplete batch follows the first one, as in a request that was cut off."""
    remaining = len(records) - position
    if remaining < LENGTH_OVERHEAD:
        return None
    (length,) = _LENGTH.unpack_from(records, position + _LENGTH_OFFSET)
    if length < _LEGACY_MINIMUM_LENGTH:
        return ErrorCode.corrupt_message
    if remaining > MAGIC_OFFSET and records[position + MAGIC_OFFSET] > MAGIC:
        return ErrorCode.corrupt_message
    return ErrorCode.invalid_record if remaining >= length + LENGTH_OVERHEAD else None


def is_credible(header: BatchHeader, now_ms: int) -> bool:
    """Whether the max timestamp of a produced header is near `now_ms`, and not before the first record's."""
    return _are_credible(header.base_timestamp_ms, header.max_timestamp_ms, now_ms)


def _are_credible(base_timestamp_ms: int, max_timestamp_ms: int, now_ms: int) -> bool:
    return base_timestamp_ms <= max_timestamp_ms and -CREDIBLE_MS <= max_timestamp_ms - now_ms <= CREDIBLE_MS


def assign(batch: WritableBuffer, size_bytes: int, base_offset: int, leader_epoch: int) -> None:
    """Write the base offset and the leader epoch into a batch that begins the buffer."""
    _ASSIGNED.pack_into(batch, 0, base_offset, size_bytes - LENGTH_OVERHEAD, leader_epoch)


def set_log_append_time(buffer: WritableBuffer, position: int, header: BatchHeader, timestamp_ms: int) -> None:
    """Give every record of the batch at `position` the broker's time, and compute the CRC again."""
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_OFFSET, header.attributes | TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_OFFSET, timestamp_ms)
    update_crc(buffer, position, header.size_bytes)


def update_crc(buffer: WritableBuffer, position: int, size_bytes: int) -> None:
    crc = crc32c(memoryview(buffer)[position + CRC_COVERS_FROM : position + size_bytes])
    _CRC.pack_into(buffer, position + _CRC_OFFSET, crc)


def foreign_format(buffer: ReadableBuffer) -> str | None:
    """Return the message format of intact records that are not v2, so that they are not reported as damage.

    Formats 0 and 1 carry a CRC-32 over everything after it; a later one would most likely keep v2's place
    for its CRC.
    """
    if len(buffer) <= MAGIC_OFFSET:
        return None
    magic = buffer[MAGIC_OFFSET]
    (length,) = _LENGTH.unpack_from(buffer, _LENGTH_OFFSET)
    end = length + LENGTH_OVERHEAD
    if length < _LEGACY_MINIMUM_LENGTH or end > len(buffer) or magic == MAGIC:
        return None
    (legacy_crc,) = _CRC.unpack_from(buffer, LENGTH_OVERHEAD)
    if magic < MAGIC and legacy_crc == zlib.crc32(memoryview(buffer)[MAGIC_OFFSET:end]):
        return f"message format {magic}, from before Kafka 0.11"
    if magic > MAGIC and length >= MINIMUM_LENGTH:
        (crc,) = _CRC.unpack_from(buffer, _CRC_OFFSET)
        if crc == crc32c(memoryview(buffer)[CRC_COVERS_FROM:end]):
            return f"message format {magic}, newer than this broker knows"
    return None
