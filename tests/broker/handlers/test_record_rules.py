"""Produce to topics whose settings ask something of single records."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from highwater.kafka.records.batch import Codec, TimestampType, read_header
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from tests.broker.handlers.harness import NodeHarness, one_batch, versions

HOUR_MS = 3_600_000


def stored(node: NodeHarness, topic: str = "t", offset: int = 0) -> bytes:
    records = node.fetch(topic, offset).responses[0].partitions[0].records
    assert records is not None
    return bytes(records)


@pytest.mark.parametrize("version", versions("produce"))
def test_timestamps_out_of_bounds_are_refused_record_by_record(node: NodeHarness, version: int) -> None:
    node.create_topic("t", message_timestamp_before_max_ms=str(HOUR_MS), message_timestamp_after_max_ms="1000")
    now_ms = node.clock.now_ms()
    times = [now_ms, now_ms - HOUR_MS - 1, now_ms + 1001]
    batch = bytes(encode_batch([Record(b"v", None, time_ms) for time_ms in times]))
    answer = node.produce_records("t", batch, version=version)
    assert answer.error_code == ErrorCode.invalid_timestamp
    if version >= 8:
        assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
        assert [error.batch_index for error in answer.record_errors] == [1, 2]
        assert "is out of range" in answer.record_errors[0].batch_index_error_message
    assert node.node.partitions.find("t", 0).log.log_end_offset == 0  # type: ignore[union-attr]
    assert node.produce_records("t", bytes(encode_batch([Record(b"v", None, now_ms)]))).error_code == ErrorCode.none


def test_the_older_bound_holds_both_ways_and_the_brokers_own_time_is_not_bounded(node: NodeHarness) -> None:
    node.create_topic("t", message_timestamp_difference_max_ms="1000")
    now_ms = node.clock.now_ms()
    for time_ms in (now_ms - 1001, now_ms + 1001):
        batch = bytes(encode_batch([Record(b"v", None, time_ms)]))
        assert node.produce_records("t", batch).error_code == ErrorCode.invalid_timestamp
    node.create_topic("own", message_timestamp_difference_max_ms="1000", message_timestamp_type="LogAppendTime")
    assert node.produce("own", b"from another age").error_code == ErrorCode.none


def test_keyless_records_of_a_compacted_topic_are_named(node: NodeHarness) -> None:
    node.create_topic("t", cleanup_policy="compact")
    batch = bytes(encode_batch([Record(b"1", b"k", 1), Record(b"2", None, 2)]))
    answer = node.produce_records("t", batch)
    assert answer.error_code == ErrorCode.invalid_record
    assert [error.batch_index for error in answer.record_errors] == [1]


@pytest.mark.parametrize(
    ("compression_type", "codec"),
    [("uncompressed", Codec.NONE), ("gzip", Codec.GZIP), ("snappy", Codec.SNAPPY), ("lz4", Codec.LZ4), ("zstd", 4)],
)
def test_the_topics_codec_replaces_the_producers(node: NodeHarness, compression_type: str, codec: int) -> None:
    node.create_topic("t", compression_type=compression_type)
    producer = {"producer_id": 5, "producer_epoch": 0}
    for sequence, source in enumerate(Codec):
        options = {"codec": source, "base_sequence": sequence, **producer}
        answer = node.produce("t", b"x" * 500, **options)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, sequence)
        again = node.produce("t", b"x" * 500, **options)
        assert (again.error_code, again.base_offset) == (ErrorCode.none, sequence)
    for offset in range(len(Codec)):
        header = read_header(stored(node, offset=offset))
        assert (header.codec, header.base_offset, header.base_sequence) == (codec, offset, offset)
        assert [record.value for record in decode_batch(stored(node, offset=offset))] == [b"x" * 500]


def test_a_batch_that_grows_beyond_the_topics_limit_is_refused(node: NodeHarness) -> None:
    node.create_topic("t", compression_type="uncompressed", max_message_bytes="1000")
    small = one_batch(bytes(5000), codec=Codec.GZIP)
    assert len(small) < 1000
    assert node.produce_records("t", small).error_code == ErrorCode.message_too_large


def test_the_brokers_time_goes_into_a_batch_made_anew(node: NodeHarness) -> None:
    node.create_topic("t", compression_type="zstd", message_timestamp_type="LogAppendTime")
    assert node.produce("t", b"v").error_code == ErrorCode.none
    header = read_header(stored(node))
    assert (header.codec, header.timestamp_type) == (Codec.ZSTD, TimestampType.LOG_APPEND_TIME)
    assert header.max_timestamp_ms == node.clock.now_ms()


def test_the_brokers_codec_is_the_default_of_topics(node: NodeHarness) -> None:
    changes = {"name": "compression.type", "config_operation": 0, "value": "gzip"}
    node.create_topic("t")
    resource = {"resource_type": 4, "resource_name": "0", "configs": [changes]}
    (answer,) = node.ask("incremental_alter_configs", 1, resources=[resource]).responses
    assert answer.error_code == ErrorCode.none
    node.produce("t", b"v")
    assert read_header(stored(node)).codec is Codec.GZIP
