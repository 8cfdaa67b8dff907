"""The columns of a frame of Spark, as a database has to hold them."""

from __future__ import annotations

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
