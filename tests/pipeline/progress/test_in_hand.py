"""The batch in hand inside of foreachBatch: offsets of all sources, replays, restarts, and wrong places."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf
from highwater.pipeline.progress.in_hand import batch_in_hand
from tests.pipeline.source.topics import Topics

pytestmark = pytest.mark.spark


def source(spark: SparkSession, topics: Topics, name: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": topics.address, "subscribe": name, "startingOffsets": "earliest"}
    return spark.readStream.format("highwater").options(**options).load().select("topic", "offset")


def run(frame: DataFrame, checkpoint: Path, write: Callable[[DataFrame, int], None]) -> None:
    query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


def next_of(sources: tuple[Offsets, ...]) -> list[dict[tuple[str, int], int]]:
    return [dict(each.next) for each in sources]


def test_offsets_of_all_sources_over_replays_and_restarts(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.create("orders", 2)
    topics.create("payments")
    topics.produce("orders", 10)
    topics.produce("payments", 3)
    rate = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1).load()
    frame = (
        source(spark, topics, "orders")
        .union(rate.selectExpr("'rate'", "value"))
        .union(source(spark, topics, "payments"))
    )
    seen: list[BatchOf] = []

    def write(batch: DataFrame, batch_id: int) -> None:
        seen.append(batch_in_hand(batch, batch_id))

    run(frame, tmp_path / "checkpoint", write)
    first = seen[0]
    assert first.batch_id == 0
    assert first.start_offsets is not None
    assert next_of(first.start_offsets) == [{("orders", 0): 0, ("orders", 1): 0}, {}, {("payments", 0): 0}]
    assert next_of(first.end_offsets) == [{("orders", 0): 10, ("orders", 1): 0}, {}, {("payments", 0): 3}]
    assert set(first.end_offsets[0].ids) == {"orders"}

    (tmp_path / "checkpoint/commits/0").unlink()
    shutil.rmtree(tmp_path / "checkpoint/commits", ignore_errors=True)
    for later in (tmp_path / "checkpoint/offsets").glob("[1-9]*"):
        later.unlink()
    seen.clear()
    topics.produce("payments", 2)
    run(frame, tmp_path / "checkpoint", write)
    assert (seen[0].query_id, seen[0].batch_id) == (first.query_id, 0)
    assert seen[0].run_id != first.run_id
    assert (seen[0].start_offsets, seen[0].end_offsets) == (first.start_offsets, first.end_offsets)
    assert seen[1].batch_id == 1
    assert seen[1].start_offsets == first.end_offsets
    assert next_of(seen[1].end_offsets) == [{("orders", 0): 10, ("orders", 1): 0}, {}, {("payments", 0): 5}]


def test_outside_of_foreach_batch(spark: SparkSession) -> None:
    with pytest.raises(SettingsError, match="works inside of foreachBatch alone"):
        batch_in_hand(spark.range(1), 0)
