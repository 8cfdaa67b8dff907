"""Rows of Arrow columns become record batches as bytes: no Python object for a record. Pure.

The fields around keys, values and headers are written column by column, and Arrow joins all pieces of a record with one
copy. A batch of a few records that are Python objects is made by `kafka.records.record.encode_batch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c
from numpy.typing import NDArray

from highwater.kafka.records.batch import HEADER, MAGIC, NO_PRODUCER_ID, TRANSACTIONAL_BIT, Codec
from highwater.kafka.records.compress import compress
from highwater.pipeline.kafka.arrow_columns import UnwritableError, binary_of, edges_of, ints_of, nulls_of
from highwater.pipeline.kafka.model import Producer
from highwater.pipeline.kafka.varints import Varints

Int64s = NDArray[np.int64]

BATCH_BYTES: Final = 512 << 10
"""A broker takes batches of 1 MiB unless max.message.bytes says otherwise; larger ones gain little."""
_RECORDS_MAX: Final = 1 << 20
"""The most records of a batch: their offset deltas take three bytes at most."""
_OFFSET_DELTA_BYTES_MAX: Final = 3
_ATTRIBUTE_BYTES: Final = 1
_JOINED_BYTES_MAX: Final = 1 << 30
"""The most bytes of records that are joined at once: Arrow counts them in 32 bits."""
_CRC_COVERS_FROM: Final = 21
_CRC_POSITION: Final = 17
_LENGTH_COUNTS_FROM: Final = 12
_NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, -1)
_PER_MS: Final = {"s": 1000, "ms": 1, "us": -1000, "ns": -1_000_000}
"""The factor for each unit of a timestamp; if negative, the divisor."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The records of one batch, compressed if that was asked for; `seal` writes the header before them."""

    group: int
    """Which of the groups of rows the records are of."""
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    codec: Codec
    records: bytes | memoryview

    @property
    def size_bytes(self) -> int:
        return HEADER.size + len(self.records)

    def seal(
        self, producer: Producer = _NO_PRODUCER, base_sequence: int = -1, *, is_transactional: bool = False
    ) -> bytes:
        """The batch as a broker takes it; without a producer it is not idempotent."""
        head = bytearray(
            HEADER.pack(
                0,
                self.size_bytes - _LENGTH_COUNTS_FROM,
                -1,
                MAGIC,
                0,
                self.codec | (TRANSACTIONAL_BIT if is_transactional else 0),
                self.record_count - 1,
                self.base_timestamp_ms,
                self.max_timestamp_ms,
                producer.producer_id,
                producer.epoch,
                base_sequence,
                self.record_count,
            )
        )
        crc = crc32c(self.records, crc32c(memoryview(head)[_CRC_COVERS_FROM:]))
        head[_CRC_POSITION:_CRC_COVERS_FROM] = crc.to_bytes(4, "big")
        return b"".join((head, self.records))


def encode(
    rows: Any,
    *,
    now_ms: int,
    ends: Int64s | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[EncodedBatch]:
    """Batches of the rows of a pyarrow.RecordBatch, in their order.

    Columns: `value`, and if they are there `key`, `headers` and `timestamp`, with the types of `kafka.columns`; keys
    and values may be text. Null timestamps, and all without that column, are `now_ms`. `ends` are the ends of groups
    of rows, such as the rows of one partition: no batch has rows of two groups. A batch has `batch_bytes` at most
    before it is compressed, but one record in any case. Raises UnwritableError.
    """
    ends = np.array([rows.num_rows], np.int64) if ends is None else ends
    if rows.num_rows == 0:
        return
    if rows.nbytes > _JOINED_BYTES_MAX and rows.num_rows > 1:
        half = rows.num_rows // 2
        before = np.minimum(ends, half)
        for part, of in ((rows.slice(0, half), before), (rows.slice(half), ends - before)):
            yield from encode(part, now_ms=now_ms, ends=of, codec=codec, level=level, batch_bytes=batch_bytes)
        return
    columns = _Columns(rows, now_ms)
    first, group = _cut(columns.most_bytes(), ends, batch_bytes - HEADER.size)
    joined, start = columns.join(first)
    timestamp_ms = columns.timestamp_ms
    max_timestamp_ms = np.maximum.reduceat(timestamp_ms, first)
    edges = np.append(first, rows.num_rows)
    places = zip(start[edges[:-1]].tolist(), start[edges[1:]].tolist(), strict=True)
    for index, (begin, end) in enumerate(places):
        records = joined[begin:end]
        yield EncodedBatch(
            group=int(group[index]),
            record_count=int(edges[index + 1] - edges[index]),
            base_timestamp_ms=int(timestamp_ms[first[index]]),
            max_timestamp_ms=int(max_timestamp_ms[index]),
            codec=codec,
            records=records if codec is Codec.NONE else compress(codec, records, level),
        )


class _Columns:
    """The pieces of all records that do not depend on where batches begin."""

    def __init__(self, rows: Any, now_ms: int) -> None:
        self._count = rows.num_rows
        names = rows.schema.names
        self._value = binary_of("value", rows.column("value"))
        self._key = binary_of("key", rows.column("key")) if "key" in names else None
        if self._key is not None and self._key.null_count == self._count:
            self._key = None
        headers = rows.column("headers") if "headers" in names else None
        self._tail = _no_headers(self._count) if headers is None else _headers(headers, self._count)
        timestamps = rows.column("timestamp") if "timestamp" in names else None
        self.timestamp_ms = _timestamps_ms(timestamps, self._count, now_ms)
        self._value_length = Varints(_lengths(self._value))
        self._key_length = Varints(np.full(self._count, -1) if self._key is None else _lengths(self._key))
        self._content = (
            _sizes(self._value)
            + _sizes(self._tail)
            + self._value_length.width
            + self._key_length.width
            + _ATTRIBUTE_BYTES
        )
        if self._key is not None:
            self._content += _sizes(self._key)

    def most_bytes(self) -> Int64s:
        """What each record takes at most, wherever its batch begins."""
        span_ms = self.timestamp_ms.max() - self.timestamp_ms.min()
        most = self._content + _OFFSET_DELTA_BYTES_MAX + int(Varints(np.array([span_ms])).width[0])
        return most + Varints(most).width

    def join(self, first: Int64s) -> tuple[memoryview, Int64s]:
        """All records of batches that begin at the rows `first`, and where each begins; the end is the last."""
        counts = np.diff(np.append(first, self._count))
        offset_delta = Varints(np.arange(self._count) - np.repeat(first, counts))
        timestamp_delta = Varints(self.timestamp_ms - np.repeat(self.timestamp_ms[first], counts))
        length = Varints(self._content + offset_delta.width + timestamp_delta.width)
        attributes = Varints(np.zeros(self._count, np.int64))
        before_key = (length, attributes, timestamp_delta, offset_delta, self._key_length)
        if self._key is None:
            pieces = [_written(*before_key, self._value_length)]
        else:
            pieces = [_written(*before_key), self._key, _written(self._value_length)]
        joined = _joined(*pieces, self._value, self._tail)
        start = np.zeros(self._count + 1, np.int64)
        np.cumsum(length.value + length.width, out=start[1:])
        return memoryview(joined.buffers()[2]), start


def _cut(most_bytes: Int64s, ends: Int64s, limit_bytes: int) -> tuple[Int64s, Int64s]:
    """The first row of each batch, and the group of the batch."""
    total = np.zeros(len(most_bytes) + 1, np.int64)
    np.cumsum(most_bytes, out=total[1:])
    first, groups = [], []
    start = 0
    for group, end in enumerate(ends.tolist()):
        while start < end:
            first.append(start)
            groups.append(group)
            fitting = int(np.searchsorted(total, total[start] + limit_bytes, side="right")) - 1
            start = min(max(fitting, start + 1), end, start + _RECORDS_MAX)
    return np.array(first, np.int64), np.array(groups, np.int64)


def _timestamps_ms(column: Any, count: int, now_ms: int) -> Int64s:
    if column is None or column.null_count == count:
        return np.full(count, now_ms, np.int64)
    if not pa.types.is_timestamp(column.type):
        raise UnwritableError(f"the column timestamp is {column.type}; cast it to timestamp")
    factor = _PER_MS[column.type.unit]
    values = ints_of(column)
    found = values * factor if factor > 0 else values // -factor
    null = nulls_of(column)
    return found if null is None else np.where(null, now_ms, found)


def _sizes(column: Any) -> Int64s:
    """The bytes of each element of a binary array; none of null."""
    sizes = np.diff(edges_of(column)).astype(np.int64)
    null = nulls_of(column)
    return sizes if null is None else np.where(null, 0, sizes)


def _lengths(column: Any) -> Int64s:
    """The same with −1 for null, as a record says it."""
    null = nulls_of(column)
    return _sizes(column) if null is None else np.where(null, -1, _sizes(column))


def _array(data: Any, edges: Int64s) -> Any:
    buffers = [None, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)


def _joined(*columns: Any) -> Any:
    """The elements of each row one after the other; null is empty."""
    count = len(columns[0])
    separator = _array(b"", np.zeros(count + 1, np.int64))
    return pc.binary_join_element_wise(*columns, separator, null_handling="skip")


def _written(*numbers: Varints) -> Any:
    """A binary array: the numbers of each row one after the other."""
    edges = np.zeros(len(numbers[0].value) + 1, np.int64)
    np.cumsum(np.sum([each.width for each in numbers], axis=0), out=edges[1:])
    octets = np.empty(edges[-1], np.uint8)
    at = edges[:-1]
    for each in numbers:
        at = each.write(octets, at)
    return _array(octets, edges)


def _no_headers(count: int) -> Any:
    return _array(np.zeros(count, np.uint8), np.arange(count + 1))


def _headers(column: Any, count: int) -> Any:
    """The end of each record: how many headers, and their keys and values."""
    if pa.types.is_null(column.type):
        return _no_headers(count)
    if not _is_headers_type(column.type):
        raise UnwritableError(f"the column headers is {column.type}; it must be array<struct<key:string,value:binary>>")
    null = nulls_of(column)
    counts = np.diff(edges_of(column)).astype(np.int64)
    if null is not None:
        counts = np.where(null, 0, counts)
    # It leaves out what null lists have.
    found = column.flatten()
    keys, values = (binary_of("headers", each) for each in found.flatten())
    if keys.null_count:
        raise UnwritableError("a record header has no key; Kafka needs one")
    if len(found):
        sizes = (Varints(_lengths(keys)), Varints(_lengths(values)))
        written = _joined(_written(sizes[0]), keys, _written(sizes[1]), values)
        ends = np.append(0, np.cumsum(_sizes(written)))
        data = written.buffers()[2]
    else:
        ends, data = np.zeros(1, np.int64), b""
    of_record = ends[np.append(0, np.cumsum(counts))]
    return _joined(_written(Varints(counts)), _array(data, of_record))


def _is_headers_type(kind: Any) -> bool:
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        return False
    key, value = (kind.value_type.field(index) for index in range(2))
    return bool(pa.types.is_string(key.type) and pa.types.is_binary(value.type))
