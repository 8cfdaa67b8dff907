"""format("highwater") as a sink: at least once, and exactly once by a transaction of each task."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from highwater.pipeline.sink.partition_transaction import TopicSink
from tests.pipeline.source.topics import Topics

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ONCE = {"delivery": "exactly_once", "transactionalIdPrefix": "hw", "tasks": "2"}


def failure(run: Callable[[], object]) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark wraps errors in its own
        run()
    return str(raised.value)


class Copy:
    """A query that copies the topic `in-NAME` to `out-NAME`, with a checkpoint."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path, name: str) -> None:
        self._spark = spark
        self.topics = topics
        self.checkpoint = folder / "checkpoint"
        self.source, self.target = f"in-{name}", f"out-{name}"
        topics.create(self.source, 2)
        topics.create(self.target, 3)

    def fill(self, count: int = 40) -> None:
        first_ms = round(time.time() * 1000)
        for partition in (0, 1):
            times = range(first_ms, first_ms + count)  # A batch with a limit ends at one time in all partitions.
            self.topics.produce(self.source, count, partition=partition, timestamps_ms=times)

    def frame(self) -> DataFrame:
        given = {"kafka.bootstrap.servers": self.topics.address, "subscribe": self.source}
        reader = self._spark.readStream.format("highwater").options(**given, startingOffsets="earliest")
        return reader.option("maxOffsetsPerTrigger", "30").option("includeHeaders", "true").load()

    def run(self, change: Callable[[DataFrame], DataFrame] = lambda frame: frame, **options: str) -> None:
        rows = change(self.frame().select("key", "value", "headers"))
        given = {"kafka.bootstrap.servers": self.topics.address, "topic": self.target, **options}
        writer = rows.writeStream.format("highwater").options(**given).trigger(availableNow=True)
        writer.option("checkpointLocation", str(self.checkpoint)).start().awaitTermination()

    def forget_last_commit(self) -> None:
        """As if Spark had died before its commit log: the last batch runs again."""
        commits = self.checkpoint / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
        for each in commits.iterdir():
            if str(last) in each.name:
                each.unlink()

    def rows(self, topic: str, partitions: int) -> Counter[Any]:
        found = self.topics.rows(topic, partitions, read_committed=True)
        return Counter(
            (row["key"], row["value"], tuple((each["key"], each["value"]) for each in row["headers"] or ()))
            for row in found
        )

    def check(self) -> None:
        assert self.rows(self.target, 3) == self.rows(self.source, 2)


@pytest.fixture
def copy(spark: SparkSession, topics: Topics, tmp_path: Path, request: pytest.FixtureRequest) -> Copy:
    return Copy(spark, topics, tmp_path, re.sub(r"\W+", "-", request.node.name)[:80])


def test_a_stream_is_written_at_least_once(copy: Copy) -> None:
    copy.fill()
    copy.run(lambda frame: frame, **{"kafka.compression.type": "zstd"})
    copy.check()
    copy.forget_last_commit()
    copy.run()
    assert copy.rows(copy.target, 3) > copy.rows(copy.source, 2)


def test_a_stream_is_written_exactly_once(copy: Copy) -> None:
    copy.fill()
    for _ in range(2):
        copy.run(lambda frame: frame.repartition(2), **ONCE)
        copy.check()
        copy.forget_last_commit()
    copy.fill(10)
    copy.run(lambda frame: frame.repartition(2), **ONCE)
    copy.check()


def test_another_number_of_tasks_is_refused(copy: Copy) -> None:
    copy.fill()
    more = failure(lambda: copy.run(lambda frame: frame.repartition(3), **ONCE))
    assert "task 2 has rows, and tasks=2: end the query with repartition(2)" in more
    copy.run(lambda frame: frame.repartition(3), **{**ONCE, "tasks": "3"})
    copy.check()
    copy.fill()
    other = failure(lambda: copy.run(lambda frame: frame.repartition(2), **ONCE))
    assert "this query has written with tasks=3 since it began, and now tasks=2: set it back" in other
    copy.run(lambda frame: frame.repartition(3), **{**ONCE, "tasks": "3"})
    copy.check()


def test_fewer_tasks_than_promised_are_refused(copy: Copy) -> None:
    copy.fill()
    text = failure(lambda: copy.run(lambda frame: frame.coalesce(1), **ONCE))
    assert "was written by 1 task, and tasks=2: end the query with repartition(2)" in text


def test_a_query_that_is_not_deterministic_is_refused(copy: Copy) -> None:
    copy.fill()
    copy.run(lambda frame: frame.repartition(2), **ONCE)
    copy.forget_last_commit()
    text = failure(lambda: copy.run(lambda frame: frame.where("value is not null").repartition(2), **ONCE))
    assert "the query is not deterministic; use TransactionalSink for it" in text
    copy.check()


def test_a_data_frame_is_appended(copy: Copy, spark: SparkSession, topics: Topics) -> None:
    rows = spark.range(500).selectExpr("string(id) as key", "string(id) as value", f"'{copy.target}' as topic")
    writer = rows.write.format("highwater").option("kafka.bootstrap.servers", topics.address)
    writer.mode("append").save()
    found = topics.rows(copy.target, 3)
    assert sorted(int(row["value"]) for row in found) == list(range(500))
    assert "a topic cannot be overwritten; write with mode append" in failure(lambda: writer.mode("overwrite").save())
    once = writer.options(**ONCE, topic=copy.target).mode("append")
    assert "delivery=exactly_once is for streams" in failure(once.save)


def test_an_unknown_option_is_refused(copy: Copy) -> None:
    assert "option topik is unknown; did you mean topic?" in failure(lambda: copy.run(topik="t"))


@pytest.mark.parametrize("options", [{}, ONCE])
def test_a_function_of_foreach_batch_writes_in_the_same_way(copy: Copy, options: dict[str, str]) -> None:
    copy.fill()

    def run() -> int:
        sink = TopicSink({"kafka.bootstrap.servers": copy.topics.address, "topic": copy.target, **options})
        writer = copy.frame().select("key", "value", "headers").writeStream.foreachBatch(sink.write)
        writer.option("checkpointLocation", str(copy.checkpoint)).trigger(availableNow=True).start().awaitTermination()
        return sink.row_count

    assert run() == 80
    copy.check()
    copy.forget_last_commit()
    again = run()
    assert 0 < again <= 30
    written = copy.rows(copy.target, 3).total()
    assert written == (80 if options else 80 + again), "only a transaction of each task knows a replay"
