"""The rows of a frame of Spark as Arrow, for sinks whose driver writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from highwater.pipeline.sink.errors import TaskLostError, errors_of_job
from highwater.pipeline.sink.grants import CHOICE, COMPUTED_AGAIN, GrantAddress, Grants
from highwater.pipeline.sink.session import hosts_of, runs_in_one_process, task_count

_SCHEMA = "piece binary"


def arrow_pieces(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Tasks pack record batches into bytes, the driver takes them a partition at a time, and the next one meanwhile.

    `toLocalIterator` alone makes an object of each value, and `toArrow` holds the whole batch. Raises TaskLostError if
    rows were computed again after the first ones were taken.
    """
    if runs_in_one_process(frame.sparkSession):
        return _taken(frame.mapInArrow(_pack, _SCHEMA))
    return _taken_once(frame)


def _taken_once(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Where executors can be lost. Each partition is taken by a job of its own: between two of them, rows of a query
    that is not deterministic could be computed again, and come out in another way. Therefore all rows are packed and
    shuffled before the first one is taken, and a task that packs later is refused.
    """
    spark = frame.sparkSession
    with Grants(*hosts_of(spark)) as grants:
        packed = frame.mapInArrow(_PackBefore(grants.address), _SCHEMA)
        with errors_of_job():
            for piece in _taken(packed.repartition(task_count(spark))):
                grants.end_choosing()
                yield piece


def _taken(packed: DataFrame) -> Iterator[pa.RecordBatch]:
    for row in packed.toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(row.piece) as reader:
            yield from reader


@dataclass(frozen=True)
class _PackBefore:
    grants: GrantAddress

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _pack(batches)
        if not self.grants.ask(CHOICE):
            raise TaskLostError(COMPUTED_AGAIN)


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows == 0:
            continue
        packed = pa.BufferOutputStream()
        with pa.ipc.new_stream(packed, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([packed.getvalue().to_pybytes()], pa.binary())], ["piece"])
