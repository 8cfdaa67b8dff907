"""Headers, the checks of a produced batch, and what the broker stamps on it."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from highwater.kafka.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Codec,
    CorruptBatch,
    TimestampType,
    add_to_sequence,
    assign,
    crc_is_valid,
    foreign_format,
    headers,
    read_header,
    set_log_append_time,
    update_crc,
    validate_produced,
)
from highwater.kafka.records.record import Record, decode_batch, encode_batch

# Field positions, from the table in the module's docstring.
LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_OFFSET_DELTA, PRODUCER_ID, COUNT = 8, 16, 17, 21, 23, 43, 57


def produced(values: int = 3, **fields: int) -> bytearray:
    records = [Record(b"value %d" % i, b"key", 1000 + i) for i in range(values)]
    return encode_batch(records, **fields)  # type: ignore[arg-type]


def patched(position: int, form: str, value: int, *, fix_crc: bool = True) -> bytearray:
    batch = produced()
    struct.pack_into(form, batch, position, value)
    if fix_crc:
        update_crc(batch, 0, len(batch))
    return batch


def validate(batch: bytes | bytearray, max_message_bytes: int = 10_000) -> BatchHeader | ErrorCode:
    return validate_produced(batch, max_message_bytes=max_message_bytes)


def test_the_header_tells_what_was_encoded() -> None:
    batch = encode_batch(
        [Record(b"a", timestamp_ms=5), Record(b"b", timestamp_ms=9), Record(b"c", timestamp_ms=7)],
        codec=Codec.ZSTD,
        base_offset=100,
        leader_epoch=4,
        producer_id=77,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        is_transactional=True,
    )
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset, header.leader_epoch) == (100, 102, 103, 4)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (5, 9)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 2**31 - 2)
    assert header.last_sequence == 0  # 2^31 − 2, 2^31 − 1, 0
    assert (header.codec, header.record_count, header.size_bytes) == (Codec.ZSTD, 3, len(batch))
    assert (header.is_transactional, header.is_control) == (True, False)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert crc_is_valid(batch, 0, header)


def test_sequences_wrap_in_both_directions() -> None:
    assert add_to_sequence(2**31 - 1, 1) == 0
    assert add_to_sequence(0, -1) == 2**31 - 1


def test_a_good_batch_passes_with_any_leader_epoch() -> None:
    for leader_epoch in (-1, 0, 9):
        batch = produced(leader_epoch=leader_epoch)
        assert validate(batch) == read_header(batch)


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (b"", ErrorCode.invalid_record),
        (produced()[:-1], ErrorCode.invalid_record),
        (produced()[:HEADER_SIZE], ErrorCode.invalid_record),
        (produced() + produced(), ErrorCode.invalid_record),
        (produced() + bytes(20), ErrorCode.corrupt_message),
        (patched(LENGTH, ">i", -1), ErrorCode.corrupt_message),
        (patched(LENGTH, ">i", 48, fix_crc=False), ErrorCode.corrupt_message),
        (patched(LENGTH, ">i", 2**31 - 1), ErrorCode.invalid_record),
        (patched(MAGIC, ">b", 1), ErrorCode.invalid_record),
        (patched(MAGIC, ">b", 3), ErrorCode.corrupt_message),
        (patched(CRC, ">I", 1, fix_crc=False), ErrorCode.corrupt_message),
        (produced(base_offset=1), ErrorCode.invalid_record),
        (patched(LAST_OFFSET_DELTA, ">i", 1), ErrorCode.invalid_record),
        (patched(LAST_OFFSET_DELTA, ">i", -1), ErrorCode.invalid_record),
        (patched(COUNT, ">i", 0), ErrorCode.invalid_record),
        (patched(COUNT, ">i", -3), ErrorCode.invalid_record),
        (patched(ATTRIBUTES, ">h", 5), ErrorCode.unsupported_compression_type),
        (patched(ATTRIBUTES, ">h", 0x20), ErrorCode.invalid_record),
        (patched(ATTRIBUTES, ">h", 0x08), ErrorCode.invalid_timestamp),
        (patched(PRODUCER_ID, ">q", 5), ErrorCode.invalid_record),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else None,
)
def test_a_bad_batch_gets_the_error_that_kafka_gives(batch: bytearray, error: ErrorCode) -> None:
    assert validate(batch) is error


def test_size_is_checked_before_the_crc() -> None:
    batch = produced()
    assert validate(batch, len(batch)) == read_header(batch)
    assert validate(batch, len(batch) - 1) is ErrorCode.message_too_large


def test_the_beginning_of_a_second_batch_is_dropped() -> None:
    batch = produced()
    for size in (1, 11, 12, 16, 17, 60, 61, len(batch) - 1):
        assert validate(batch + batch[:size]) == read_header(batch)


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_check(data: bytes) -> None:
    assert isinstance(validate(data), ErrorCode)


@given(st.data())
def test_any_flipped_bit_is_noticed(data: st.DataObject) -> None:
    batch = produced()
    bit = data.draw(st.integers(0, 8 * len(batch) - 1))
    batch[bit // 8] ^= 1 << bit % 8
    if 12 <= bit // 8 < 16:
        assert isinstance(validate(batch), BatchHeader)  # The leader epoch is not the client's to set.
    else:
        assert isinstance(validate(batch), ErrorCode)


def test_stamping_keeps_the_crc() -> None:
    batch = produced()
    before = read_header(batch)
    assign(batch, len(batch), 2**40, 12)
    assert read_header(batch) == before._replace(base_offset=2**40, leader_epoch=12)
    assert crc_is_valid(batch, 0, before)


def test_log_append_time_is_under_the_crc() -> None:
    batch = produced(codec=Codec.GZIP)
    set_log_append_time(batch, 0, read_header(batch), 123_456)
    header = read_header(batch)
    assert (header.timestamp_type, header.max_timestamp_ms) == (TimestampType.LOG_APPEND_TIME, 123_456)
    assert crc_is_valid(batch, 0, header)
    assert {record.timestamp_ms for record in decode_batch(batch)} == {123_456}


def test_headers_walk_whole_batches_only() -> None:
    one, two = produced(1), produced(2)
    buffer = one + two + produced(3)[:-1]
    assert [(position, header.record_count) for position, header in headers(buffer)] == [(0, 1), (len(one), 2)]
    assert list(headers(b"")) == []
    with pytest.raises(CorruptBatch, match="magic 0"):
        list(headers(one + bytes(100)))


def test_foreign_formats_are_told_from_damage() -> None:
    legacy = bytearray(struct.pack(">qiIbb", 0, 22, 0, 1, 0)) + bytes(16)
    struct.pack_into(">I", legacy, 12, zlib.crc32(legacy[16:]))
    assert foreign_format(legacy) == "message format 1, from before Kafka 0.11"
    newer = produced()
    newer[MAGIC] = 3
    assert foreign_format(newer) == "message format 3, newer than this broker knows"
    legacy[20] ^= 1
    for damaged in (legacy, produced(), bytes(100), b"", newer[:-1]):
        assert foreign_format(damaged) is None
