"""Checks of single produced records that the settings of a topic, or the header of the batch, require.

Kafka opens every batch (LogValidator). This broker opens those of a topic that is compacted, bounds the timestamps of
its records, or has its own codec; of other topics those whose header is not credible (`kafka.records.batch`), for a
right max timestamp alone. The checks are Kafka's:

- a compacted topic refuses a record without a key;
- the producer's timestamps lie within message.timestamp.{before,after}.max.ms of the broker's clock;
- with compression.type other than `producer` a batch of another codec is rebuilt: same records, same producer and
  sequence, consecutive offsets from its base offset;
- a max timestamp that differs from the records' is corrected;
- a batch whose record count differs from its header is refused; so is one whose records are not numbered from 0 on,
  which Kafka renumbers when it rebuilds the batch, and keeps unchanged otherwise.

A request takes turns with others while its batches are opened, and what it may have opened is limited.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.kafka.pacing import aside, give_way
from highwater.kafka.records import compress
from highwater.kafka.records.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    Codec,
    CorruptBatch,
    WritableBuffer,
    read_header,
    update_crc,
)
from highwater.kafka.records.record import let_go, outlines, unfolded_records
from highwater.kafka.records.record_times import HeaderBudget, largest_timestamp_ms

UNBOUNDED: Final = 2**63 - 1
MAX_RECORDS: Final = 500_000
MAX_UNFOLDED_BYTES: Final = 128 * 1024 * 1024
"""The limits of what one request has opened; some hundred times what producers send."""
_SHOWN_ERRORS: Final = 3
_FEW: Final = 127


class RecordRules(NamedTuple):
    needs_keys: bool = False
    timestamp_before_max_ms: int = UNBOUNDED
    timestamp_after_max_ms: int = UNBOUNDED
    codec: Codec | None = None
    """None: as the producer compressed it."""
    level: int | None = None

    @property
    def bounds_timestamps(self) -> bool:
        return min(self.timestamp_before_max_ms, self.timestamp_after_max_ms) < UNBOUNDED

    def concern(self, header: BatchHeader) -> bool:
        """Whether the batch must be opened."""
        return (self.codec is not None and self.codec != header.codec) or self.needs_keys or self.bounds_timestamps


class RefusedRecords(NamedTuple):
    """Why a batch was refused, and for which of its records (KIP-467)."""

    error_code: ErrorCode
    message: str
    record_errors: tuple[tuple[int, str], ...] = ()
    """(position in the batch, reason)"""


class UnfoldBudget:
    """How much one request may still have opened because of the settings of topics."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.records = MAX_RECORDS
        self.bytes = MAX_UNFOLDED_BYTES


def conform(
    batch: WritableBuffer, header: BatchHeader, rules: RecordRules, now_ms: int, opening: UnfoldBudget
) -> tuple[WritableBuffer, BatchHeader] | RefusedRecords:
    """Return the batch that the log appends: the same one, or one rebuilt from its records."""
    if not rules.concern(header):
        return batch, header
    if header.record_count > opening.records:
        return _unreadable(
            f"with {header.record_count} records the request has more than the {MAX_RECORDS} that are opened at once"
        )
    opening.records -= header.record_count
    body: compress.Unfolded = b""
    try:
        body = unfolded_records(batch, header, limit_bytes=opening.bytes)
        opening.bytes -= len(body)
        checked = _check(body, header, rules, now_ms)
        if isinstance(checked, RefusedRecords):
            return checked
        return _rebuilt(batch, header, rules, body, checked)
    except CorruptBatch as damage:
        return _unreadable(str(damage))
    finally:
        let_go(body)


def _rebuilt(
    batch: WritableBuffer, header: BatchHeader, rules: RecordRules, body: compress.Unfolded, checked: int
) -> tuple[WritableBuffer, BatchHeader]:
    """`checked` is the largest timestamp of the records."""
    if rules.codec is not None and rules.codec != header.codec:
        attributes = header.attributes & ~CODEC_MASK | rules.codec
        packed = aside(partial(compress.compress, rules.codec, body, rules.level))
        batch = bytearray(HEADER_SIZE) + packed
        length = header.length + len(batch) - header.size_bytes
        header = header._replace(length=length, attributes=attributes, max_timestamp_ms=checked)
    elif checked != header.max_timestamp_ms:
        header = header._replace(max_timestamp_ms=checked)
    else:
        return batch, header
    HEADER.pack_into(batch, 0, *header)
    update_crc(batch, 0, header.size_bytes)
    return batch, read_header(batch)


def with_true_max_timestamp(batch: WritableBuffer, header: BatchHeader, allowance: HeaderBudget) -> BatchHeader:
    """Write the largest timestamp of the records into the header, if it is another; returns the header.

    A batch that cannot be read, or not within the allowance, stays as it is, as all do whose header is credible. A long
    request gives way meanwhile.
    """
    body = allowance.open(batch, header)
    try:
        max_timestamp_ms = header.max_timestamp_ms if body is None else largest_timestamp_ms(body, header)
    except CorruptBatch:
        return header
    if max_timestamp_ms == header.max_timestamp_ms:
        return header
    HEADER.pack_into(batch, 0, *header._replace(max_timestamp_ms=max_timestamp_ms))
    update_crc(batch, 0, header.size_bytes)
    return read_header(batch)


def _unreadable(reason: str) -> RefusedRecords:
    return RefusedRecords(ErrorCode.invalid_record, f"The records of the batch cannot be read: {reason}")


def _check(body: compress.Unfolded, header: BatchHeader, rules: RecordRules, now_ms: int) -> int | RefusedRecords:
    """Return the largest timestamp of the records, or the errors."""
    errors: list[tuple[int, str]] = []
    error_code = ErrorCode.invalid_record
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    max_timestamp_ms = NO_TIMESTAMP
    for position, record in enumerate(outlines(body, header)):
        if not position & _FEW:
            give_way()
        if record.offset_delta != position:
            raise CorruptBatch(f"record {position} is numbered {record.offset_delta}")
        timestamp_ms = header.base_timestamp_ms + record.timestamp_delta
        max_timestamp_ms = max(max_timestamp_ms, timestamp_ms)
        if rules.needs_keys and record.key is None:
            errors.append((position, "Compacted topic cannot accept message without key."))
        elif timestamp_ms != NO_TIMESTAMP and not earliest <= timestamp_ms <= latest:
            error_code = ErrorCode.invalid_timestamp
            reason = f"Timestamp {timestamp_ms} of message with offset {position} is out of range. "
            errors.append((position, f"{reason}The timestamp should be within [{earliest}, {latest}]"))
    if not errors:
        return max_timestamp_ms
    if error_code is ErrorCode.invalid_timestamp:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = "; ".join(f"record {position}: {reason}" for position, reason in errors[:_SHOWN_ERRORS])
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the "
            f"first three errors at most: {shown}"
        )
    return RefusedRecords(error_code, message, tuple(errors))
