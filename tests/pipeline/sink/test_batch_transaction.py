"""The whole-batch transaction in Spark: replays, aborts, fences, wrong use; what readers of committed records see."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's documentation uses
from pyspark.sql.streaming.query import StreamingQuery

from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from highwater.pipeline.resume import resume_offsets
from highwater.pipeline.sink import batch_transaction
from highwater.pipeline.sink.batch_transaction import TransactionalSink
from tests.pipeline.kafka.plain import murmur2
from tests.pipeline.source.topics import Topics

pytestmark = [pytest.mark.slow, pytest.mark.spark]

Write = Callable[[DataFrame, int], None]


class Copy:
    """A query that copies the topic `in-NAME` to `out-NAME`, with a checkpoint."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path, name: str, partitions: int = 3) -> None:
        self._spark = spark
        self.topics = topics
        self.checkpoint = folder / "checkpoint"
        self.name = name
        self.source, self.target = f"in-{name}", f"out-{name}"
        self.partitions = partitions
        topics.create(self.source, 2)
        topics.create(self.target, partitions)

    def sink(self, **options: str) -> TransactionalSink:
        given = {"kafka.bootstrap.servers": self.topics.address, "kafka.default.api.timeout.ms": "30000"}
        return TransactionalSink(
            {**given, **{key.replace("__", "."): each for key, each in options.items()}}, self.name, self.target
        )

    def run(self, write: Write, columns: tuple[str, ...] = ("key", "value"), **options: str) -> None:
        given = {
            "kafka.bootstrap.servers": self.topics.address,
            "subscribe": self.source,
            "startingOffsets": "earliest",
            **options,
        }
        frame = self._spark.readStream.format("highwater").options(**given).load().select(*columns)
        query: StreamingQuery = (
            frame.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def fill(self, count: int) -> None:
        first_ms = round(time.time() * 1000)
        for partition in (0, 1):
            times = range(first_ms, first_ms + count)  # A batch with a limit ends at one time in all partitions.
            self.topics.produce(self.source, count, partition=partition, timestamps_ms=times)

    def values(self, topic: str, partitions: int) -> Counter[tuple[bytes | None, bytes | None]]:
        rows = self.topics.rows(topic, partitions, read_committed=True)
        return Counter((row["key"], row["value"]) for row in rows)

    def check(self) -> None:
        """Every record once, and those with a key where Kafka's partitioner puts them."""
        assert self.values(self.target, self.partitions) == self.values(self.source, 2)
        for row in self.topics.rows(self.target, self.partitions, read_committed=True):
            if row["key"] is not None:
                assert row["partition"] == (murmur2(row["key"]) & 0x7FFFFFFF) % self.partitions


@pytest.fixture
def copy(spark: SparkSession, topics: Topics, tmp_path: Path, request: pytest.FixtureRequest) -> Copy:
    return Copy(spark, topics, tmp_path, re.sub(r"\W+", "-", request.node.name)[:80])


def dies_once(path: str, value: Any) -> Any:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return value
    os._exit(1)


def failure(run: Callable[[], object]) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark wraps errors in its own
        run()
    return str(raised.value)


def test_batches_are_copied_once(copy: Copy) -> None:
    sink = copy.sink(kafka__compression__type="lz4")
    for _ in range(3):
        copy.fill(60)
        copy.run(sink.write, maxOffsetsPerTrigger="50")
    copy.check()


def test_rows_without_keys_need_no_shuffle(copy: Copy) -> None:
    copy.fill(63)
    sink = copy.sink()
    copy.run(sink.write, columns=("value",), maxOffsetsPerTrigger="42")
    found = copy.topics.rows(copy.target, 3, read_committed=True)
    assert Counter(row["value"] for row in found) == Counter(row["value"] for row in copy.topics.rows(copy.source, 2))
    assert {row["partition"] for row in found} == {0, 1, 2}


def test_a_batch_that_spark_runs_again_is_skipped(copy: Copy) -> None:
    copy.fill(30)

    def crash_after_commit(frame: DataFrame, batch_id: int) -> None:
        copy.sink().write(frame, batch_id)
        raise OSError("the driver dies here")

    for _ in range(2):
        assert "the driver dies here" in failure(lambda: copy.run(crash_after_commit))
    copy.check()
    copy.fill(30)
    copy.run(copy.sink().write)
    copy.check()


def test_what_the_query_raises_aborts_the_transaction(copy: Copy) -> None:
    copy.fill(30)

    udf = F.udf(lambda value: 1 // 0, "binary")
    sink = copy.sink()
    text = failure(lambda: copy.run(lambda frame, number: sink.write(frame.withColumn("value", udf("value")), number)))
    assert "ZeroDivisionError" in text
    assert copy.topics.rows(copy.target, 3, read_committed=True) == []
    copy.run(sink.write)
    copy.check()


def test_a_lost_worker_is_tried_again(copy: Copy, tmp_path: Path) -> None:
    copy.fill(200)
    once = str(tmp_path / "once")

    udf = F.udf(lambda value: dies_once(once, value), "binary")
    sink = copy.sink()
    copy.run(lambda frame, number: sink.write(frame.withColumn("value", udf("value")), number))
    copy.check()


def test_an_older_driver_is_fenced(copy: Copy) -> None:
    older, newer = copy.sink(), copy.sink()
    copy.fill(20)
    copy.run(older.write)
    copy.fill(20)
    copy.run(newer.write)
    copy.fill(20)
    text = failure(lambda: copy.run(older.write))
    assert "FencedError: " in text
    assert f"another query or driver writes with the transactional id {copy.name}" in text
    copy.run(newer.write)
    copy.check()


def test_a_target_that_is_created_again_has_lost_the_marker(copy: Copy) -> None:
    """Kafka forgets the offsets of a topic with it: what the sink had written there is gone, and it says so."""
    copy.fill(20)
    copy.run(copy.sink().write)
    copy.fill(20)
    copy.topics.delete(copy.target)
    copy.topics.create(copy.target, copy.partitions)
    text = failure(lambda: copy.run(copy.sink().write))
    assert "nothing is stored under this name, and the query is at its batch" in text
    assert copy.topics.rows(copy.target, copy.partitions) == []
    number = max(int(each.name) for each in (copy.checkpoint / "offsets").iterdir() if each.name.isdecimal())
    assert f"first_batch={number} says that the sink was added" in text
    added = TransactionalSink(copy.topics.address, copy.name, copy.target, first_batch=number)
    copy.run(added.write)
    assert len(copy.topics.rows(copy.target, copy.partitions, read_committed=True)) == 40


def test_a_second_query_with_the_same_transactional_id_is_refused(copy: Copy, tmp_path: Path) -> None:
    copy.fill(20)
    copy.run(copy.sink().write)
    copy.checkpoint = tmp_path / "another"
    text = failure(lambda: copy.run(copy.sink().write))
    assert "this is another, which begins with" in text
    copy.check()


def test_a_lost_checkpoint_goes_on_from_the_marker(copy: Copy, tmp_path: Path) -> None:
    copy.fill(30)
    copy.run(copy.sink().write)
    copy.checkpoint = tmp_path / "another"
    copy.fill(30)
    with Client(settings_of({"bootstrap.servers": copy.topics.address})) as client:
        offsets = resume_offsets(f"group:{copy.name}", client)
    copy.run(copy.sink().write, startingOffsets=json.dumps(offsets.to_json_object()))
    copy.check()


def test_a_column_names_the_topic_and_the_partition(copy: Copy) -> None:
    copy.fill(40)
    copy.topics.create(f"{copy.target}-b", 2)
    given = {"kafka.bootstrap.servers": copy.topics.address}
    sink = TransactionalSink(given, copy.name, marker_topic=copy.target)

    def write(frame: DataFrame, batch_id: int) -> None:
        name = F.when(F.col("offset") % 2 == 0, copy.target).otherwise(f"{copy.target}-b")
        sink.write(frame.select("value", name.alias("topic"), (F.col("offset") % 2).alias("partition")), batch_id)

    copy.run(write, columns=("value", "offset"), maxOffsetsPerTrigger="30")
    even = copy.topics.rows(copy.target, 3, read_committed=True)
    odd = copy.topics.rows(f"{copy.target}-b", 2, read_committed=True)
    assert {row["partition"] for row in even} == {0}
    assert {row["partition"] for row in odd} == {1}
    assert len(even) == len(odd) == 40
    assert Counter(row["value"] for row in (*even, *odd)) == Counter(
        row["value"] for row in copy.topics.rows(copy.source, 2)
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda frame: frame.withColumn("value", F.lit(1)),
            "SettingsError: the column value is int; cast it to binary or string",
        ),
        (
            lambda frame: frame.withColumnRenamed("value", "vlaue"),
            "SettingsError: the rows have no column value; did you mean vlaue?",
        ),
        (
            lambda frame: frame.withColumn("partition", F.lit(7)),
            "the column partition has 7; the topic has the partitions 0 to 2",
        ),
        (
            lambda frame: frame.withColumn("value", F.expr("repeat('x', 2000000)")),
            "is larger than max.message.bytes of the topic",
        ),
    ],
)
def test_wrong_rows_are_one_line_and_nothing_is_written(
    copy: Copy, change: Callable[[DataFrame], DataFrame], text: str
) -> None:
    copy.fill(5)
    sink = copy.sink()
    assert text in failure(lambda: copy.run(lambda frame, number: sink.write(change(frame), number)))
    assert copy.topics.rows(copy.target, 3, read_committed=True) == []
    copy.run(sink.write)
    copy.check()


def test_a_null_topic_and_an_unknown_topic(copy: Copy) -> None:
    copy.fill(5)

    def to(topic: str | None, timeout_ms: int = 60_000) -> Write:
        given = {"kafka.bootstrap.servers": copy.topics.address, "kafka.default.api.timeout.ms": str(timeout_ms)}
        sink = TransactionalSink(given, copy.name, marker_topic=copy.target)
        return lambda frame, number: sink.write(frame.withColumn("topic", F.lit(topic).cast("string")), number)

    assert "a row has no topic: its column topic is null, and the option topic is not set" in failure(
        lambda: copy.run(to(None))
    )
    unknown = "topic none-such: UNKNOWN_TOPIC_OR_PARTITION (3); a sink creates no topic, so create it first"
    assert unknown in failure(lambda: copy.run(to("none-such", 2000)))
    copy.run(to(copy.target))
    copy.check()


def test_a_data_frame_is_appended_as_one_transaction(copy: Copy, spark: SparkSession) -> None:
    rows = spark.range(1000).selectExpr("string(id) as key", "string(id) as value", "timestamp_millis(id) as timestamp")
    copy.sink().append(rows)
    found = copy.topics.rows(copy.target, 3, read_committed=True)
    assert sorted(int(row["value"]) for row in found) == list(range(1000))
    assert all(row["key"] == row["value"] and row["timestamp"].timestamp() * 1000 == int(row["key"]) for row in found)


def test_a_slow_batch_is_reported(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    copy.fill(5)
    sink = copy.sink(kafka__transaction__timeout__ms="60000")
    now = iter(range(0, 1_000_000, 31))
    monkeypatch.setattr(batch_transaction, "time", SimpleNamespace(monotonic=lambda: next(now)))
    copy.run(sink.write)
    assert "took 31 s, more than half of kafka.transaction.timeout.ms=60000" in caplog.text
