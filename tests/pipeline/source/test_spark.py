"""The data source in Spark itself: sessions, checkpoints, filters, SQL, and the archive for executors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from highwater.common.package_archive import write_archive
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.source import HighwaterDataSource, offsets_behind_latest, register
from highwater.pipeline.source.session import FOLDERS
from tests.pipeline.source.topics import Topics, by_offset
from tests.waiting import wait_until

Read = Callable[..., DataFrame]
Row = dict[str, Any]


@pytest.fixture
def read(spark: SparkSession, topics: Topics) -> Read:
    def of(**given: str) -> DataFrame:
        return spark.read.format("highwater").options(**options(topics, **given)).load()

    return of


def options(topics: Topics, **given: str) -> dict[str, str]:
    base = {"kafka.bootstrap.servers": topics.address, "kafka.default.api.timeout.ms": "3000"}
    return {**base, **{name.replace("__", "."): value for name, value in given.items()}}


def rows(frame: DataFrame) -> list[Row]:
    return by_offset(frame.toArrow().to_pylist())


class Stream:
    """A query with a checkpoint, run until it has read what is there."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path, **given: str) -> None:
        self._spark = spark
        self._folder = folder
        self.options = options(topics, **given)
        self.rows: list[Row] = []
        self.batches: list[int] = []

    def run(self, **changes: str) -> Any:
        """Returns the progress of the last batch."""
        frame = self._spark.readStream.format("highwater").options(**{**self.options, **changes}).load()
        query = (
            frame.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._folder))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(120)
            return query.lastProgress
        finally:
            query.stop()

    def _take(self, frame: DataFrame, batch: int) -> None:
        self.batches.append(batch)
        self.rows += frame.toArrow().to_pylist()


@pytest.mark.spark
def test_batches(spark: SparkSession, topics: Topics, read: Read) -> None:
    topics.create("plain", 2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for partition in range(2):
            topics.produce("plain", 60, partition=partition, codec=codec)
    expected = topics.rows("plain", 2)
    assert rows(read(subscribe="plain", includeHeaders="true")) == expected
    assert rows(read(subscribe="plain", includeHeaders="true", minPartitions="5")) == expected
    every_column = "offset,keyBytes,valueBytes,keyHash,batchBytes,codec,producerId,leaderEpoch"
    assert read(subscribe="plain", columns=every_column).agg({"valueBytes": "sum"}).collect()[0][0] == sum(
        len(row["value"]) for row in expected if row["value"] is not None
    )

    found = read(subscribe="plain").where("topic = 'plain' and partition in (1, 7) and offset >= 250")
    assert [(row["partition"], row["offset"]) for row in rows(found)] == [(1, offset) for offset in range(250, 300)]
    assert read(subscribe="plain").where("timestamp > now() + interval 1 day").count() == 0
    assert read(subscribe="plain").where("offset < 10 or partition = 0").count() == 310

    settings = ", ".join(f"`{name}` '{value}'" for name, value in options(topics, subscribe="plain").items())
    spark.sql(f"create or replace temporary view plain using highwater options ({settings})")
    assert spark.sql("select count(*), max(offset) from plain where partition = 0").collect() == [(300, 299)]
    assert read(subscribePattern="nothing.*").count() == 0


@pytest.mark.spark
def test_transactions(topics: Topics, read: Read) -> None:
    topics.create("transactions")
    topics.transaction("transactions", 10, commit=True)
    topics.transaction("transactions", 10, commit=False)
    assert read(subscribe="transactions").count() == 20
    committed = read(subscribe="transactions", includeHeaders="true", kafka__isolation__level="read_committed")
    assert rows(committed) == topics.rows("transactions", read_committed=True)


@pytest.mark.spark
def test_what_is_wrong_is_one_line_in_the_error(spark: SparkSession, topics: Topics, read: Read) -> None:
    topics.create("errors")
    topics.produce("errors", 10)
    topics.delete_records("errors", 5)
    for given, words in (
        ({"subscirbe": "errors"}, "SettingsError: option subscirbe is unknown; did you mean subscribe?"),
        ({"subscribe": "eror"}, "SettingsError: topic eror does not exist"),
        ({"subscribe": "errors", "startingOffsets": '{"errors":{"0":1}}'}, "DataLossError: startingOffsets: errors-0"),
    ):
        with pytest.raises(Exception, match=words):
            read(**given).count()
    # Without `register`, Spark may not push filters down, and nothing does so.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    spark.dataSource.register(HighwaterDataSource)
    try:
        assert read(subscribe="errors").where("offset > 7").count() == 2
    finally:
        register(spark)


@pytest.mark.spark
def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("stream", 2)
    stream = Stream(
        spark, topics, tmp_path / "checkpoint", subscribe="stream", commitOffsets="g", includeHeaders="true"
    )
    stream.run()
    for partition in range(2):
        topics.produce("stream", 30, partition=partition)
    topics.transaction("stream", 4, commit=False)
    progress = stream.run(maxOffsetsPerTrigger="20")
    assert progress["sources"][0]["endOffset"].startswith('{"stream": {"0": 35, "1": 30}, "#ids"')
    assert by_offset(stream.rows) == topics.rows("stream", 2)
    assert stream.batches == list(range(len(stream.batches)))
    # The last batch of a run with availableNow is committed when the run has ended.
    assert [topics.committed("g", "stream", partition) for partition in range(2)] == [35, 30]
    assert offsets_behind_latest(progress["sources"][0]) == (0, 0.0, 0)
    assert topics.note("g", "stream").endswith(f"query {progress['id']} batch {progress['batchId']}")
    topics.produce("stream", 5)
    stream.run()
    assert topics.committed("g", "stream") == 40
    stream.run()
    assert by_offset(stream.rows) == topics.rows("stream", 2)


@pytest.mark.spark
def test_a_group_has_no_lag_while_a_stream_waits_for_its_next_trigger(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topics.create("waits")
    topics.produce("waits", 10)
    given = options(topics, subscribe="waits", startingOffsets="earliest", commitOffsets="w")
    frame = spark.readStream.format("highwater").options(**given).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="1 hour").start()
    try:
        wait_until(lambda: topics.committed("w", "waits") == 10, "the group has the end of the first batch")
        assert topics.note("w", "waits").endswith(f"query {query.id} batch 0")
    finally:
        query.stop()


@pytest.mark.spark
def test_a_stream_over_a_topic_that_was_created_again(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("again")
    topics.produce("again", 10)
    stream = Stream(spark, topics, tmp_path / "checkpoint", subscribe="again", startingOffsets="earliest")
    stream.run()
    topics.delete("again")
    topics.create("again")
    topics.produce("again", 15)
    with pytest.raises(Exception, match="DataLossError: again was deleted and created again"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert [row["offset"] for row in stream.rows] == [*range(10), *range(15)]
    topics.produce("again", 10)
    topics.delete_records("again", 20)
    with pytest.raises(Exception, match="DataLossError: again-0 has the offsets from 20 up to 25, and 15 was"):
        stream.run()


@pytest.mark.spark
@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_that_is_created_again_while_a_query_reads_it(
    spark: SparkSession, topics: Topics, tmp_path: Path, fails: str
) -> None:
    name = f"reborn-{fails}"
    topics.create(name)
    topics.produce(name, 10)
    given = options(topics, subscribe=name, startingOffsets="earliest", failOnDataLoss=fails)
    seen: list[Row] = []
    frame = spark.readStream.format("highwater").options(**given).load()
    writer = frame.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.toArrow().to_pylist()))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_until(lambda: len(seen) == 10, "the records of the first topic")
        topics.delete(name)
        topics.create(name)
        topics.produce(name, 15)
        if fails == "true":
            with pytest.raises(StreamingQueryException, match=f"DataLossError: {name}(-0 is gone| was deleted and)"):
                query.awaitTermination(60)
            assert len(seen) == 10
        else:
            wait_until(lambda: len(seen) == 25, "all records of the second topic")
            assert [row["offset"] for row in seen] == [*range(10), *range(15)]
    finally:
        query.stop()


@pytest.mark.spark
def test_a_second_query_with_the_same_checkpoint_takes_over(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """In one application Spark stops the first."""
    topics.create("shared")
    topics.produce("shared", 10)
    given = options(topics, subscribe="shared", startingOffsets="earliest", maxOffsetsPerTrigger="5")
    seen: list[int] = []

    def start() -> StreamingQuery:
        frame = spark.readStream.format("highwater").options(**given).load()
        writer = frame.writeStream.foreachBatch(lambda batch, _: seen.extend(row.offset for row in batch.collect()))
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    first = start()
    try:
        wait_until(lambda: len(seen) == 10, "the first query")
        second = start()
        try:
            topics.produce("shared", 10)
            wait_until(lambda: len(seen) == 20, "the second query")
            assert not first.isActive
            assert first.exception() is None
            assert seen == list(range(20))
        finally:
            second.stop()
    finally:
        first.stop()


def test_the_archive_for_executors_has_what_a_task_imports(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, "archive", FOLDERS)
    site = str(Path(pytest.__file__).parents[1])
    # Without the editable installation: the packages of others are there, and highwater is in the archive alone.
    code = (
        f"import sys; sys.path += [{str(archive)!r}, {site!r}]; import highwater.pipeline.source.reading as reading; "
        "print(reading.__file__)"
    )
    isolated = [sys.executable, "-I", "-S", "-c", code]
    found = subprocess.run(isolated, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert found.startswith(str(archive))


@pytest.mark.spark
def test_a_python_without_highwater_is_named_before_the_first_read(spark: SparkSession, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!{shutil.which('false')}\n")
    python.chmod(0o755)
    before, spark.sparkContext.pythonExec = spark.sparkContext.pythonExec, str(python)
    try:
        with pytest.raises(SettingsError, match=f"cannot import highwater; set PYSPARK_PYTHON={sys.executable}"):
            register(spark)
        python.write_text("#!/bin/sh\necho google.protobuf\n")
        ways_out = "python -m pip install protobuf, or set PYSPARK_PYTHON="
        with pytest.raises(SettingsError, match=f"{python} has no google.protobuf; .*{ways_out}"):
            register(spark, imports=["google.protobuf"])
    finally:
        spark.sparkContext.pythonExec = before
