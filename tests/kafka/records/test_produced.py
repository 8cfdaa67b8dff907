"""Batches that a topic's settings make the broker open: what is refused, put right, or made anew."""

from __future__ import annotations

import dataclasses
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from highwater.broker.log.config import LogConfig
from highwater.kafka.records import produced
from highwater.kafka.records.batch import HEADER, Codec, TimestampType, crc_is_valid, read_header, update_crc
from highwater.kafka.records.produced import RecordRules, RefusedRecords, UnfoldBudget, conform
from highwater.kafka.records.record import Record, encode_batch

NOW_MS = 1_700_000_000_000
PRODUCER: dict[str, Any] = {"producer_id": 4000, "producer_epoch": 3, "base_sequence": 17, "is_transactional": True}
RECORDS = [
    Record(b"one" * 100, b"a", NOW_MS, (("header", b"x"), ("none", None))),
    Record(None, b"b", NOW_MS + 5),
    Record(b"three", b"c", NOW_MS - 7),
]


def conformed(batch: bytearray, rules: RecordRules) -> bytearray:
    result = conform(batch, read_header(batch), rules, NOW_MS, UnfoldBudget())
    assert not isinstance(result, RefusedRecords), result
    changed, header = result
    assert isinstance(changed, bytearray)
    assert header == read_header(changed)
    assert crc_is_valid(changed, 0, header)
    return changed


def refused(batch: bytearray, rules: RecordRules) -> RefusedRecords:
    result = conform(batch, read_header(batch), rules, NOW_MS, UnfoldBudget())
    assert isinstance(result, RefusedRecords)
    return result


def with_header(batch: bytearray, **fields: int) -> bytearray:
    header = read_header(batch)._replace(**fields)
    HEADER.pack_into(batch, 0, *header)
    update_crc(batch, 0, header.size_bytes)
    return batch


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_a_batch_of_another_codec_is_the_one_its_producer_would_have_made(source: Codec, target: Codec) -> None:
    batch = encode_batch(RECORDS, codec=source, **PRODUCER)
    assert conformed(batch, RecordRules(codec=target)) == encode_batch(RECORDS, codec=target, **PRODUCER)


def test_a_batch_that_has_the_codec_is_not_touched() -> None:
    batch = encode_batch(RECORDS, codec=Codec.ZSTD)
    batch[-1] ^= 1
    assert conform(batch, read_header(batch), RecordRules(codec=Codec.ZSTD), NOW_MS, UnfoldBudget()) == (
        batch,
        read_header(batch),
    )


@pytest.mark.parametrize(("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.ZSTD, (-50, 19))])
def test_levels(codec: Codec, levels: tuple[int, int]) -> None:
    records = [Record(str(number).encode() * 3, None, NOW_MS) for number in range(5000)]
    fast, thorough = (len(conformed(encode_batch(records), RecordRules(codec=codec, level=level))) for level in levels)
    assert fast > thorough


@given(
    st.lists(st.tuples(st.binary(max_size=50), st.integers(-(10**6), 10**6)), min_size=1, max_size=10),
    st.sampled_from(list(Codec)),
    st.sampled_from(list(Codec)),
)
@settings(max_examples=50, deadline=None)
def test_any_records(records: list[tuple[bytes, int]], source: Codec, target: Codec) -> None:
    batch = [Record(value, None, NOW_MS + delta) for value, delta in records]
    assert conformed(encode_batch(batch, codec=source), RecordRules(codec=target)) == encode_batch(batch, codec=target)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_max_timestamp_that_is_not_that_of_the_records_is_put_right(codec: Codec) -> None:
    honest = encode_batch(RECORDS, codec=codec)
    lying = with_header(bytearray(honest), max_timestamp_ms=NOW_MS + 999_999)
    assert conformed(lying, RecordRules(needs_keys=True)) == honest


def test_records_without_a_key() -> None:
    batch = encode_batch([Record(b"1", b"k", 1), Record(b"2", None, 2), Record(b"3", b"", 3), Record(b"4", None, 4)])
    result = refused(batch, RecordRules(needs_keys=True))
    assert result.error_code is ErrorCode.invalid_record
    assert [position for position, _ in result.record_errors] == [1, 3]
    assert result.record_errors[0][1] == "Compacted topic cannot accept message without key."
    assert "2 record errors in total" in result.message


def test_timestamps_out_of_bounds() -> None:
    rules = RecordRules(timestamp_before_max_ms=100, timestamp_after_max_ms=50)
    times = [NOW_MS - 101, NOW_MS - 100, NOW_MS, NOW_MS + 50, NOW_MS + 51]
    result = refused(encode_batch([Record(b"", None, time_ms) for time_ms in times], codec=Codec.GZIP), rules)
    assert result.error_code is ErrorCode.invalid_timestamp
    assert [position for position, _ in result.record_errors] == [0, 4]
    assert result.record_errors[1][1] == (
        f"Timestamp {NOW_MS + 51} of message with offset 4 is out of range. "
        f"The timestamp should be within [{NOW_MS - 100}, {NOW_MS + 50}]"
    )
    conformed(encode_batch([Record(b"", None, time_ms) for time_ms in times[1:4]]), rules)
    conformed(encode_batch([Record(b"", None, -1)]), rules)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("lie", [{"record_count": 2}, {"record_count": 4}, {"record_count": 2**31 - 1}])
def test_records_that_are_not_what_the_header_counts(codec: Codec, lie: dict[str, int]) -> None:
    batch = with_header(encode_batch(RECORDS, codec=codec), **lie)
    result = refused(batch, RecordRules(needs_keys=True))
    assert (result.error_code, result.record_errors) == (ErrorCode.invalid_record, ())


@pytest.mark.parametrize("rules", [RecordRules(needs_keys=True), RecordRules(codec=Codec.ZSTD)])
def test_timestamps_past_the_last_that_can_be_written(rules: RecordRules) -> None:
    batch = with_header(encode_batch(RECORDS), base_timestamp_ms=2**63 - 1)
    assert refused(batch, rules).error_code is ErrorCode.invalid_record


def test_records_that_are_not_numbered_from_0_on() -> None:
    body = bytearray(encode_batch(RECORDS))
    first_offset_delta = 61 + 2 + 1 + 1  # length (two bytes), attributes, timestamp delta
    assert body[first_offset_delta] == 0
    body[first_offset_delta] = 2
    result = refused(with_header(body), RecordRules(codec=Codec.GZIP))
    assert "record 0 is numbered 1" in result.message


def test_a_batch_that_unfolds_to_more_than_anybody_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produced, "MAX_UNFOLDED_BYTES", 1 << 20)
    batch = encode_batch([Record(bytes(2 << 20), b"k", NOW_MS)], codec=Codec.ZSTD)
    assert len(batch) < 1000
    assert refused(batch, RecordRules(needs_keys=True)).error_code is ErrorCode.invalid_record


def test_damaged_compression(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = encode_batch(RECORDS, codec=Codec.SNAPPY)
    batch[80:] = bytes(len(batch) - 80)
    assert refused(with_header(batch), RecordRules(codec=Codec.NONE)).error_code is ErrorCode.invalid_record
    with pytest.raises(cramjam.DecompressionError):
        cramjam.snappy.decompress_raw(bytes(batch[80:]))


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        ({}, None),
        ({"cleanup_policy": ("delete", "compact")}, RecordRules(needs_keys=True)),
        ({"compression": Codec.GZIP, "compression_level": 3}, RecordRules(codec=Codec.GZIP, level=3)),
        ({"message_timestamp_after_max_ms": 9}, RecordRules(timestamp_after_max_ms=9)),
        ({"message_timestamp_after_max_ms": 9, "message_timestamp_type": TimestampType.LOG_APPEND_TIME}, None),
    ],
)
def test_what_settings_ask_of_records(settings: dict[str, Any], rules: RecordRules | None) -> None:
    assert LogConfig(**settings).record_rules == rules
    assert dataclasses.replace(LogConfig(**settings), segment_bytes=5).record_rules == rules
