"""Queries for the tests of sinks: from a topic in small batches, run until it has been read, replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from highwater.pipeline.kafka.offsets import Offsets
from tests.pipeline.source.topics import Topics


def orders(spark: SparkSession, topics: Topics, topic: str, start: Offsets | None = None) -> DataFrame:
    """Partition, offset, timestamp and value of a topic."""
    options = {
        "kafka.bootstrap.servers": topics.address,
        "subscribe": topic,
        "startingOffsets": "earliest" if start is None else json.dumps(start.to_json_object()),
        "maxOffsetsPerTrigger": "60",
    }
    frame = spark.readStream.format("highwater").options(**options).load()
    return frame.selectExpr("partition", "offset", "timestamp", "string(value) as word")


def run(frame: DataFrame, checkpoint: Path, write: Callable[[DataFrame, int], None]) -> None:
    query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """As a kill between the commit of the sink and Spark's own leaves it."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
