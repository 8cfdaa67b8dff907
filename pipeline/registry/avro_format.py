"""Avro: the Arrow type of a schema, and values as Python has them. fastavro decodes. Pure."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final

import fastavro
import pyarrow as pa

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.registry.wire import reading_schema, reading_value

_UTC_US: Final = pa.timestamp("us", tz="UTC")
_PLAIN: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final = {
    "date": pa.date32(),
    "timestamp-millis": _UTC_US,
    "timestamp-micros": _UTC_US,
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_AS_THEY_ARE: Final = ("uuid", "time-millis", "time-micros")
"""Python has types for them, and Spark has no columns of these types by default."""
_DIGITS_MAX: Final = 38
_READING: Final = reading_value("Avro")


class AvroFormat:
    """Reads values of any writer's schema as `reader_schema` has them: Avro's own rules of schema resolution."""

    def __init__(self, reader_schema: str) -> None:
        """Raises SettingsError for a schema that is none, or that has no Arrow type."""
        self._writers: dict[str, Any] = {}
        with reading_schema("Avro"):
            self._reader = _parsed(reader_schema)
            self.type = _arrow_type(self._reader, {}, "the value")

    def decode(self, payload: bytes, writer_schema: str) -> Any:
        """Raises UnreadableValueError."""
        with _READING:
            writer = self._writers.get(writer_schema)
            if writer is None:
                writer = self._writers[writer_schema] = _parsed(writer_schema)
            return fastavro.schemaless_reader(io.BytesIO(payload), writer, self._reader)


def _parsed(text: str) -> Any:
    return fastavro.parse_schema(_without_text_and_time(json.loads(text)))


def _without_text_and_time(schema: Any) -> Any:
    """The schema with uuid and times of day as the texts and numbers that they are in Avro, as Spark's from_avro."""
    if isinstance(schema, list):
        return [_without_text_and_time(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_text_and_time(each)
        for key, each in schema.items()
        if key != "logicalType" or each not in _AS_THEY_ARE
    }


def _arrow_type(schema: Any, seen: Mapping[str, Any], where: str) -> Any:
    """seen: the named types around it; one that stands inside of itself has no Arrow type."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise SettingsError(f"{where} is a union of {len(others)} types; Arrow and Spark have one type in a column")
        return _arrow_type(others[0], seen, where)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        if (known := seen.get(schema)) is None:
            raise SettingsError(f"{where} has the type {schema}, which contains itself; Spark has no such columns")
        return known
    kind = schema["type"]
    logical = schema.get("logicalType")
    if logical == "decimal":
        precision, scale = schema["precision"], schema.get("scale", 0)
        if not 0 <= scale <= precision <= _DIGITS_MAX:
            raise SettingsError(
                f"{where} is a decimal({precision}, {scale}); Spark has {_DIGITS_MAX} digits at most: "
                "read the bytes without value.format"
            )
        return pa.decimal128(precision, scale)
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    found: Any
    match kind:
        case "record" | "error":
            inside = {**seen, schema["name"]: None}
            fields = []
            for field in schema["fields"]:
                found = _arrow_type(field["type"], inside, f"{where}.{field['name']}")
                fields.append(pa.field(field["name"], found))
                inside.update(_named(field["type"], found))
            return pa.struct(fields)
        case "array":
            return pa.list_(_arrow_type(schema["items"], seen, f"{where}[]"))
        case "map":
            return pa.map_(pa.string(), _arrow_type(schema["values"], seen, f"{where}{{}}"))
        case "enum":
            return pa.string()
        case "fixed":
            return pa.binary()
    return _arrow_type(kind, seen, where)


def _named(schema: Any, found: Any) -> dict[str, Any]:
    """A type that has a name can be used again by it, in what follows."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        return _named(others[0], found) if len(others) == 1 else {}
    if isinstance(schema, dict) and "name" in schema:
        return {schema["name"]: found}
    return {}
