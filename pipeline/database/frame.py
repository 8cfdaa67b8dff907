"""What the sink takes from a frame of Spark: its columns, and its rows as Arrow."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import CharType, DecimalType, StructType, VarcharType

from highwater.pipeline.database.columns import STRING, Column


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns, also those that no database column holds."""
    found = []
    for each in schema:
        kind = STRING if isinstance(each.dataType, CharType | VarcharType) else each.dataType.typeName()
        size = (each.dataType.precision, each.dataType.scale) if isinstance(each.dataType, DecimalType) else (0, 0)
        found.append(Column(each.name, kind, *size))
    return tuple(found)


def arrow_pieces(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Tasks pack record batches into bytes, the driver takes them a partition at a time, and the next one meanwhile.

    `toLocalIterator` alone makes an object of each value, and `toArrow` holds the whole batch.
    """
    packed = frame.mapInArrow(_pack, "piece binary")
    for row in packed.toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(row.piece) as reader:
            yield from reader


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows == 0:
            continue
        packed = pa.BufferOutputStream()
        with pa.ipc.new_stream(packed, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([packed.getvalue().to_pybytes()], pa.binary())], ["piece"])
