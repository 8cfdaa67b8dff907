"""What `spark.read` reads, against a real broker and compared with librdkafka; Spark itself takes no part."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual

from highwater.pipeline.errors import DataLossError, SettingsError
from highwater.pipeline.kafka.columns import COLUMNS
from highwater.pipeline.source.batch import BatchReader, FilteringBatchReader
from highwater.pipeline.source.options import read_options
from tests.pipeline.source.topics import EPOCH, Topics, by_offset, copied
from tests.waiting import wait_until

Row = dict[str, Any]


def reader_of(topics: Topics, subscribe: str = "", **given: str) -> FilteringBatchReader:
    options = {"kafka.bootstrap.servers": topics.address, "kafka.default.api.timeout.ms": "2000", **given}
    if subscribe:
        options["subscribe"] = subscribe
    return FilteringBatchReader(read_options(options, is_stream=False))


def rows_of(reader: BatchReader) -> list[Row]:
    """As Spark does: partitions here, and their rows from a copy of the reader."""
    tasks, copy = copied(reader.partitions()), copied(reader)
    return by_offset(row for task in tasks for batch in copy.read(task) for row in batch.to_pylist())


def offsets_of(reader: BatchReader) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows_of(reader)]


def test_records_are_read_as_they_were_written(topics: Topics) -> None:
    topics.create("plain", 2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for partition in range(2):
            topics.produce("plain", 120, partition=partition, codec=codec)
    expected = topics.rows("plain", 2)
    assert len(expected) == 1200
    assert rows_of(reader_of(topics, "plain", includeHeaders="true")) == expected
    assert rows_of(reader_of(topics, "plain", includeHeaders="true", minPartitions="7", fetchBytes="1000")) == expected
    assert {row["codec"] for row in rows_of(reader_of(topics, "plain", columns="topic,partition,offset,codec"))} == {
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    }
    for column in COLUMNS:
        assert len(list(reader_of(topics, "plain", columns=column).partitions())) == 2


def test_a_compacted_topic_has_gaps_and_no_loss(topics: Topics) -> None:
    topics.create("compacted", cleanup_policy="compact", segment_bytes="4096")
    topics.produce("compacted", 600, keys=5)
    wait_until(lambda: len(topics.rows("compacted")) < 400, "the topic is compacted")
    # The cleaner can run between two reads: those that are there twice bracket what the source reads.
    before = topics.rows("compacted")
    found = rows_of(reader_of(topics, "compacted", includeHeaders="true"))
    after = topics.rows("compacted")
    assert [row for row in found if row in after] == after
    assert all(row in before for row in found)
    assert found[-1]["offset"] == 599
    # A task can have a range of which compaction has left nothing.
    assert offsets_of(reader_of(topics, "compacted", maxRecordsPerPartition="20"))[-1] == (0, 599)


def test_only_committed_records_are_read_if_asked(topics: Topics) -> None:
    topics.create("transactions")
    topics.transaction("transactions", 10, commit=True)
    topics.transaction("transactions", 10, commit=False)
    topics.produce("transactions", 3)
    topics.transaction("transactions", 4, commit=False)
    for read_committed, count in ((True, 13), (False, 27)):
        level = "read_committed" if read_committed else "read_uncommitted"
        found = rows_of(reader_of(topics, "transactions", **{"kafka.isolation.level": level, "includeHeaders": "true"}))
        assert len(found) == count
        assert found == topics.rows("transactions", read_committed=read_committed)


def test_which_topics_are_read(topics: Topics) -> None:
    for name in ("which.a", "which.b"):
        topics.create(name, 2)
        for partition in range(2):
            topics.produce(name, 2, partition=partition)
    everything = [(topic, number) for topic in ("which.a", "which.b") for number in range(2) for _ in range(2)]
    for given, expected in (
        ({"subscribe": "which.a, which.b"}, everything),
        ({"subscribePattern": r"which\..*"}, everything),
        ({"subscribePattern": "which"}, []),
        ({"assign": '{"which.b":[1]}'}, [("which.b", 1)] * 2),
    ):
        assert [(row["topic"], row["partition"]) for row in rows_of(reader_of(topics, **given))] == expected
    with pytest.raises(SettingsError, match="topic missing does not exist"):
        reader_of(topics, "which.a,missing").partitions()
    with pytest.raises(SettingsError, match=r"assign: which\.a-7 does not exist"):
        reader_of(topics, assign='{"which.a":[7]}').partitions()


@pytest.mark.parametrize("before_ms", [0, 1, 2, 3, 4, 5, 6, 10**12])
def test_a_filter_by_a_time_before_1970_takes_nothing_away(topics: Topics, before_ms: int) -> None:
    if not topics.exists("epoch"):
        topics.create("epoch")
        topics.produce("epoch", 5, timestamps_ms=range(1000, 1005))
    reader = reader_of(topics, "epoch")
    list(reader.pushFilters([GreaterThanOrEqual(("timestamp",), EPOCH - timedelta(milliseconds=before_ms))]))
    assert offsets_of(reader) == [(0, offset) for offset in range(5)]


def test_where_a_read_begins_and_ends(topics: Topics) -> None:
    topics.create("bounds", 2)
    for partition in range(2):
        topics.produce("bounds", 10, partition=partition, timestamps_ms=range(1000, 2000, 100))

    def offsets(**given: str) -> list[tuple[int, int]]:
        return offsets_of(reader_of(topics, "bounds", **given))

    def both(first: range, second: range | None = None) -> list[tuple[int, int]]:
        return [(0, offset) for offset in first] + [(1, offset) for offset in second or first]

    assert offsets(startingOffsets='{"bounds":{"0":8,"1":-2}}') == both(range(8, 10), range(10))
    assert offsets(endingOffsets='{"bounds":{"0":3,"1":-1}}') == both(range(3), range(10))
    assert offsets(startingTimestamp="1501") == both(range(6, 10))
    assert offsets(startingTimestamp="1500", endingTimestamp="1700") == both(range(5, 7))
    assert offsets(endingTimestamp="9999") == both(range(10))
    assert offsets(startingOffsetsByTimestamp='{"bounds":{"0":1900,"1":1800}}') == both(range(9, 10), range(8, 10))
    assert offsets(startingTimestamp="9999", startingOffsetsByTimestampStrategy="latest") == []
    assert offsets(startingOffsetsByTimestamp='{"bounds":{"0":-1,"1":-3}}') == both(range(10))
    assert offsets(startingTimestamp="0", endingTimestamp="0") == []
    for given, words in (
        ({"startingTimestamp": "9999"}, "no record with the time 9999 ms"),
        ({"startingOffsets": '{"bounds":{"0":8}}'}, "bounds-1 is missing"),
        ({"startingOffsets": '{"bounds":{"0":8,"1":1,"2":1}}'}, "bounds-2, which is not read"),
        ({"startingTimestamp": "1800", "endingTimestamp": "1200"}, "before it begins"),
    ):
        with pytest.raises(SettingsError, match=words):
            offsets(**given)
    with pytest.raises(DataLossError, match="has offsets from 0 to 10, not 11"):
        offsets(endingOffsets='{"bounds":{"0":11,"1":-1}}')


def test_records_that_retention_removed_are_a_loss(topics: Topics) -> None:
    topics.create("retention")
    topics.produce("retention", 20)
    given = {"startingOffsets": '{"retention":{"0":5}}'}
    planned = reader_of(topics, "retention", **given)
    tasks = planned.partitions()
    tolerant = reader_of(topics, "retention", failOnDataLoss="false", **given)
    tolerant_tasks = tolerant.partitions()
    topics.delete_records("retention", 12)
    with pytest.raises(DataLossError, match="has offsets from 12 to 20, not 5; failOnDataLoss=false goes on"):
        planned.partitions()
    with pytest.raises(DataLossError, match="from 12 up to 20, and 5 was asked for"):
        list(planned.read(tasks[0]))
    assert offsets_of(tolerant) == [(0, offset) for offset in range(12, 20)]
    assert sum(batch.num_rows for batch in tolerant.read(tolerant_tasks[0])) == 8
    assert offsets_of(reader_of(topics, "retention")) == [(0, offset) for offset in range(12, 20)]


def test_offsets_of_an_earlier_topic_are_a_loss(topics: Topics) -> None:
    topics.create("again")
    topics.produce("again", 5)
    reader = reader_of(topics, "again")
    topic_id = str(reader.partitions()[0].value.topic_id)
    tasks = reader.partitions()
    text = json.dumps({"again": {"0": 2}, "#ids": {"again": topic_id}})
    assert offsets_of(reader_of(topics, "again", startingOffsets=text)) == [(0, offset) for offset in range(2, 5)]
    topics.delete("again")
    topics.create("again")
    topics.produce("again", 9)
    with pytest.raises(DataLossError, match="again was deleted and created again"):
        reader_of(topics, "again", startingOffsets=text).partitions()
    with pytest.raises(DataLossError, match="again-0 at offset 0"):
        list(reader.read(tasks[0]))
    tolerant = reader_of(topics, "again", failOnDataLoss="false", startingOffsets=text)
    assert list(tolerant.read(tasks[0])) == []
    assert offsets_of(tolerant) == [(0, offset) for offset in range(9)]


def test_filters_narrow_what_is_fetched(topics: Topics) -> None:
    topics.create("filters", 3)
    for partition in range(3):
        topics.produce("filters", 10, partition=partition, timestamps_ms=range(1000, 2000, 100))

    def ranges(*filters: Filter) -> list[tuple[int, int, int]]:
        reader = reader_of(topics, "filters")
        reader.pushFilters(list(filters))
        tasks = [each.value for each in reader.partitions()]
        return [(each.partition, each.start_offset, each.end_offset) for each in tasks]

    assert ranges(EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 4)) == [(1, 4, 10)]
    assert ranges(EqualTo(("topic",), "other")) == []
    at = EPOCH + timedelta(milliseconds=1800)
    assert ranges(GreaterThanOrEqual(("timestamp",), at), EqualTo(("partition",), 2)) == [(2, 8, 10)]
    assert ranges(GreaterThanOrEqual(("timestamp",), at + timedelta(hours=1))) == []
    topic, value = EqualTo(("topic",), "filters"), EqualTo(("value",), b"x")
    assert list(reader_of(topics, "filters").pushFilters([topic, value])) == [value]
