"""What a stream reads, against a real broker. The tests call the reader as Spark does; Spark itself takes no part."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from highwater.pipeline.errors import DataLossError, PipelineError, SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import Progress
from highwater.pipeline.progress.marker import to_marker
from highwater.pipeline.source.batch import BatchReader
from highwater.pipeline.source.data_source import HighwaterDataSource
from highwater.pipeline.source.options import read_options
from highwater.pipeline.source.positions import Positions
from highwater.pipeline.source.reading import keep_what_is_imported
from highwater.pipeline.source.stream import JsonOffsets, StreamReader
from tests.pipeline.source.topics import Topics, copied
from tests.waiting import wait_until


class Query:
    """A stream with its checkpoint: what Spark asks of a reader, in Spark's order, with offsets as text."""

    def __init__(self, topics: Topics, subscribe: str, **given: str) -> None:
        options = {"kafka.bootstrap.servers": topics.address, "kafka.default.api.timeout.ms": "2000", **given}
        self.options = read_options({**options, "subscribe": subscribe}, is_stream=True)
        self.offset_log: list[str] = []
        self.finished = 0
        self.reader = StreamReader(self.options)

    def restart(self, **changes: str) -> None:
        """The process of the reader is another; the checkpoint stays."""
        self.reader.stop()
        self.reader = StreamReader(self.options)

    def plan(self) -> bool:
        """Write the end of the next batch to the checkpoint; False if there is nothing new."""
        start = json.loads(self.offset_log[-1]) if self.offset_log else self.reader.initialOffset()
        end = json.dumps(self.reader.latestOffset(start, copied(self.reader.getDefaultReadLimit())))
        if end == json.dumps(start) and self.offset_log:
            return False
        self.offset_log.append(end)
        return True

    def run(self) -> list[tuple[int, int]]:
        """Run the batch that was planned last, or again; returns partitions and offsets of its rows."""
        start = json.loads(self.offset_log[-2]) if len(self.offset_log) > 1 else self.reader.initialOffset()
        tasks = copied(list(self.reader.partitions(start, json.loads(self.offset_log[-1]))))
        reader = copied(StreamReader(self.options))
        rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
        self.finished = len(self.offset_log)
        return [(row["partition"], row["offset"]) for row in rows]

    def batch(self) -> list[tuple[int, int]]:
        return self.run() if self.plan() else []


@pytest.fixture
def queries() -> Iterator[list[Query]]:
    opened: list[Query] = []
    yield opened
    for query in opened:
        query.reader.stop()


@pytest.fixture
def query(topics: Topics, queries: list[Query]) -> Any:
    def start(subscribe: str, **given: str) -> Query:
        queries.append(Query(topics, subscribe, **given))
        return queries[-1]

    return start


START_MS = time.time_ns() // 1_000_000 - 3_600_000
"""Of records: an hour ago, so that no retention removes them."""


def offsets(first: range, second: range = range(0)) -> list[tuple[int, int]]:
    return [(0, offset) for offset in first] + [(1, offset) for offset in second]


def test_batches_follow_each_other_without_a_gap(topics: Topics, query: Any) -> None:
    topics.create("follow", 2)
    topics.produce("follow", 10)
    stream = query("follow", startingOffsets="earliest")
    assert stream.batch() == offsets(range(10))
    assert not stream.plan()
    topics.produce("follow", 5, partition=1)
    assert stream.batch() == offsets(range(0), range(5))
    assert json.loads(stream.offset_log[-1])["follow"] == {"0": 10, "1": 5}
    assert stream.reader.reportLatestOffset() == json.loads(stream.offset_log[-1])


@pytest.mark.parametrize("work", ["schema", "plan", "read"])
def test_a_worker_does_not_collect_what_it_has_imported(topics: Topics, query: Any, work: str) -> None:
    topics.create(f"frozen-{work}")
    topics.produce(f"frozen-{work}", 10)
    options = {"kafka.bootstrap.servers": topics.address, "subscribe": f"frozen-{work}"}
    gc.unfreeze()
    keep_what_is_imported.cache_clear()
    match work:
        case "schema":
            assert HighwaterDataSource(options).schema().names
        case "plan":
            assert BatchReader(read_options(options, is_stream=False)).partitions()
        case _:
            assert query(f"frozen-{work}", startingOffsets="earliest").batch()
    assert gc.get_freeze_count() > 10_000
    gc.unfreeze()


def test_a_batch_that_runs_again_after_a_restart_has_the_same_records(topics: Topics, query: Any) -> None:
    topics.create("replay")
    topics.produce("replay", 10)
    stream = query("replay", startingOffsets="earliest")
    first = stream.batch()
    topics.produce("replay", 5)
    stream.restart()
    assert stream.run() == first
    assert stream.batch() == offsets(range(10, 15))


@pytest.mark.parametrize("place", ["group", "file"])
def test_a_stream_from_latest_begins_at_the_same_place_after_a_crash(
    topics: Topics, query: Any, tmp_path: Path, place: str
) -> None:
    topic = f"latest-{place}"
    topics.create(topic)
    topics.produce(topic, 3)
    kept = {"commitOffsets": topic} if place == "group" else {"initialOffsetsLocation": str(tmp_path / "a" / "first")}
    stream = query(topic, **kept)
    stream.plan()
    topics.produce(topic, 4)  # between the first plan and the second question for the start
    assert stream.run() == []
    stream.restart()
    assert stream.run() == []
    assert stream.batch() == offsets(range(3, 7))
    if place == "group":
        assert topics.committed(topic, topic) == 3
        assert not stream.plan()  # Spark's question for the next batch says that this one is finished
        wait_until(lambda: topics.committed(topic, topic) == 7, "the group has got on")
        # The group has got on: a new checkpoint begins at the new end.
        topics.produce(topic, 1)
        assert query(topic, **kept).reader.initialOffset()[topic] == {"0": 8}
    else:
        assert json.loads((tmp_path / "a" / "first").read_text())[topic] == {"0": 3}


def test_a_file_that_holds_no_offsets_is_refused(topics: Topics, query: Any, tmp_path: Path) -> None:
    (tmp_path / "first").write_text("hello")
    with pytest.raises(SettingsError, match="first does not hold first offsets"):
        query("any", initialOffsetsLocation=str(tmp_path / "first")).reader.initialOffset()


def test_limits_of_a_batch(topics: Topics, query: Any) -> None:
    topics.create("limits", 2)
    topics.produce("limits", 30, timestamps_ms=range(START_MS, START_MS + 30))
    topics.produce("limits", 10, partition=1, timestamps_ms=range(START_MS, START_MS + 30, 3))
    stream = query("limits", startingOffsets="earliest", maxOffsetsPerTrigger="8", minOffsetsPerTrigger="4")
    assert stream.reader.getDefaultReadLimit() == ReadMaxRows(8)
    assert stream.batch() == offsets(range(5), range(2))
    assert stream.batch() == offsets(range(5, 10), range(2, 4))
    start = json.loads(stream.offset_log[-1])
    everything = stream.reader.latestOffset(start, ReadAllAvailable())
    assert everything["limits"] == {"0": 30, "1": 10}
    stream.offset_log.append(json.dumps(everything))
    topics.produce("limits", 3)
    assert not stream.plan()  # fewer than minOffsetsPerTrigger, and maxTriggerDelay is not over
    topics.produce("limits", 1)
    assert stream.batch() == offsets(range(30, 34))
    assert query("limits", startingOffsets="earliest", minOffsetsPerTrigger="4").reader.getDefaultReadLimit() == (
        ReadMinRows(4)
    )


def test_available_now_ends_with_what_is_there_at_its_start(topics: Topics, query: Any) -> None:
    topics.create("now")
    topics.produce("now", 5, timestamps_ms=range(START_MS, START_MS + 5))
    stream = query("now", startingOffsets="earliest", maxOffsetsPerTrigger="3", minOffsetsPerTrigger="3")
    stream.reader.prepareForTriggerAvailableNow()
    topics.produce("now", 100)
    topics.grow("now", 2)
    topics.produce("now", 1, partition=1)
    assert stream.batch() == offsets(range(3))
    assert stream.batch() == offsets(range(3, 5))  # also if it is less than minOffsetsPerTrigger
    assert not stream.plan()
    stream.restart()
    stream.reader.prepareForTriggerAvailableNow()
    while stream.batch():
        pass
    assert json.loads(stream.offset_log[-1])["now"] == {"0": 105, "1": 1}


def test_new_partitions_are_read_from_their_first_record_on(topics: Topics, query: Any) -> None:
    topics.create("grows")
    topics.produce("grows", 3)
    stream = query("grows", commitOffsets="grows")
    assert stream.batch() == []
    topics.grow("grows", 2)
    topics.produce("grows", 4, partition=1)
    topics.produce("grows", 1)
    assert sorted(stream.batch()) == offsets(range(3, 4), range(4))


def test_an_open_transaction_holds_the_end_back(topics: Topics, query: Any) -> None:
    topics.create("open")
    topics.transaction("open", 4, commit=True)
    topics.transaction("open", 4, commit=False)
    stream = query("open", startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"})
    assert stream.batch() == offsets(range(4))
    assert json.loads(stream.offset_log[-1])["open"] == {"0": 10}
    assert not stream.plan()


def test_a_topic_that_was_created_again_is_a_loss(topics: Topics, query: Any) -> None:
    topics.create("reborn")
    topics.produce("reborn", 10)
    strict = query("reborn", startingOffsets="earliest")
    tolerant = query("reborn", startingOffsets="earliest", failOnDataLoss="false")
    assert strict.batch() == tolerant.batch() == offsets(range(10))
    topics.delete("reborn")
    with pytest.raises(DataLossError, match="reborn-0 is gone"):
        strict.plan()
    topics.create("reborn")
    topics.produce("reborn", 12)
    with pytest.raises(DataLossError, match="reborn was deleted and created again"):
        strict.plan()
    strict.restart()
    with pytest.raises(DataLossError, match="reborn was deleted and created again"):
        strict.plan()
    # A topic of the same name with more records than were read: all of them are new.
    assert tolerant.batch() == offsets(range(12))
    assert not tolerant.plan()


def test_a_planned_batch_of_a_deleted_topic_is_a_loss(topics: Topics, query: Any) -> None:
    topics.create("planned")
    topics.produce("planned", 10)
    strict = query("planned", startingOffsets="earliest")
    tolerant = query("planned", startingOffsets="earliest", failOnDataLoss="false")
    for stream in (strict, tolerant):
        stream.plan()
        stream.restart()
        stream.reader.initialOffset()
    topics.delete("planned")
    topics.create("planned")
    topics.produce("planned", 20)
    with pytest.raises(DataLossError, match="planned was deleted and created again"):
        strict.run()
    assert tolerant.run() == []
    assert tolerant.batch() == offsets(range(20))


def test_what_there_is_is_asked_once_for_a_batch_and_again_after_a_restart(
    topics: Topics, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create("asked")
    topics.produce("asked", 10)
    asked: list[bool] = []
    partitions = Positions.partitions

    def counted(self: Positions, *, must_exist: bool) -> Offsets:
        asked.append(must_exist)
        return partitions(self, must_exist=must_exist)

    monkeypatch.setattr(Positions, "partitions", counted)
    stream = query("asked", startingOffsets="earliest")
    stream.plan()
    planned = len(asked)
    assert stream.run() == offsets(range(10))
    assert len(asked) == planned
    stream.restart()
    asked.clear()
    assert stream.run() == offsets(range(10))
    assert asked == [True, False]  # where the stream begins, and what is still there


def test_records_that_retention_removed_between_batches_are_a_loss(topics: Topics, query: Any) -> None:
    topics.create("short")
    topics.produce("short", 10)
    strict = query("short", startingOffsets="earliest")
    tolerant = query("short", startingOffsets="earliest", failOnDataLoss="false")
    assert strict.batch() == tolerant.batch() == offsets(range(10))
    topics.produce("short", 10)
    topics.delete_records("short", 10)
    assert strict.batch() == tolerant.batch() == offsets(range(10, 20))  # all that was removed had been read
    topics.produce("short", 10)
    topics.delete_records("short", 25)
    with pytest.raises(DataLossError, match="from 25 up to 30, and 20 was asked for"):
        strict.batch()
    assert tolerant.batch() == offsets(range(25, 30))


def test_a_topic_that_is_not_there_yet_is_named(query: Any) -> None:
    with pytest.raises(SettingsError, match="topic nowhere does not exist"):
        query("nowhere", startingOffsets="earliest").plan()


def test_offsets_are_plain_json(topics: Topics, query: Any) -> None:
    topics.create("json")
    found: JsonOffsets = query("json", startingOffsets="earliest").reader.initialOffset()
    assert found["json"] == {"0": 0}
    assert list(found) == ["json", "#ids"]


def test_a_batch_is_limited_by_bytes(topics: Topics, query: Any) -> None:
    topics.create("bytes", 2)
    for partition, count in ((0, 3000), (1, 1000)):
        step_ms = 12_000 // count
        topics.produce("bytes", count, partition=partition, timestamps_ms=range(START_MS, START_MS + 12_000, step_ms))
    whole = query("bytes", startingOffsets="earliest", columns="partition,offset,batchBytes")
    whole.plan()
    reader = copied(StreamReader(whole.options))
    start, end = whole.reader.initialOffset(), json.loads(whole.offset_log[-1])
    sizes = {
        (row["partition"], row["offset"]): row["batchBytes"] / 50
        for task in whole.reader.partitions(start, end)
        for batch in reader.read(task)
        for row in batch.to_pylist()
    }
    limit = int(sum(sizes.values()) / 5)
    stream = query("bytes", startingOffsets="earliest", maxBytesPerTrigger=str(limit))
    batches = []
    while batch := stream.batch():
        batches.append(batch)
    assert sorted(each for batch in batches for each in batch) == offsets(range(3000), range(1000))
    assert 4 <= len(batches) <= 7
    for batch in batches:
        assert sum(sizes[each] for each in batch) < 1.2 * limit
    # Both limits hold, and a limit below the size of one record still gets on.
    both = query("bytes", startingOffsets="earliest", maxBytesPerTrigger=str(limit), maxOffsetsPerTrigger="8")
    assert both.batch() == offsets(range(6), range(2))
    assert query("bytes", startingOffsets="earliest", maxBytesPerTrigger="1").batch() == offsets(range(1), range(1))


def test_a_partition_that_is_ahead_in_time_waits_for_the_others(topics: Topics, query: Any) -> None:
    """A share of the offsets of each partition would take the newest of one beside the oldest of another."""
    topics.create("uneven", 3)
    for partition, step_ms in enumerate((10, 20, 100)):
        times_ms = range(START_MS, START_MS + 10_000, step_ms)
        topics.produce("uneven", len(times_ms), partition=partition, timestamps_ms=times_ms)
    stream = query("uneven", startingOffsets="earliest", maxOffsetsPerTrigger="200")
    stream.reader.prepareForTriggerAvailableNow()
    latest_ms, count = 0, 0
    while batch := stream.batch():
        found_ms = [START_MS + offset * (10, 20, 100)[partition] for partition, offset in batch]
        assert min(found_ms) > latest_ms
        assert len(batch) <= 200
        latest_ms, count = max(found_ms), count + len(batch)
    assert count == 1600
    assert len(stream.offset_log) <= 10


def test_tasks_are_limited_by_bytes(topics: Topics, query: Any) -> None:
    topics.create("parts")
    topics.produce("parts", 2000)
    stream = query("parts", startingOffsets="earliest", maxBytesPerPartition="20000")
    stream.plan()
    start, end = stream.reader.initialOffset(), json.loads(stream.offset_log[-1])
    assert 4 <= len(stream.reader.partitions(start, end)) <= 8
    assert stream.run() == offsets(range(2000))


def test_a_stream_without_its_checkpoint_goes_on_where_its_sink_had_got_to(topics: Topics, query: Any) -> None:
    topics.create("resume")
    topics.create("target")
    topics.produce("resume", 10)
    first = query("resume", startingOffsets="earliest")
    first.plan()
    other = Offsets({("of another source", 0): 4})
    ends = (Offsets.from_text(first.offset_log[-1]), other)
    with Client(first.options.settings) as client:
        marker = to_marker(Progress("some-query", 7, ends, "target"), "target", 1)
        assert client.commit_offsets("sink", marker) == {}
    topics.produce("resume", 3)
    topics.grow("resume", 2)
    topics.produce("resume", 2, partition=1)
    stream = query("resume", resumeFrom="group:sink")
    assert sorted(stream.batch()) == offsets(range(10, 13), range(2))
    # The checkpoint counts from now on.
    topics.produce("resume", 1)
    stream.restart()
    assert stream.batch() == offsets(range(13, 14))
    for text, words in (
        ("group:nobody", "resumeFrom=group:nobody: nothing is stored there"),
        ("sink", "resumeFrom: write group:NAME"),
    ):
        with pytest.raises(PipelineError, match=words):
            query("resume", resumeFrom=text).plan()
    with pytest.raises(SettingsError, match="has offsets of of another source, resume alone, and this stream reads"):
        query("target", resumeFrom="group:sink").plan()


def test_a_checkpoint_of_topics_that_are_not_read_any_more(topics: Topics, query: Any) -> None:
    topics.create("before")
    topics.create("after")
    topics.produce("before", 2)
    topics.produce("after", 3)
    checkpoint = query("before", startingOffsets="earliest")
    checkpoint.batch()
    for given in ({}, {"failOnDataLoss": "false"}):
        changed = query("after", startingOffsets="earliest", **given)
        changed.offset_log = list(checkpoint.offset_log)
        if given:
            assert changed.batch() == offsets(range(3))
        else:
            with pytest.raises(DataLossError, match="the checkpoint has offsets of before, which the query does not"):
                changed.plan()
