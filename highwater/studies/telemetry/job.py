"""The Spark jobs over the telemetry topic: the live stream, and the batch that sums up again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from highwater.bench.telemetry.control import ControlTopic
from highwater.pipeline.progress.in_hand import batch_in_hand
from highwater.studies.telemetry.live import Live
from highwater.studies.telemetry.rows import KEYS, SCHEMA, rows_of_batches
from highwater.studies.telemetry.store import Changed
from highwater.studies.telemetry.sums import Sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# A stream that catches up takes the messages of a thousand tasks for half a minute at once.
_MESSAGES_PER_BATCH_MAX: Final = 30_000
_CHECKPOINT: Final = "checkpoint"


def start_live(
    spark: SparkSession,
    source: ControlTopic,
    live: Live,
    state: Path,
    *,
    every_s: float = 2.0,
    once: bool = False,
    on_batch: Callable[[Sequence[Changed]], None] = lambda _: None,
) -> StreamingQuery:
    """Start the stream; `once`: it ends when it has read what is there. The checkpoint is in the directory `state`.

    No state is kept by Spark and no watermark drops rows: the latest records of a second are its slowest ones.
    """
    options = {**_options(source), "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(_MESSAGES_PER_BATCH_MAX)}
    frame = spark.readStream.format("highwater").options(**options).load()

    def take(batch: DataFrame, batch_id: int) -> None:
        on_batch(live.take(_summed(batch).toArrow(), batch_in_hand(batch, batch_id)))

    writer = _rows(frame).writeStream.foreachBatch(take).option("checkpointLocation", str(state / _CHECKPOINT))
    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{every_s:g} seconds"}
    return writer.queryName("highwater-telemetry").trigger(**trigger).start()


def sums_of_topic(spark: SparkSession, source: ControlTopic) -> Sums:
    """All that is on the topic now, summed up from its first message on."""
    frame = spark.read.format("highwater").options(**_options(source)).load()
    sums = Sums()
    sums.add(_summed(_rows(frame)).toArrow())
    return sums


def _rows(frame: DataFrame) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    return frame.mapInArrow(rows_of_batches, from_arrow_schema(SCHEMA))


def _summed(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    return rows.groupBy(*KEYS).agg(
        sql.sum("amount").alias("amount"),
        sql.min("low").alias("low"),
        sql.max("high").alias("high"),
        sql.max("payload").alias("payload"),
    )


def _options(source: ControlTopic) -> dict[str, str]:
    settings = {f"kafka.{name}": value for name, value in source.kafka_properties().items()}
    return {"subscribe": source.topic, "columns": "value", **settings}
