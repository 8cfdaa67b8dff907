"""What batches tell a capture, and that captures of parts are merged to that of the whole."""

from __future__ import annotations

import random

import numpy as np
import pytest

from highwater.kafka.records.batch import Codec, TimestampType
from highwater.kafka.records.record import TransactionMarker, encode_end_marker
from highwater.pipeline.errors import RecordsError
from highwater.studies.capture.counts import rounded
from highwater.studies.capture.observing import Window
from highwater.studies.capture.summing import parts_of
from tests.studies.capture.logs import START_MS, batch, new_statistics, observed, record


def some_batches(seed: int, count: int = 40) -> list[bytes]:
    chosen = random.Random(seed)
    batches, offset = [], 0
    for number in range(count):
        records = [
            record(
                number * 25 + at,
                None if chosen.random() < 0.1 else b"key-%d" % chosen.randrange(20),
                None if chosen.random() < 0.1 else b"v" * chosen.randrange(3000),
                *[("h", b"x" * chosen.randrange(40)) for _ in range(chosen.randrange(3))],
            )
            for at in range(chosen.randrange(1, 20))
        ]
        batches.append(batch(offset, records, codec=chosen.choice(list(Codec)), producer_id=number % 3))
        offset += len(records)
    return batches


def test_sizes_keys_headers_and_times_of_records() -> None:
    records = [
        record(0, b"hot", b"v" * 300, ("name", b"12345"), ("other", b"")),
        record(7, b"hot", None),
        record(15, None, b""),
        record(31, b"cold-one", b"w" * 5000),
    ]
    found = observed(batch(10, records, producer_id=77), expected=10)
    assert (found.records, found.null_keys, found.null_values) == (4, 1, 1)
    assert dict(found.key_bytes) == {3: 2, 8: 1}
    assert dict(found.value_bytes) == {300: 1, 0: 1, int(rounded(np.array([5000]))[0]): 1}
    assert dict(found.headers) == {(2, 9, 5): 1, (0, 0, 0): 3}
    assert [(row.count, row.key_bytes, row.partition, row.keys) for row in found.keys.rows()] == [
        (2, 3, 0, 1),
        (1, 8, 0, 1),
    ]
    start_ms, arrivals = found.arrivals.series()
    assert (start_ms, np.flatnonzero(arrivals).tolist(), arrivals.sum()) == (START_MS, [0, 7, 15, 31], 4)
    assert dict(found.producers) == {77: 4}
    assert set(found.compressibility) == {"gzip", "snappy", "lz4", "zstd"}
    assert all(0 < after < before for before, after in found.compressibility.values())


def test_sizes_are_rounded_by_a_thousandth_at_most() -> None:
    sizes = np.array([0, 1, 1023, 1024, 1025, 70_001, 10_000_000])
    assert rounded(sizes[:3]).tolist() == [0, 1, 1023]
    assert (np.abs(rounded(sizes) - sizes) <= sizes / 1000).all()


def test_headers_of_batches_alone() -> None:
    found = observed(batch(0, [record(at) for at in (0, 1, 2, 100)], codec=Codec.GZIP), level=0)
    assert (found.records, dict(found.batch_records), dict(found.batch_span_ms)) == (4, {4: 1}, {100: 1})
    assert np.flatnonzero(found.arrivals.series()[1]).tolist() == [0, 33, 66, 100]
    assert (not found.value_bytes, not found.keys.rows(), not found.compressibility) == (True, True, True)


def test_times_that_the_broker_gave() -> None:
    for level in (0, 1):
        data = batch(0, [record(0), record(500)], timestamp_type=TimestampType.LOG_APPEND_TIME)
        assert observed(data, level=level).arrivals.series()[1].tolist() == [2]


def test_markers_of_transactions_are_no_records() -> None:
    marker = TransactionMarker(producer_id=5, producer_epoch=0, is_commit=True, coordinator_epoch=0)
    control = bytearray(encode_end_marker(marker, START_MS))
    control[0:8] = (2).to_bytes(8, "big")
    found = observed(batch(0, [record(0), record(1)], producer_id=5, is_transactional=True), bytes(control))
    assert (found.records, found.control_batches, found.transactional_records, found.vanished_offsets) == (2, 1, 2, 0)


def test_offsets_that_compaction_emptied_are_counted() -> None:
    found = observed(batch(0, [record(0)]), batch(5, [record(1), record(2)]), batch(20, [record(3)]))
    assert found.vanished_offsets == 4 + 13


def test_a_capture_begins_and_ends_with_whole_batches_of_its_range() -> None:
    data = [batch(0, [record(0)] * 10), batch(10, [record(50)] * 10), batch(20, [record(90)] * 10)]
    inside = observed(*data, expected=15, window=Window(15, 20))
    assert (inside.records, inside.vanished_offsets) == (10, 0)
    cut = observed(*data, expected=5, window=Window(5, 15))
    assert (cut.records, cut.vanished_offsets) == (20, 0)
    timed = observed(*data, window=Window(start_ms=START_MS + 50, end_ms=START_MS + 90))
    assert (timed.records, timed.vanished_offsets) == (10, 0)


def test_damage_names_its_place() -> None:
    data = bytearray(batch(3, [record(0)]))
    data[-5] ^= 1
    with pytest.raises(RecordsError, match=r"orders-0 at offset 3: the CRC"):
        observed(bytes(data), expected=3)


@pytest.mark.parametrize("level", [0, 1])
def test_captures_of_parts_are_merged_to_that_of_the_whole(level: int) -> None:
    by_partition = {partition: some_batches(partition) for partition in range(3)}
    whole, merged = new_statistics(1 if level else 0), new_statistics(1 if level else 0)
    for partition, batches in by_partition.items():
        one = observed(*batches, level=1 if level else 0, partition=partition)
        whole_of = observed(*batches[:9], level=1 if level else 0, partition=partition)
        offset = sum(len_of(each) for each in batches[:9])
        whole_of.merge(observed(*batches[9:], level=1 if level else 0, partition=partition, expected=offset))
        whole.merge(one)
        merged.merge(whole_of)
    found, expected = parts_of(merged, "topic"), parts_of(whole, "topic")
    # Which batches are sampled for their compressibility depends on what is read at once.
    records = [
        parts[1].records and parts[1].records.model_copy(update={"compressibility": {}}) for parts in (found, expected)
    ]
    assert records[0] == records[1]
    assert found[1].model_copy(update={"records": None}) == expected[1].model_copy(update={"records": None})
    assert found[2].tolist() == expected[2].tolist()


def len_of(data: bytes) -> int:
    return int.from_bytes(data[57:61], "big")
