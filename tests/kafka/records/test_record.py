"""Single records: round trips, and bytes that are none."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.kafka.records.batch import HEADER_SIZE, Codec, CorruptBatch, crc_is_valid, read_header, update_crc
from highwater.kafka.records.record import (
    EndMarker,
    Record,
    decode_batch,
    encode_batch,
    read_end_marker,
    read_varint,
    write_varint,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "record_batches"
# What MakeRecordBatches.java puts into each of its batches.
GOLDEN_RECORDS = [
    Record(
        value=None if i % 11 == 0 else b'{"record": %d, "square": %d}' % (i, i * i),
        key=None if i % 7 == 0 else b"key %d" % i,
        timestamp_ms=1_700_000_000_000 + i * 37 % 1000,
        headers=(("trace", b"t%d" % i), ("none", None)) if i % 5 == 0 else (),
        offset=1000 + i,
    )
    for i in range(1500)
]
MAYBE_BYTES = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.builds(
        Record,
        value=MAYBE_BYTES,
        key=MAYBE_BYTES,
        timestamp_ms=st.integers(-1, 2**60),
        headers=st.lists(st.tuples(st.text(max_size=10), MAYBE_BYTES), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=8,
)


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(value: int) -> None:
    buffer = bytearray(b"x")
    write_varint(buffer, value)
    assert len(buffer) <= 11
    assert read_varint(buffer, 1) == (value, len(buffer))


@pytest.mark.parametrize(
    ("value", "expected"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-65, "8101"), (300, "d804")]
)
def test_varints_are_zigzag(value: int, expected: str) -> None:
    buffer = bytearray()
    write_varint(buffer, value)
    assert buffer.hex() == expected


def test_varints_that_do_not_end_are_refused() -> None:
    for data in (b"", b"\x80", b"\xff" * 20):
        with pytest.raises(CorruptBatch):
            read_varint(data, 0)


@given(RECORDS, st.sampled_from(list(Codec)), st.integers(0, 2**60))
def test_round_trip(records: list[Record], codec: Codec, base_offset: int) -> None:
    batch = encode_batch(records, codec=codec, base_offset=base_offset)
    expected = [record._replace(offset=base_offset + i) for i, record in enumerate(records)]
    assert decode_batch(batch) == expected
    assert read_header(batch).max_timestamp_ms == max(record.timestamp_ms for record in records)


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_that_apache_kafka_made(codec: Codec) -> None:
    batch = (GOLDEN / f"{codec.name.lower()}.batch").read_bytes()
    header = read_header(batch)
    assert (header.size_bytes, header.codec) == (len(batch), codec)
    assert crc_is_valid(batch, 0, header)
    assert decode_batch(batch) == GOLDEN_RECORDS


def test_an_uncompressed_batch_is_apache_kafkas_to_the_byte() -> None:
    ours = encode_batch(
        GOLDEN_RECORDS, base_offset=1000, leader_epoch=5, producer_id=42, producer_epoch=3, base_sequence=17
    )
    assert ours == (GOLDEN / "none.batch").read_bytes()


@given(st.binary(max_size=120), st.integers(0, 5))
def test_any_bytes_are_records_or_refused(body: bytes, count: int) -> None:
    batch = encode_batch([Record(b"")])[:HEADER_SIZE] + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 57, count)
    with contextlib.suppress(CorruptBatch):
        assert len(decode_batch(batch)) == count


def test_a_timestamp_past_the_last_that_can_be_told_is_refused() -> None:
    batch = encode_batch([Record(b"", timestamp_ms=0), Record(b"", timestamp_ms=1)])
    header = read_header(batch)._replace(base_timestamp_ms=2**63 - 1)
    with pytest.raises(CorruptBatch, match="cannot be"):
        decode_batch(batch, header)


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    batch = encode_batch([Record(b"x")], codec=Codec.GZIP)[:HEADER_SIZE]
    struct.pack_into(">i", batch, 8, HEADER_SIZE - 12)
    struct.pack_into(">i", batch, 57, 0)
    update_crc(batch, 0, len(batch))
    assert decode_batch(batch) == []
    assert read_end_marker(batch, read_header(batch)) is None


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([])


def test_a_cut_off_batch_is_refused() -> None:
    with pytest.raises(CorruptBatch, match="cut off"):
        decode_batch(encode_batch([Record(b"x")])[:-1])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (0, EndMarker(is_commit=False, coordinator_epoch=7)),
        (1, EndMarker(is_commit=True, coordinator_epoch=7)),
        (2, None),
    ],
)
def test_end_markers(kind: int, expected: EndMarker | None) -> None:
    record = Record(struct.pack(">hi", 0, 7), struct.pack(">hh", 0, kind))
    batch = encode_batch([record], is_control=True, is_transactional=True)
    assert read_end_marker(batch, read_header(batch)) == expected


def test_a_control_record_without_its_fields_is_refused() -> None:
    for record in (Record(None, b"\x00\x00\x00\x01"), Record(b"\x00", b"\x00\x00\x00\x01"), Record(b"", None)):
        batch = encode_batch([record], is_control=True)
        with pytest.raises(CorruptBatch):
            read_end_marker(batch, read_header(batch))
