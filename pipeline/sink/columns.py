"""The columns that a sink writes, with names and types of Spark's connector; others are left out."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import StructType

from highwater.common.nearest import did_you_mean
from highwater.pipeline.errors import SettingsError

_BYTES: Final = ("binary", "string")
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
TYPES: Final = {
    "key": _BYTES,
    "value": _BYTES,
    "headers": (_HEADERS,),
    "timestamp": ("timestamp", "timestamp_ntz"),
    "topic": ("string",),
    "partition": _INTEGERS,
}


def written_columns(schema: StructType, topic: str) -> tuple[str, ...]:
    """The columns of rows that are written, in one order. Raises SettingsError for a type that cannot be written.

    topic: of the options; empty if each row has to name its own.
    """
    there = {field.name.lower(): field for field in schema.fields}
    if "value" not in there:
        raise SettingsError(f"the rows have no column value{did_you_mean('value', there)}")
    if not topic and "topic" not in there:
        raise SettingsError("no topic is named; set the option topic, or give the rows a column topic")
    for name, types in TYPES.items():
        if name in there and (kind := there[name].dataType.simpleString()) not in types:
            raise SettingsError(f"the column {name} is {kind}; cast it to {' or '.join(types[:2])}")
    return tuple(name for name in TYPES if name in there and not (topic and name == "topic"))
