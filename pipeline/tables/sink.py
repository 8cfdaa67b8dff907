"""The sink for foreachBatch that commits a micro-batch and its progress to a table of any format."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import copy_context
from itertools import chain, count, islice
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.progress.batch import BatchOf, Progress
from highwater.pipeline.progress.in_hand import OncePerBatch, batch_in_hand
from highwater.pipeline.progress.rule import Decision, decide
from highwater.pipeline.sink.arrow_pieces import arrow_pieces
from highwater.pipeline.tables.columns import arrow_schema_of, check_columns, fitted
from highwater.pipeline.tables.model import CommittedMeanwhileError, TablePlace

_ATTEMPTS: Final = 5
"""How often a batch is written while other writers of the table are faster."""
_ONCE: Final = OncePerBatch()


class TableSink:
    """Each micro-batch exactly once into a table. The sink of each format says what its arguments are."""

    def __init__(self, place: TablePlace, *, name: str, create: bool, first_batch: int, checkpoint: str) -> None:
        self.name = name
        self.row_count = 0
        """How many rows this object has written."""
        self._place = place
        self._create = create
        self._first_batch = first_batch
        self._checkpoint = checkpoint
        self._id = f"{place.shown}#{name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._id})"

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, or nothing if it is stored already: for `writeStream.foreachBatch(sink.write)`.

        Raises PipelineError, with nothing of the batch to be seen. Spark then ends the query, and a restart runs the
        batch again.
        """
        batch = batch_in_hand(frame, batch_id, self._checkpoint)
        _ONCE.check(self._id, batch)
        for attempt in count(1):
            try:
                self.row_count += self._write(frame, batch)
                break
            except CommittedMeanwhileError:
                if attempt == _ATTEMPTS:
                    raise
        _ONCE.done(self._id, batch)

    def _write(self, frame: DataFrame, batch: BatchOf) -> int:
        """Returns how many rows were written."""
        columns = arrow_schema_of(frame.schema)
        table = self._place.open(self.name, columns if self._create else None)
        if decide(self._id, table.progress(), batch, first_batch=self._first_batch) is Decision.SKIP:
            reach(CrashPoint.SINK_SKIPPED)
            return 0
        reach(CrashPoint.SINK_BEGINS)
        check_columns(self._place.shown, columns, table.schema)
        reach(CrashPoint.SINK_BEGUN)
        rows = _Rows(self._place.shown, arrow_pieces(frame), table.schema)
        try:
            table.append(rows.reader, Progress.after(batch))
        except Exception:
            if rows.failure is not None:
                raise rows.failure from None
            raise
        reach(CrashPoint.SINK_COMMITTED)
        return rows.count


class _Rows:
    """The rows of a batch for a library, which takes them in a thread of its own."""

    def __init__(self, table: str, pieces: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self.count = 0
        self.failure: Exception | None = None
        """Why the rows ended early: the library gives its own error for it."""
        self._context = copy_context()
        # Spark's job begins in this thread, which has the properties of the query.
        first = list(islice(pieces, 1))
        self.reader = pa.RecordBatchReader.from_batches(schema, self._fitted(table, chain(first, pieces), schema))

    def _fitted(self, table: str, pieces: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for number, piece in enumerate(pieces):
                self.count += piece.num_rows
                yield fitted(table, piece, schema)
                if number == 0:
                    self._context.run(reach, CrashPoint.SINK_WRITING)
            self._context.run(reach, CrashPoint.SINK_WRITTEN)
        except Exception as error:
            self.failure = error
            raise
