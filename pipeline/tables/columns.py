"""Checks that a table holds the columns of a frame value for value, and gives rows its types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import CharType, StringType, StructType, VarcharType, VariantType

from highwater.common.nearest import did_you_mean
from highwater.pipeline.errors import SettingsError

_WIDER: Final = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """The columns of a frame as Arrow. Raises SettingsError for a type that Arrow does not have."""
    fields = []
    for each in schema:
        try:
            if isinstance(each.dataType, VariantType):
                raise TypeError  # to Arrow it is a struct of bytes
            kind = StringType() if isinstance(each.dataType, CharType | VarcharType) else each.dataType
            # The time zone only says how a timestamp is shown.
            fields.append(pa.field(each.name, to_arrow_type(kind, timezone="UTC")))
        except Exception:
            raise SettingsError(
                f"column {each.name} is {each.dataType.simpleString()}, which tables do not hold: cast it to text"
            ) from None
    return pa.schema(fields)


def check_columns(table: str, frame: pa.Schema, held: pa.Schema) -> None:
    """Raises SettingsError for the first column that the table or the frame lacks, or that would change a value."""
    for name in frame.names:
        if name not in held.names:
            hint = did_you_mean(name, held.names) or f"; its columns are {', '.join(held.names)}"
            raise SettingsError(f"{table} has no column {name}{hint}")
    for each in held:
        if each.name not in frame.names:
            raise SettingsError(f"{table} has a column {each.name}, and the frame has not: select it too")
        mine, its = _plain(frame.field(each.name).type), _plain(each.type)
        if mine != its and its not in _WIDER.get(mine, ()):
            raise SettingsError(f"column {each.name} is {mine} in the frame and {its} in {table}: cast it")


def fitted(table: str, piece: pa.RecordBatch, held: pa.Schema) -> pa.RecordBatch:
    """The rows in the order and the types of the table. Raises SettingsError for null where none may be."""
    for each in held:
        if not each.nullable and piece.column(each.name).null_count:
            raise SettingsError(f"column {each.name} of {table} takes no null, and is null in a row")
    return piece.select(held.names).cast(held)


def _plain(kind: pa.DataType) -> pa.DataType:
    """One type for those that hold the same values, in which formats and Spark differ."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _plain(each.type)) for each in kind])
    return kind
