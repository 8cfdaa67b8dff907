"""Rows of records, and the Arrow array of each column of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from highwater.kafka.records.batch import Codec
from highwater.pipeline.kafka.batches import Batches
from highwater.pipeline.kafka.columns import COLUMNS
from highwater.pipeline.kafka.key_hash import murmur2
from highwater.pipeline.kafka.records import (
    Fields,
    Int64s,
    MalformedRecords,
    Octets,
    find_starts,
    read_fields,
    read_headers,
)
from highwater.pipeline.kafka.unpack import Unpacked

_US_PER_MS: Final = 1000
_TIMESTAMP_MS_MAX: Final = np.iinfo(np.int64).max // _US_PER_MS


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of `batches`: `counts` of each batch. `octets` and `fields` are None if no record was unpacked."""

    topic: str
    partition: int
    batches: Batches
    counts: Int64s
    offset: Int64s
    octets: Octets | None = None
    fields: Fields | None = None

    @property
    def unpacked(self) -> tuple[Octets, Fields]:
        assert self.octets is not None
        assert self.fields is not None
        return self.octets, self.fields

    def of_batch(self, values: NDArray[Any]) -> NDArray[Any]:
        """The value of its batch for each row."""
        return np.repeat(values, self.counts)


def rows_of_headers(topic: str, partition: int, batches: Batches, limits: range) -> Rows:
    """The rows with offsets in `limits` of batches without gaps."""
    first = np.maximum(batches.base_offset, limits.start)
    counts = np.minimum(batches.last_offset, limits.stop - 1) - first + 1
    before = np.cumsum(counts) - counts
    offset = np.repeat(first - before, counts) + np.arange(int(counts.sum()))
    return Rows(topic, partition, batches, counts, offset)


def rows_of_records(topic: str, partition: int, unpacked: Unpacked, limits: range) -> Rows:
    """The rows with offsets in `limits`. Raises MalformedRecords."""
    batches, octets = unpacked.batches, unpacked.octets
    fields = read_fields(octets, find_starts(unpacked.body, octets, unpacked.regions))
    counts = batches.record_count
    offset = np.repeat(batches.base_offset, counts) + fields.offset_delta
    if ((fields.offset_delta < 0) | (offset > np.repeat(batches.last_offset, counts))).any():
        raise MalformedRecords("a record has an offset outside of its batch")
    if len(batches) and (batches.base_offset[0] < limits.start or batches.last_offset[-1] >= limits.stop):
        inside = (offset >= limits.start) & (offset < limits.stop)
        batch_of_row = np.repeat(np.arange(len(batches)), counts)
        counts = np.bincount(batch_of_row[inside], minlength=len(batches)).astype(np.int64)
        fields, offset = fields.where(inside), offset[inside]
    return Rows(topic, partition, batches, counts, offset, octets, fields)


def array_of(column: str, rows: Rows) -> Any:
    """The Arrow array of one column. Raises MalformedRecords."""
    return _MAKERS[column](rows)


def _key(rows: Rows) -> Any:
    octets, fields = rows.unpacked
    return _binary(octets, fields.key_start, fields.key_length)


def _value(rows: Rows) -> Any:
    octets, fields = rows.unpacked
    return _binary(octets, fields.value_start, fields.value_length)


def _binary(octets: Octets, start: Int64s, length: Int64s) -> Any:
    """Copies `length` bytes at each `start`; null where the length is negative. Both ascend and do not overlap.

    An array over all bytes has what is wanted as its even elements and what lies between as its odd ones.
    """
    count = len(start)
    if not count:
        return pa.nulls(0, pa.binary())
    null = length < 0
    if null.all():
        return pa.nulls(count, pa.binary())
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = start
    edges[1::2] = start + length if not null.any() else start + np.maximum(length, 0)
    spans = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(octets)])
    return spans.take(_array(np.arange(0, 2 * count, 2, dtype=np.int32), pa.int32(), null))


def _array(values: NDArray[Any], kind: Any, null: NDArray[np.bool_] | None = None) -> Any:
    """The numbers as an Arrow array of type `kind`, not copied.

    `pa.array` and `pa.scalar` import pandas, which takes most of a second of each process that starts.
    """
    validity = _bits(~null).buffers()[1] if null is not None and null.any() else None
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)])


def _bits(values: NDArray[np.bool_]) -> Any:
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def _texts(texts: Sequence[str]) -> Any:
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def _topic(rows: Rows) -> Any:
    # Equal texts follow from their number: to take one of them for each row costs several times as much.
    count, text = len(rows.offset), rows.topic.encode()
    edges = np.arange(0, (count + 1) * len(text), len(text), dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(edges), pa.py_buffer(text * count))


def _partition(rows: Rows) -> Any:
    return _array(np.full(len(rows.offset), rows.partition, np.int32), pa.int32())


def _offset(rows: Rows) -> Any:
    return _array(rows.offset, pa.int64())


def _timestamp(rows: Rows) -> Any:
    _, fields = rows.unpacked
    batches = rows.batches
    timestamp_ms = rows.of_batch(batches.base_timestamp_ms) + fields.timestamp_delta
    if batches.is_log_append_time.any():
        by_broker = rows.of_batch(batches.is_log_append_time)
        timestamp_ms = np.where(by_broker, rows.of_batch(batches.max_timestamp_ms), timestamp_ms)
    null = None
    if len(timestamp_ms) and max(int(timestamp_ms.max()), -int(timestamp_ms.min())) > _TIMESTAMP_MS_MAX:
        # One producer that counts nanoseconds must not end every read of the topic.
        null = (timestamp_ms > _TIMESTAMP_MS_MAX) | (timestamp_ms < -_TIMESTAMP_MS_MAX)
        timestamp_ms = np.where(null, 0, timestamp_ms)
    return _array(timestamp_ms * _US_PER_MS, COLUMNS["timestamp"].type, null)


def _timestamp_type(rows: Rows) -> Any:
    return _array(rows.of_batch(rows.batches.is_log_append_time.astype(np.int32)), pa.int32())


def _headers(rows: Rows) -> Any:
    octets, fields = rows.unpacked
    found = read_headers(octets, fields)
    # Keys and values of headers alternate, so each is an ascending series by itself.
    keys = _text(_binary(octets, found.key_start, found.key_length))
    values = _binary(octets, found.value_start, found.value_length)
    offsets = np.zeros(len(rows.offset) + 1, np.int32)
    np.cumsum(fields.header_count, out=offsets[1:])
    return pa.ListArray.from_arrays(
        _array(offsets, pa.int32()),
        pa.StructArray.from_arrays([keys, values], names=["key", "value"]),
        type=COLUMNS["headers"].type,
        mask=_bits(fields.header_count == 0),
    )


def _text(array: Any) -> Any:
    """Kafka's header keys are UTF-8 by agreement alone: what is not is replaced, as Java does."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return _texts([octets.decode(errors="replace") for octets in array.to_pylist()])


def _key_bytes(rows: Rows) -> Any:
    return _length(rows.unpacked[1].key_length)


def _value_bytes(rows: Rows) -> Any:
    return _length(rows.unpacked[1].value_length)


def _length(length: Int64s) -> Any:
    return _array(length.astype(np.int32), pa.int32(), length < 0)


def _key_hash(rows: Rows) -> Any:
    octets, fields = rows.unpacked
    return _array(murmur2(octets, fields.key_start, fields.key_length), pa.int32(), fields.key_length < 0)


def _batch_bytes(rows: Rows) -> Any:
    return _array(rows.of_batch(rows.batches.size_bytes.astype(np.int32)), pa.int32())


def _codec(rows: Rows) -> Any:
    names = _texts([codec.name.lower() for codec in Codec])
    return names.take(_array(rows.of_batch(rows.batches.codec), pa.int64()))


def _producer_id(rows: Rows) -> Any:
    null = ~rows.of_batch(rows.batches.has_producer_id)
    return _array(rows.of_batch(rows.batches.producer_id), pa.int64(), null)


def _leader_epoch(rows: Rows) -> Any:
    return _array(rows.of_batch(rows.batches.leader_epoch.astype(np.int32)), pa.int32())


_MAKERS: Final[dict[str, Callable[[Rows], Any]]] = {
    "key": _key,
    "value": _value,
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "headers": _headers,
    "keyBytes": _key_bytes,
    "valueBytes": _value_bytes,
    "keyHash": _key_hash,
    "batchBytes": _batch_bytes,
    "codec": _codec,
    "producerId": _producer_id,
    "leaderEpoch": _leader_epoch,
}
assert _MAKERS.keys() == COLUMNS.keys()
