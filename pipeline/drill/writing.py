"""How the query of a drill writes: to the sink that was asked for, the batch with each row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import array, col, lit, struct
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from highwater.pipeline.crash_points import QUERY, CrashPoint, reach
from highwater.pipeline.drill import kinds
from highwater.pipeline.drill.model import QuerySpec
from highwater.pipeline.drill.names import BATCH_COLUMN, BATCH_HEADER
from highwater.pipeline.drill.user_file import load

_TASKS: Final = 2

Write = Callable[[DataFrame, int], None]
Begin = Callable[[DataFrame, QuerySpec], DataStreamWriter]


def start_writing(frame: DataFrame, spec: QuerySpec) -> StreamingQuery:
    """Start the query. Raises PipelineError for a sink that does not take these columns."""
    begin = _BEGIN[spec.sink.kind]
    return begin(frame, spec).option("checkpointLocation", spec.checkpoint).start()


def _batch_name(spec: QuerySpec, batch_id: int) -> str:
    """Batches are counted from 0 in each checkpoint."""
    return f"{Path(spec.checkpoint).name}/{batch_id}"


def _by_batch(
    frame: DataFrame, spec: QuerySpec, write: Write, tag: Callable[[DataFrame, str], DataFrame]
) -> DataStreamWriter:
    def write_tagged(batch: DataFrame, batch_id: int) -> None:
        # Spark may call from a thread that wrote for another query before.
        QUERY.set(spec.name)
        write(tag(batch, _batch_name(spec, batch_id)), batch_id)

    return frame.writeStream.foreachBatch(write_tagged)


def _with_columns(frame: DataFrame, batch: str) -> DataFrame:
    """Keys as text, and the batch in a column of its own."""
    return frame.withColumn("key", col("key").cast("string")).withColumn(BATCH_COLUMN, lit(batch))


def _with_header(frame: DataFrame, batch: str) -> DataFrame:
    """The columns of a topic, and the batch in a header."""
    return frame.select("key", "value", _header(batch).alias("headers"))


def _header(batch: str) -> Column:
    return array(struct(lit(BATCH_HEADER).alias("key"), lit(batch).cast("binary").alias("value")))


def _to_file(frame: DataFrame, spec: QuerySpec) -> DataStreamWriter:
    """A sink of the user. Crash points are around its write; those inside it are the user's to name."""
    folder = Path(spec.sink.target["folder"])
    user_write = load(Path(spec.sink.target["path"]), ("write", "read")).write
    finished = folder / "finished-batches"

    def write(batch: DataFrame, batch_id: int) -> None:
        name = _batch_name(spec, batch_id)
        is_replay = finished.exists() and name in finished.read_text("utf-8").splitlines()
        reach(CrashPoint.SINK_BEGINS)
        user_write(batch, batch_id, folder)
        with finished.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")
        reach(CrashPoint.SINK_SKIPPED if is_replay else CrashPoint.SINK_COMMITTED)

    return _by_batch(frame, spec, write, _with_columns)


def _to_database(frame: DataFrame, spec: QuerySpec) -> DataStreamWriter:
    from highwater.pipeline.database.sink import DatabaseSink  # only who drills a database needs its client

    sink = DatabaseSink(spec.sink.target["url"], spec.sink.target["table"], create=True)
    return _by_batch(frame, spec, sink.write, _with_columns)


def _to_parquet(frame: DataFrame, spec: QuerySpec) -> DataStreamWriter:
    from highwater.pipeline.files.parquet import ParquetSink

    return _by_batch(frame, spec, ParquetSink(spec.sink.target["directory"]).write, _with_columns)


def _to_delta(frame: DataFrame, spec: QuerySpec) -> DataStreamWriter:
    from highwater.pipeline.tables.delta import DeltaSink

    return _by_batch(frame, spec, DeltaSink(spec.sink.target["path"], create=True).write, _with_columns)


def _to_iceberg(frame: DataFrame, spec: QuerySpec) -> DataStreamWriter:
    from highwater.pipeline.tables.iceberg import IcebergSink

    catalog = dict(spec.sink.target)
    sink = IcebergSink(catalog, catalog.pop("table"), create=True)
    return _by_batch(frame, spec, sink.write, _with_columns)


def _to_topic_by_batch(frame: DataFrame, spec: QuerySpec) -> DataStreamWriter:
    from highwater.pipeline.sink.batch_transaction import TransactionalSink

    topic = spec.sink.target["topic"]
    sink = TransactionalSink(_cluster_of(spec), topic, topic)
    return _by_batch(frame, spec, sink.write, _with_header)


def _to_topic_by_partition(frame: DataFrame, spec: QuerySpec) -> DataStreamWriter:
    topic = spec.sink.target["topic"]
    delivery = {"delivery": "exactly_once", "transactionalIdPrefix": topic, "tasks": str(_TASKS)}
    rows = frame.select("key", "value").repartition(_TASKS, "key")
    return rows.writeStream.format(spec.sink_format).options(**_cluster_of(spec), topic=topic, **delivery)


def _cluster_of(spec: QuerySpec) -> dict[str, str]:
    """The options of the source that say how the cluster is reached."""
    return {name: value for name, value in spec.source.items() if name.startswith("kafka.")}


_BEGIN: Final[dict[str, Begin]] = {
    kinds.FILE: _to_file,
    kinds.SQLITE: _to_database,
    kinds.POSTGRESQL: _to_database,
    kinds.MARIADB: _to_database,
    kinds.PARQUET: _to_parquet,
    kinds.DELTA: _to_delta,
    kinds.ICEBERG: _to_iceberg,
    kinds.TOPIC_BATCH: _to_topic_by_batch,
    kinds.TOPIC_PARTITION: _to_topic_by_partition,
}
