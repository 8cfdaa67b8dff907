"""Records of batches for people: bounds against bombs, aborted transactions, damage, and where to go on."""

from __future__ import annotations

import struct

import pytest

from highwater.kafka.records.batch import HEADER, Codec, TimestampType, read_header, update_crc
from highwater.kafka.records.compress import compress
from highwater.kafka.records.record import Record, TransactionMarker, encode_batch, encode_end_marker, write_varint
from highwater.monitor.messages.records import (
    LARGEST_BATCH_BYTES,
    LARGEST_FIELD_BYTES,
    MOST_HEADERS,
    Aborted,
    Found,
    read,
)

AT_MS = 1_790_000_000_000


def at_offset(batch: bytearray, offset: int) -> bytes:
    struct.pack_into(">q", batch, 0, offset)
    return bytes(batch)


def values(found: Found) -> list[bytes | None]:
    return [None if each.value is None else each.value.data for each in found.messages]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_each_codec_come_with_all_that_they_have(codec: Codec) -> None:
    headers = (("trace", b"\x01"), ("", None))
    records = [Record(b"v", b"k", AT_MS, headers), Record(None, None, AT_MS + 5), Record(b"", b"", AT_MS)]
    found = read(encode_batch(records, codec=codec, base_offset=7), 7, 100)
    assert [each.offset for each in found.messages] == [7, 8, 9]
    assert [each.timestamp_ms for each in found.messages] == [AT_MS, AT_MS + 5, AT_MS]
    first, second, third = found.messages
    assert first.key is not None
    assert first.value is not None
    assert (first.key.data, first.value.data, first.is_append_time) == (b"k", b"v", False)
    assert [(name, value and value.data) for name, value in first.headers] == [("trace", b"\x01"), ("", None)]
    assert second.key is second.value is None
    assert third.key is not None
    assert third.key.size == 0
    assert (found.next_offset, found.notes) == (10, [])


def test_a_read_begins_and_ends_inside_of_batches_and_can_go_on() -> None:
    data = b"".join(encode_batch([Record(b"%d" % n) for n in range(b, b + 4)], base_offset=b) for b in (0, 4, 8))
    found = read(data, 2, 5)
    assert values(found) == [b"2", b"3", b"4", b"5", b"6"]
    assert found.next_offset == 7
    rest = read(data, 7, 100)
    assert values(rest) == [b"7", b"8", b"9", b"10", b"11"]
    assert rest.next_offset == 12
    # A batch that is cut off at the end comes with the next fetch.
    assert read(data[:-1], 2, 100).next_offset == 8
    assert read(b"", 3, 9).next_offset == 3
    assert len(read(data, 0, 100, most_bytes=1).messages) == 4


def test_the_time_of_appending_is_told_as_such() -> None:
    batch = encode_batch([Record(b"a", timestamp_ms=AT_MS)], timestamp_type=TimestampType.LOG_APPEND_TIME)
    (message,) = read(batch, 0, 9).messages
    assert (message.timestamp_ms, message.is_append_time) == (AT_MS, True)
    (message,) = read(encode_batch([Record(b"a")]), 0, 9).messages
    assert message.timestamp_ms is None


def test_records_of_aborted_transactions_are_left_out_if_only_committed_ones_are_read() -> None:
    def batch(offset: int, producer: int, value: bytes) -> bytes:
        made = encode_batch(
            [Record(value)], base_offset=offset, producer_id=producer, producer_epoch=0, is_transactional=True
        )
        return bytes(made)

    def marker(offset: int, producer: int, *, is_commit: bool) -> bytes:
        return at_offset(encode_end_marker(TransactionMarker(producer, 0, 0, is_commit), AT_MS), offset)

    data = b"".join(
        (
            batch(0, 1, b"aborted"), batch(1, 2, b"committed"), encode_batch([Record(b"plain")], base_offset=2),
            marker(3, 1, is_commit=False), batch(4, 1, b"again"), marker(5, 1, is_commit=True),
            marker(6, 2, is_commit=True),
        )
    )  # fmt: skip
    found = read(data, 0, 100, [Aborted(1, 0)])
    assert values(found) == [b"committed", b"plain", b"again"]
    assert (found.aborted_records, found.next_offset) == (1, 7)
    assert values(read(data, 0, 100, None)) == [b"aborted", b"committed", b"plain", b"again"]
    # From the middle of an aborted transaction on.
    assert values(read(data[len(batch(0, 1, b"aborted")) :], 1, 100, [Aborted(1, 0)])) == [
        b"committed",
        b"plain",
        b"again",
    ]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_not_decompressed_and_what_follows_it_is_shown(codec: Codec) -> None:
    bomb = encode_batch([Record(bytes(LARGEST_BATCH_BYTES + 1))], codec=codec)
    assert len(bomb) < LARGEST_BATCH_BYTES // 10
    found = read(bytes(bomb) + encode_batch([Record(b"after")], base_offset=1), 0, 9)
    assert values(found) == [b"after"]
    (note,) = found.notes
    assert "The batch of 1 record at offset 0 is not shown" in note
    assert "8 MiB when decompressed" in note


def test_a_record_of_millions_of_headers_costs_what_is_shown_of_it() -> None:
    body = bytearray(1)
    for number in (0, 0, -1, -1):
        write_varint(body, number)
    write_varint(body, 1_000_000)
    body += bytes(2) * 1_000_000
    record = bytearray()
    write_varint(record, len(body))
    batch = bytearray(encode_batch([Record(b"")], codec=Codec.ZSTD))[: HEADER.size]
    batch += compress(Codec.ZSTD, record + body)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    update_crc(batch, 0, len(batch))
    (message,) = read(batch, 0, 9).messages
    assert (len(message.headers), message.more_headers) == (MOST_HEADERS, 1_000_000 - MOST_HEADERS)


def test_a_long_field_is_cut_and_its_size_is_known() -> None:
    (message,) = read(encode_batch([Record(b"x" * 1_000_000, b"y" * 20_000)]), 0, 9).messages
    for field, size in ((message.value, 1_000_000), (message.key, 20_000)):
        assert field is not None
        assert (len(field.data), field.size, field.is_cut) == (LARGEST_FIELD_BYTES, size, True)


def test_damage_is_told_and_what_follows_it_is_shown() -> None:
    damaged = bytearray(encode_batch([Record(b"secret")]))
    damaged[-1] ^= 1
    found = read(bytes(damaged) + encode_batch([Record(b"after")], base_offset=1), 0, 9)
    assert values(found) == [b"after"]
    assert "checksum does not match" in found.notes[0]
    wrong = bytearray(encode_batch([Record(b"a"), Record(b"b")]))
    struct.pack_into(">i", wrong, HEADER.size - 4, 9)
    update_crc(wrong, 0, len(wrong))
    assert read_header(wrong).record_count == 9
    assert "is not shown" in read(wrong, 0, 20).notes[0]
    assert "not a valid batch" in read(b"\xff" * 100, 0, 9).notes[0]
