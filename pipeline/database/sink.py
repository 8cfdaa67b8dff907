"""The sink for foreachBatch: `DatabaseSink(url, table).write`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import CharType, DecimalType, StructType, VarcharType

from highwater.pipeline.database.address import read_address
from highwater.pipeline.database.batch_transaction import Writer
from highwater.pipeline.database.columns import STRING, Column
from highwater.pipeline.database.dialects import dialect_of
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.progress.in_hand import OncePerBatch, batch_in_hand
from highwater.pipeline.sink.arrow_pieces import arrow_pieces

_ONCE: Final = OncePerBatch()


class DatabaseSink:
    """Each micro-batch exactly once into a table of SQLite, PostgreSQL, MariaDB or MySQL."""

    def __init__(
        self,
        url: str,
        table: str,
        *,
        name: str | None = None,
        key: Sequence[str] = (),
        create: bool = False,
        first_batch: int = 0,
        checkpoint: str = "",
    ) -> None:
        """Raises SettingsError. Nothing is connected yet.

        url: `sqlite:PATH`, `postgresql://USER@HOST:PORT/DATABASE` or `mysql://USER@HOST:PORT/DATABASE`.
        name: under which the progress is stored, the table's name if it is not given. Each sink has its own.
        key: columns by which rows replace those of earlier batches; without it, rows are added.
        create: whether a missing table is created.
        first_batch: where a sink begins that is added to a running query.
        checkpoint: the query's checkpointLocation, which a sink over Spark Connect needs.
        """
        if isinstance(key, str):
            raise SettingsError(f"key is a list of columns: write key=[{key!r}]")
        address = read_address(url)
        self.name = table if name is None else name
        self._checkpoint = checkpoint
        self.row_count = 0
        """How many rows this object has written."""
        self._id = f"{address.shown}#{self.name}"
        self._writer = Writer(dialect_of(address), table, self.name, key=key, create=create, first_batch=first_batch)

    def __repr__(self) -> str:
        return f"DatabaseSink({self._id})"

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, or nothing if it is stored already: for `writeStream.foreachBatch(sink.write)`.

        Raises PipelineError, with nothing of the batch written. Spark then ends the query, and a restart runs the
        batch again.
        """
        batch = batch_in_hand(frame, batch_id, self._checkpoint)
        _ONCE.check(self._id, batch)
        row_counts: list[int] = []
        self._writer.write(batch, columns_of(frame.schema), _counted(arrow_pieces(frame), row_counts))
        _ONCE.done(self._id, batch)
        self.row_count += sum(row_counts)


def _counted(pieces: Iterator[pa.RecordBatch], row_counts: list[int]) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        row_counts.append(piece.num_rows)
        yield piece


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns, also those that no database column holds."""
    found = []
    for each in schema:
        kind = STRING if isinstance(each.dataType, CharType | VarcharType) else each.dataType.typeName()
        size = (each.dataType.precision, each.dataType.scale) if isinstance(each.dataType, DecimalType) else (0, 0)
        found.append(Column(each.name, kind, *size))
    return tuple(found)
