"""The sink in a query of Spark: replays, restarts, a lost checkpoint, and wrong uses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from highwater.pipeline.database.sink import DatabaseSink
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from highwater.pipeline.resume import resume_offsets
from tests.pipeline.database.tables import Database
from tests.pipeline.queries import forget_last_commit, orders, run
from tests.pipeline.source.topics import Topics

pytestmark = pytest.mark.spark


def test_every_record_once(spark: SparkSession, topics: Topics, database: Database, tmp_path: Path) -> None:
    topic = f"once-{database.kind}"
    topics.create(topic, 2)
    topics.produce(topic, 60)
    topics.produce(topic, 40, partition=1)
    sink = DatabaseSink(database.url, "results", create=True)
    run(orders(spark, topics, topic), tmp_path / "checkpoint", sink.write)
    expected = {(0, offset) for offset in range(60)} | {(1, offset) for offset in range(40)}
    quoted = database.dialect.quoted
    found = database.sql(f"select {quoted('partition')}, {quoted('offset')} from results")
    assert len(found) == 100
    assert set(found) == expected

    forget_last_commit(tmp_path / "checkpoint")
    topics.produce(topic, 5)
    again = DatabaseSink(database.url, "results")
    run(orders(spark, topics, topic), tmp_path / "checkpoint", again.write)
    assert database.sql("select count(*), count(distinct word) from results")[0][0] == 105

    # The checkpoint is gone: a new query begins where the row ends.
    shutil.rmtree(tmp_path / "checkpoint")
    topics.produce(topic, 7)
    with pytest.raises(StreamingQueryException, match="begin there with resumeFrom at the source"):
        run(orders(spark, topics, topic), tmp_path / "wrong", again.write)
    with Client(settings_of({"kafka.bootstrap.servers": topics.address})) as client:
        offsets = resume_offsets(f"{database.url}#results", client)
    run(orders(spark, topics, topic, offsets), tmp_path / "checkpoint", again.write)
    assert database.sql("select count(*) from results")[0][0] == 112


def test_two_sinks_of_one_query(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("twice")
    topics.produce("twice", 10)
    database = Database(f"sqlite:{tmp_path / 'results.db'}")
    first, second = (DatabaseSink(database.url, "results", create=True) for _ in range(2))

    def both(frame: DataFrame, batch_id: int) -> None:
        first.write(frame, batch_id)
        second.write(frame, batch_id)

    with pytest.raises(StreamingQueryException, match="was given batch 0 twice"):
        run(orders(spark, topics, "twice"), tmp_path / "checkpoint", both)

    named = DatabaseSink(database.url, "others", create=True)

    def each(frame: DataFrame, batch_id: int) -> None:
        DatabaseSink(database.url, "results").write(frame, batch_id)
        named.write(frame, batch_id)

    run(orders(spark, topics, "twice"), tmp_path / "checkpoint", each)
    assert database.rows() == database.rows("others")


def test_wrong_uses(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    sink = DatabaseSink(f"sqlite:{tmp_path / 'results.db'}", "results")
    with pytest.raises(SettingsError, match="works inside of foreachBatch alone"):
        sink.write(spark.range(1), 0)
    with pytest.raises(SettingsError, match=r"write key=\['id'\]"):
        DatabaseSink("sqlite:a.db", "results", key="id")
    topics.create("wrong")
    topics.produce("wrong", 1)
    nested = orders(spark, topics, "wrong").selectExpr("array(offset) as odd")
    with pytest.raises(StreamingQueryException, match=r"column odd is array.*write it as text with to_json"):
        run(nested, tmp_path / "nested", sink.write)
    interval = orders(spark, topics, "wrong").selectExpr("make_interval(1) as odd")
    with pytest.raises(StreamingQueryException, match="column odd is interval, which a database column does not hold"):
        run(interval, tmp_path / "interval", sink.write)
    with pytest.raises(StreamingQueryException, match="has no table results: create it, or use create=True"):
        run(orders(spark, topics, "wrong"), tmp_path / "missing", sink.write)


def test_an_aggregation_by_key(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """Rows of an update replace the ones before; a batch without new records has its place in the row too."""
    topics.create("counted", 2)
    topics.produce("counted", 70)
    topics.produce("counted", 30, partition=1)
    database = Database(f"sqlite:{tmp_path / 'results.db'}")
    sink = DatabaseSink(database.url, "counts", key=["partition"], create=True)
    counts = orders(spark, topics, "counted").groupBy("partition").count()
    query = counts.writeStream.outputMode("update").foreachBatch(sink.write)
    query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    assert database.rows("counts") == [(0, 70), (1, 30)]
