"""The sinks of tables in queries of Spark: replays, a lost checkpoint, two pipelines, wrong uses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from highwater.pipeline.resume import resume_offsets
from highwater.pipeline.tables.model import DEFAULT_NAME
from tests.pipeline.queries import forget_last_commit, orders, run
from tests.pipeline.source.topics import Topics
from tests.pipeline.tables.lake_tables import Delta, Iceberg

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def stored(table: Delta | Iceberg) -> list[tuple[int, int]]:
    """Partition and offset of each row, as a reader that is not Spark has them."""
    found = table.rows().select(["partition", "offset"]).to_pydict()
    return sorted(zip(found["partition"], found["offset"], strict=True))


def records(*counts: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, count in enumerate(counts) for offset in range(count)]


def test_every_record_once(spark: SparkSession, topics: Topics, tmp_path: Path, table: Delta | Iceberg) -> None:
    topic = f"once-{type(table).__name__}"
    topics.create(topic, 2)
    topics.produce(topic, 60)
    topics.produce(topic, 40, partition=1)
    checkpoint = tmp_path / "checkpoint"
    run(orders(spark, topics, topic), checkpoint, table.sink(create=True).write)
    assert stored(table) == records(60, 40)
    forget_last_commit(checkpoint)
    topics.produce(topic, 5)
    sink = table.sink()
    run(orders(spark, topics, topic), checkpoint, sink.write)
    assert sink.row_count == 5, "the replay was written again"
    assert stored(table) == records(65, 40)

    # The checkpoint is gone: a new query begins where the table ends, and nowhere else.
    shutil.rmtree(checkpoint)
    topics.produce(topic, 7)
    with pytest.raises(StreamingQueryException, match="begin there with resumeFrom at the source, or give the sink"):
        run(orders(spark, topics, topic), tmp_path / "wrong", table.sink().write)
    with Client(settings_of({"kafka.bootstrap.servers": topics.address})) as client:
        offsets = resume_offsets(table.resume_from(DEFAULT_NAME), client)
    run(orders(spark, topics, topic, offsets), checkpoint, table.sink().write)
    assert stored(table) == records(72, 40)


def test_two_pipelines_and_an_older_checkpoint(
    spark: SparkSession, topics: Topics, tmp_path: Path, table: Delta | Iceberg
) -> None:
    topic = f"two-{type(table).__name__}"
    topics.create(topic)
    topics.produce(topic, 70)
    run(orders(spark, topics, topic), tmp_path / "first", table.sink(create=True).write)
    with pytest.raises(StreamingQueryException, match="writes here and has stored its batch 1; this is another"):
        run(orders(spark, topics, topic), tmp_path / "second", table.sink().write)
    # With a name of its own it may: its rows are its own affair.
    run(orders(spark, topics, topic), tmp_path / "third", table.sink(name="again").write)
    assert stored(table) == sorted(2 * records(70))

    # A checkpoint from a backup plans a batch anew that the table has with fewer records.
    forget_last_commit(tmp_path / "first")
    for folder in ("offsets", "sources"):
        for path in (tmp_path / "first" / folder).glob("1"):
            path.unlink()
            path.with_name(".1.crc").unlink(missing_ok=True)
    topics.produce(topic, 9)
    with pytest.raises(
        StreamingQueryException, match=r"batch 1 was stored, and now ends with .* the checkpoint is older"
    ):
        run(orders(spark, topics, topic), tmp_path / "first", table.sink().write)
    assert stored(table) == sorted(2 * records(70))


def test_wrong_tables(spark: SparkSession, topics: Topics, tmp_path: Path, table: Delta | Iceberg) -> None:
    topic = f"wrong-{type(table).__name__}"
    topics.create(topic)
    topics.produce(topic, 10)
    frame = orders(spark, topics, topic)
    with pytest.raises(StreamingQueryException, match=r"orders: create it, or let the sink do so \(create\)"):
        run(frame, tmp_path / "none", table.sink().write)
    partitioned = [("partition", pa.int32()), ("offset", pa.int32()), ("word", pa.string())]
    table.create(pa.schema(partitioned))
    with pytest.raises(StreamingQueryException, match="orders has no column timestamp; its columns are partition"):
        run(frame, tmp_path / "more", table.sink().write)
    narrow = frame.select("partition", "offset", "word")
    with pytest.raises(StreamingQueryException, match=r"column offset is int64 in the frame and int32 in the .* table"):
        run(narrow, tmp_path / "other", table.sink().write)
    failing = narrow.selectExpr("partition", "int(if(offset = 7, raise_error('bad'), offset)) as offset", "word")
    with pytest.raises(StreamingQueryException, match="bad"):
        run(failing, tmp_path / "failing", table.sink().write)
    assert stored(table) == []
    # The table is divided by partition.
    run(narrow.selectExpr("word", "partition", "int(offset) as offset"), tmp_path / "right", table.sink().write)
    assert stored(table) == records(10)
