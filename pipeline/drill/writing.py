"""How the query of a drill writes: to the sink that was asked for, the batch with each row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.drill import kinds
from highwater.pipeline.drill.model import QuerySpec
from highwater.pipeline.drill.names import BATCH_COLUMN
from highwater.pipeline.drill.user_file import load

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
        write(tag(batch, _batch_name(spec, batch_id)), batch_id)

    return frame.writeStream.foreachBatch(write_tagged)


def _with_columns(frame: DataFrame, batch: str) -> DataFrame:
    """Keys as text, and the batch in a column of its own."""
    return frame.withColumn("key", col("key").cast("string")).withColumn(BATCH_COLUMN, lit(batch))


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


_BEGIN: Final[dict[str, Begin]] = {
    kinds.FILE: _to_file,
}
