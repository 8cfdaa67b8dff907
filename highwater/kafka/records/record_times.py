"""Finds timestamps of the records in a batch, for what must not rest on the word of a client's header.

The functions look at lengths and timestamps alone, which takes about half a microsecond for each record.
"""

from __future__ import annotations

from typing import Final

from highwater.kafka.pacing import give_way
from highwater.kafka.records.batch import BatchHeader, CorruptBatch, ReadableBuffer, TimestampType
from highwater.kafka.records.compress import Unfolded
from highwater.kafka.records.record import read_varint, unfolded_records

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_FEW: Final = 1023
_ABOVE_ALL: Final = 2**65
_BELOW_ALL: Final = -(2**65)


class HeaderBudget:
    """How much one request may still have opened because headers may be wrong; after that they are believed."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.records = 10_000
        self.bytes = 4 << 20

    def holds(self, header: BatchHeader) -> bool:
        return header.record_count <= self.records and header.size_bytes <= self.bytes

    def open(self, batch: ReadableBuffer, header: BatchHeader) -> Unfolded | None:
        """Return the uncompressed records; None if there are too many, or they cannot be decompressed.

        A long request gives way meanwhile.
        """
        if not self.holds(header):
            return None
        self.records -= header.record_count
        try:
            body = unfolded_records(batch, header, limit_bytes=self.bytes)
        except CorruptBatch:
            self.bytes = 0  # It may have been decompressed as far as that.
            return None
        self.bytes -= len(body)
        return body


def largest_timestamp_ms(body: Unfolded, header: BatchHeader) -> int:
    """Return the largest timestamp of the uncompressed records. Raises CorruptBatch if they cannot be read."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME or not header.record_count:
        return header.largest_timestamp_ms
    return header.base_timestamp_ms + _scan(body, header, _ABOVE_ALL, 0, False)[0]


def first_record_from(
    body: Unfolded, header: BatchHeader, timestamp_ms: int, start_offset: int, *, gives_way: bool = False
) -> tuple[int, int] | None:
    """Return (timestamp, offset) of the first record from `start_offset` on that is not before `timestamp_ms`.

    `body` has the uncompressed records. Raises CorruptBatch if they cannot be read. `gives_way`: a long request does,
    so that its caller has to look again at what may have changed.
    """
    has_one_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    if has_one_time and header.max_timestamp_ms < timestamp_ms:
        return None
    least_delta = _BELOW_ALL if has_one_time else timestamp_ms - header.base_timestamp_ms
    delta, offset_delta = _scan(body, header, least_delta, start_offset - header.base_offset, gives_way)
    if offset_delta < 0:
        return None
    found_ms = header.max_timestamp_ms if has_one_time else header.base_timestamp_ms + delta
    return found_ms, header.base_offset + offset_delta


def _scan(
    body: Unfolded, header: BatchHeader, least_delta: int, least_offset_delta: int, gives_way: bool
) -> tuple[int, int]:
    """Return (timestamp delta, offset delta) of the first record that has at least these deltas.

    Without such a record: (largest timestamp delta, −1).
    """
    position = 0
    largest = _INT64_MIN - header.base_timestamp_ms
    limit = _INT64_MAX - header.base_timestamp_ms
    try:
        for number in range(header.record_count):
            if gives_way and not number & _FEW:
                give_way()
            length = body[position]
            if length < 0x80:
                position += 1
            elif body[position + 1] < 0x80:
                length += (body[position + 1] << 7) - 0x80
                position += 2
            else:
                decoded, position = read_varint(body, position)
                length = decoded * 2 if decoded >= 0 else 1
            if length & 1:
                raise CorruptBatch("a record has a negative length")
            end = position + (length >> 1)
            delta = body[position + 1]
            if delta < 0x80:
                delta = (delta >> 1) ^ -(delta & 1)
                after = position + 2
            elif body[position + 2] < 0x80:
                delta += (body[position + 2] << 7) - 0x80
                delta = (delta >> 1) ^ -(delta & 1)
                after = position + 3
            else:
                delta, after = read_varint(body, position + 1)
            if delta > largest:
                if delta > limit:
                    raise CorruptBatch(f"a timestamp {delta} ms after {header.base_timestamp_ms} cannot be")
                largest = delta
            if delta >= least_delta:
                offset_delta, _ = read_varint(body, after)
                if offset_delta >= least_offset_delta:
                    if offset_delta > header.last_offset_delta or end > len(body):
                        raise CorruptBatch(f"a record is numbered {offset_delta} and ends at {end} of {len(body)}")
                    return delta, offset_delta
            position = end
    except IndexError:
        raise CorruptBatch(f"the last of {header.record_count} records is cut off") from None
    if position != len(body):
        raise CorruptBatch(f"{header.record_count} records do not end at {len(body)}, where the batch ends")
    return largest, -1
