"""The timestamps of a batch's records, found without decoding the records."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.kafka.records.batch import CorruptBatch, TimestampType, read_header
from highwater.kafka.records.record import Record, decode_batch, encode_batch, uncompressed_records
from highwater.kafka.records.record_times import first_record_from, largest_timestamp_ms

TIMES = st.one_of(st.integers(-1, 5), st.integers(0, 2**41), st.sampled_from([63, 64, 8191, 8192, 2**62]))
VALUES = st.one_of(st.binary(max_size=5), st.sampled_from([b"x" * 53, b"x" * 54, b"x" * 8181, b"x" * 8190]))


@given(
    st.lists(st.tuples(TIMES, VALUES), min_size=1, max_size=8),
    TIMES,
    st.integers(0, 12),
    st.sampled_from(TimestampType),
)
def test_they_are_those_of_the_decoded_records(
    given_records: list[tuple[int, bytes]], target_ms: int, start_offset: int, timestamp_type: TimestampType
) -> None:
    made = [Record(value, None, timestamp_ms) for timestamp_ms, value in given_records]
    batch = encode_batch(made, base_offset=3, timestamp_type=timestamp_type)
    header = read_header(batch)
    body = uncompressed_records(batch, header)
    records = decode_batch(batch)
    assert largest_timestamp_ms(body, header) == max(record.timestamp_ms for record in records)
    expected = next(
        (
            (record.timestamp_ms, record.offset)
            for record in records
            if record.timestamp_ms >= target_ms and record.offset >= start_offset
        ),
        None,
    )
    assert first_record_from(body, header, target_ms, start_offset) == expected


@given(st.binary(max_size=40), st.integers(1, 4))
def test_any_bytes_are_times_or_damage(body: bytes, record_count: int) -> None:
    header = read_header(encode_batch([Record(b"x", None, 5)]))._replace(record_count=record_count)
    for look in (lambda: largest_timestamp_ms(body, header), lambda: first_record_from(body, header, 7, 0)):
        with contextlib.suppress(CorruptBatch):
            look()


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_a_record_that_is_cut_off_is_damage(cut: int) -> None:
    batch = encode_batch([Record(b"first", None, 5), Record(b"second", None, 6)])
    header = read_header(batch)
    with pytest.raises(CorruptBatch):
        largest_timestamp_ms(uncompressed_records(batch, header)[:-cut], header)
