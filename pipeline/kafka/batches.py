"""The batches of one fetched partition as arrays of header fields, and which batches have rows. Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from highwater.kafka.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Codec,
    CorruptBatch,
    read_header,
)
from highwater.kafka.records.record import read_end_marker
from highwater.pipeline.errors import RecordsError

# The layout of kafka.records.batch.
_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
assert _HEADER.itemsize == HEADER_SIZE
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_BASE_OFFSET: Final = struct.Struct(">q")
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23
_LENGTH_OVERHEAD: Final = _OFFSET_AND_LENGTH.size
_CRC_COVERS_FROM: Final = 21
_MAGIC_POSITION: Final = 16
_MINIMUM_LENGTH: Final = HEADER_SIZE - _LENGTH_OVERHEAD
RECORD_BYTES_MIN: Final = 7
"""The size of a record without key and value."""
TOO_MANY_RECORDS: Final = "a batch claims more records than its bytes can hold"
_TRUSTED_COUNT_MAX: Final = 1 << 20

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Batches:
    """Header fields of the batches, one array element for each batch. Positions are those in the fetched bytes."""

    position: Int64s
    size_bytes: Int64s
    base_offset: Int64s
    last_offset: Int64s
    leader_epoch: Int64s
    attributes: Int64s
    base_timestamp_ms: Int64s
    max_timestamp_ms: Int64s
    producer_id: Int64s
    record_count: Int64s
    crc: Int64s

    def __len__(self) -> int:
        return len(self.position)

    def where(self, mask: Bools) -> Batches:
        if mask.all():
            return self
        return Batches(*(getattr(self, name)[mask] for name in self.__slots__))

    @property
    def end(self) -> Int64s:
        """The positions after the batches."""
        return self.position + self.size_bytes

    @property
    def records_position(self) -> Int64s:
        return self.position + HEADER_SIZE

    @property
    def codec(self) -> Int64s:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> Bools:
        mask: Bools = (self.attributes & TIMESTAMP_TYPE_BIT) != 0
        return mask

    @property
    def is_transactional(self) -> Bools:
        mask: Bools = (self.attributes & TRANSACTIONAL_BIT) != 0
        return mask

    @property
    def is_control(self) -> Bools:
        mask: Bools = (self.attributes & CONTROL_BIT) != 0
        return mask

    @property
    def has_producer_id(self) -> Bools:
        mask: Bools = self.producer_id != NO_PRODUCER_ID
        return mask

    @property
    def are_dense(self) -> bool:
        """Whether offsets follow from the headers alone: no record was removed, and no count is beyond belief."""
        dense = self.record_count == self.last_offset - self.base_offset + 1
        return bool((dense & (self.record_count <= _TRUSTED_COUNT_MAX)).all())


class Partition:
    """Names the partition in errors."""

    __slots__ = ("partition", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition

    def refuse(self, offset: int, what: str) -> NoReturn:
        raise RecordsError(self.topic, self.partition, offset, what)


def read_batches(data: memoryview, of: Partition) -> Batches:
    """Read the header of each whole batch; a batch that is cut off at the end is left out.

    Raises RecordsError for bytes that are no batches of format 2. Checks no CRC and opens no batch.
    """
    positions: list[int] = []
    position, end_of_headers, size = 0, len(data) - HEADER_SIZE, len(data)
    unpack = _OFFSET_AND_LENGTH.unpack_from
    while position <= end_of_headers:
        base_offset, length = unpack(data, position)
        magic = data[position + _MAGIC_POSITION]
        if magic != MAGIC:
            of.refuse(base_offset, _foreign(magic))
        if length < _MINIMUM_LENGTH:
            of.refuse(base_offset, f"a batch claims {length} bytes, fewer than its header has; the log is damaged")
        following = position + _LENGTH_OVERHEAD + length
        if following > size:
            break
        positions.append(position)
        position = following
    _refuse_short_foreign(data, position, of)
    return _gather(data, np.array(positions, np.int64), of)


def offset_after(data: memoryview) -> int | None:
    """The offset after the last whole batch, None if there is none; checks nothing."""
    position, size = 0, len(data)
    last = None
    while position + HEADER_SIZE <= size:
        _, length = _OFFSET_AND_LENGTH.unpack_from(data, position)
        following = position + _LENGTH_OVERHEAD + length
        if following > size or length < _MINIMUM_LENGTH:
            break
        last, position = position, following
    if last is None:
        return None
    (base_offset,) = _BASE_OFFSET.unpack_from(data, last)
    (last_offset_delta,) = _LAST_OFFSET_DELTA.unpack_from(data, last + _LAST_OFFSET_DELTA_POSITION)
    after: int = base_offset + last_offset_delta + 1
    return after


def _foreign(magic: int) -> str:
    if magic in (0, 1):
        return (
            f"records in message format {magic}, from before Kafka 0.11, are not read; "
            "copy the topic with a broker that converts them, or let its retention remove them"
        )
    return f"message format {magic} is unknown; the log is damaged, or newer than this reader"


def _refuse_short_foreign(data: memoryview, position: int, of: Partition) -> None:
    """A message of format 0 or 1 can be shorter than a header of format 2."""
    if len(data) - position > _MAGIC_POSITION and data[position + _MAGIC_POSITION] != MAGIC:
        base_offset, _ = _OFFSET_AND_LENGTH.unpack_from(data, position)
        of.refuse(base_offset, _foreign(data[position + _MAGIC_POSITION]))


def _gather(data: memoryview, positions: Int64s, of: Partition) -> Batches:
    octets = np.frombuffer(data, np.uint8)
    headers = octets[positions[:, None] + np.arange(HEADER_SIZE)].view(_HEADER).reshape(-1)

    def field(name: str) -> Int64s:
        values: Int64s = headers[name].astype(np.int64)
        return values

    base_offset = field("base_offset")
    batches = Batches(
        position=positions,
        size_bytes=field("length") + _LENGTH_OVERHEAD,
        base_offset=base_offset,
        last_offset=base_offset + field("last_offset_delta"),
        leader_epoch=field("leader_epoch"),
        attributes=field("attributes"),
        base_timestamp_ms=field("base_timestamp_ms"),
        max_timestamp_ms=field("max_timestamp_ms"),
        producer_id=field("producer_id"),
        record_count=field("record_count"),
        crc=field("crc"),
    )
    _check(batches, of)
    return batches


def _check(batches: Batches, of: Partition) -> None:
    if not len(batches):
        return
    room_for = np.where(
        batches.codec == Codec.NONE, (batches.size_bytes - HEADER_SIZE) // RECORD_BYTES_MIN, np.iinfo(np.int32).max
    )
    faults = (
        (batches.base_offset < 0, "a batch has a negative offset"),
        (batches.last_offset < batches.base_offset, "a batch ends before it begins"),
        (batches.record_count < 0, "a batch has a negative number of records"),
        (batches.record_count > room_for, TOO_MANY_RECORDS),
        (batches.codec > Codec.ZSTD, "a batch has a compression that does not exist"),
    )
    for wrong, what in faults:
        if wrong.any():
            of.refuse(int(batches.base_offset[int(wrong.argmax())]), f"{what}; the log is damaged")
    if len(batches) > 1 and (batches.base_offset[1:] <= batches.last_offset[:-1]).any():
        at = int((batches.base_offset[1:] <= batches.last_offset[:-1]).argmax()) + 1
        of.refuse(int(batches.base_offset[at]), "a batch begins before the one before it ends; the log is damaged")


def check_crcs(data: memoryview, batches: Batches, of: Partition) -> None:
    """Raises RecordsError for the first batch whose bytes do not have the CRC of its header."""
    for position, end, crc in zip(batches.position.tolist(), batches.end.tolist(), batches.crc.tolist(), strict=True):
        computed = crc32c(data[position + _CRC_COVERS_FROM : end])
        if computed != crc:
            base_offset, _ = _OFFSET_AND_LENGTH.unpack_from(data, position)
            of.refuse(
                base_offset,
                f"the CRC of a batch of {end - position} bytes is {crc:#010x}, and its bytes have {computed:#010x}: "
                "they were damaged on the broker's disk or on the way; read another replica, or skip the batch",
            )


def committed(data: memoryview, batches: Batches, aborted: Sequence[tuple[int, int]], of: Partition) -> Bools:
    """Which batches a reader of committed records sees, control batches included.

    `aborted` is of the same answer to Fetch: (producer id, first offset) of each aborted transaction (KIP-98).
    """
    visible = np.ones(len(batches), np.bool_)
    waiting = sorted(aborted, key=lambda transaction: transaction[1])
    begun: set[int] = set()
    following = 0
    concerned = np.flatnonzero(batches.is_transactional | batches.is_control)
    for index in concerned.tolist():
        last_offset, producer_id = int(batches.last_offset[index]), int(batches.producer_id[index])
        while following < len(waiting) and waiting[following][1] <= last_offset:
            begun.add(waiting[following][0])
            following += 1
        if batches.is_control[index]:
            if producer_id in begun and _is_abort(data, batches, index, of):
                begun.discard(producer_id)
        elif producer_id in begun:
            visible[index] = False
    return visible


def _is_abort(data: memoryview, batches: Batches, index: int, of: Partition) -> bool:
    position, end = int(batches.position[index]), int(batches.end[index])
    batch = data[position:end]
    try:
        marker = read_end_marker(batch, read_header(batch))
    except CorruptBatch as error:
        of.refuse(int(batches.base_offset[index]), f"a control batch cannot be read: {error}")
    return marker is not None and not marker.is_commit
