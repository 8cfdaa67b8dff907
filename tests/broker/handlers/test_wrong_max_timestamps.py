"""Batches whose header has a wrong max timestamp: what is stored, kept and answered is what Kafka's leader would."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.kafka.records.batch import HEADER, BatchHeader, Codec, crc_is_valid, headers, read_header, update_crc
from highwater.kafka.records.record import Record, encode_batch
from highwater.kafka.records.record_times import HeaderBudget
from tests.broker.handlers.harness import NodeHarness

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
OLD_MS = NOW_MS - 30 * DAY_MS


def with_max_timestamp(times: list[int], max_timestamp_ms: int, codec: Codec = Codec.NONE) -> bytes:
    batch = encode_batch([Record(b"%d" % slot, None, time) for slot, time in enumerate(times)], codec=codec)
    header = read_header(batch)._replace(max_timestamp_ms=max_timestamp_ms)
    HEADER.pack_into(batch, 0, *header)
    update_crc(batch, 0, len(batch))
    return bytes(batch)


def of_given_times(times: list[int]) -> int:
    """kafkajs 2.2.4: the largest time that the program gave; records of now are those without one."""
    return max((time for time in times if time != NOW_MS), default=NOW_MS)


def of_last_record(times: list[int]) -> int:
    """kafka-go."""
    return times[-1]


def of_none(times: list[int]) -> int:
    """Sarama before 1.45.1."""
    return -1


def in_the_future(times: list[int]) -> int:
    return NOW_MS + 365 * DAY_MS


CLIENTS = [of_given_times, of_last_record, of_none, in_the_future]
TIMES = {
    "given and not": [OLD_MS, NOW_MS],
    "old alone": [OLD_MS, OLD_MS + 5, OLD_MS + 1],
    "falling": [NOW_MS, NOW_MS - 1000, NOW_MS - 60_000],
    "nearly now": [NOW_MS - 4000, NOW_MS, NOW_MS - 3000],
    "in the future": [NOW_MS + DAY_MS, NOW_MS + 2 * DAY_MS, NOW_MS],
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeHarness]:
    node = NodeHarness(tmp_path / "log")
    yield node
    node.close()


def stored(node: NodeHarness, topic: str) -> list[tuple[BatchHeader, bytes]]:
    log = node.log_directory.logs[topic, 0]
    data = log.read(0, 1 << 20, end_offset=log.log_end_offset)
    assert isinstance(data, bytes | bytearray)
    return [(header, bytes(data[at : at + header.size_bytes])) for at, header in headers(data)]


def offset_at(node: NodeHarness, topic: str, timestamp_ms: int) -> tuple[int, int]:
    """(timestamp, offset) of the answer of ListOffsets."""
    partition = {"partition_index": 0, "timestamp": timestamp_ms}
    topics = [{"name": topic, "partitions": [partition]}]
    (answer,) = node.ask("list_offsets", 1, replica_id=-1, topics=topics).topics[0].partitions
    assert answer.error_code == 0
    return answer.timestamp, answer.offset


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_offsets_by_time_are_those_of_the_records(
    node: NodeHarness, client: Callable[[list[int]], int], times: list[int], codec: Codec
) -> None:
    node.create_topic("t")
    everything: list[tuple[int, int]] = []
    for _ in range(3):
        everything += [(time, len(everything) + slot) for slot, time in enumerate(times)]
        assert node.produce_records("t", with_max_timestamp(times, client(times), codec)).error_code == 0
    for target in {time + shift for time in times for shift in (-1, 0, 1)} | {0, OLD_MS - DAY_MS}:
        expected = next((found for found in everything if found[0] >= target), (-1, -1))
        assert offset_at(node, "t", target) == expected


@given(st.lists(st.integers(-(10**8), 10**8), min_size=1, max_size=5), st.integers(-(10**8), 10**8))
def test_a_header_is_near_the_clock_or_right(shifts: list[int], max_shift: int) -> None:
    """By more than ten seconds it is never too early for a record that is not from the future."""
    with tempfile.TemporaryDirectory() as directory:
        node = NodeHarness(Path(directory) / "log")
        node.create_topic("t")
        times = [NOW_MS + shift for shift in shifts]
        assert node.produce_records("t", with_max_timestamp(times, NOW_MS + max_shift)).error_code == 0
        ((header, batch),) = stored(node, "t")
        assert crc_is_valid(batch, 0, header)
        if header.max_timestamp_ms != max(times):
            assert abs(header.max_timestamp_ms - NOW_MS) <= 10_000
            assert header.max_timestamp_ms == NOW_MS + max_shift >= times[0]
        node.close()


def test_a_right_header_stays_as_it_came(node: NodeHarness) -> None:
    node.create_topic("t")
    for times in TIMES.values():
        node.produce_records("t", with_max_timestamp(times, max(times), Codec.ZSTD))
    assert [header.max_timestamp_ms for header, _ in stored(node, "t")] == list(map(max, TIMES.values()))


def test_with_log_append_time_the_broker_writes_its_own(node: NodeHarness) -> None:
    node.create_topic("t", message_timestamp_type="LogAppendTime")
    node.produce_records("t", with_max_timestamp([OLD_MS, NOW_MS], OLD_MS))
    assert stored(node, "t")[0][0].max_timestamp_ms == node.clock.now_ms()
    assert offset_at(node, "t", OLD_MS) == (node.clock.now_ms(), 0)


def test_one_request_opens_so_many_records_and_no_more(node: NodeHarness) -> None:
    node.create_topic("t", partitions=3)
    times = [OLD_MS] * (HeaderBudget().records // 2) + [NOW_MS]
    data = [{"index": index, "records": with_max_timestamp(times, OLD_MS, Codec.ZSTD)} for index in range(3)]
    node.ask("produce", 9, acks=1, timeout=1000, topic_data=[{"name": "t", "partition_data": data}])
    found = [offset_at_end.max_timestamp() for offset_at_end in (node.log_directory.logs["t", i] for i in range(3))]
    assert [timestamp_ms for timestamp_ms, _ in found] == [NOW_MS, OLD_MS, OLD_MS]
    node.produce_records("t", with_max_timestamp([OLD_MS, NOW_MS], OLD_MS))
    assert stored(node, "t")[1][0].max_timestamp_ms == NOW_MS


@pytest.mark.parametrize(("count", "size_bytes"), [(2000, 1), (1, 900_000)])
def test_a_lookup_opens_the_batches_right_before_the_answer_of_the_headers(
    node: NodeHarness, count: int, size_bytes: int
) -> None:
    node.create_topic("t")
    before = bytes(encode_batch([Record(bytes(size_bytes), None, NOW_MS - 5000)] * count, codec=Codec.ZSTD))
    for _ in range(12):
        assert node.produce_records("t", before).error_code == 0
    hidden = [NOW_MS - 4000, NOW_MS - 1000, NOW_MS - 3000]
    node.produce_records("t", with_max_timestamp(hidden, NOW_MS - 3000))
    node.produce_records("t", with_max_timestamp([NOW_MS], NOW_MS))
    assert offset_at(node, "t", NOW_MS - 2000) == (NOW_MS - 1000, 12 * count + 1)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_cannot_be_opened_is_stored_as_before(node: NodeHarness, codec: Codec) -> None:
    node.create_topic("t")
    batch = bytearray(with_max_timestamp([OLD_MS, NOW_MS], OLD_MS, codec))
    batch[61:] = bytes(len(batch) - 61)
    update_crc(batch, 0, len(batch))
    assert node.produce_records("t", bytes(batch)).error_code == 0
    assert offset_at(node, "t", OLD_MS) == (OLD_MS, 0)
