"""JSON Schema: the Arrow type of a schema, and values as Python has them. Pure."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import pyarrow as pa

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.registry.wire import UnreadableValueError, reading_schema, reading_value

_PLAIN: Final = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(), "string": pa.string()}
_CHOICES: Final = ("oneOf", "anyOf")
_READING: Final = reading_value("JSON")


class JsonFormat:
    """Reads JSON as the properties of `reader_schema` have it. What the schema does not name is left out."""

    def __init__(self, reader_schema: str) -> None:
        """Raises SettingsError for a schema that is none, or that has no Arrow type."""
        with reading_schema("JSON"):
            self.type = _arrow_type(json.loads(reader_schema), "the value")

    def decode(self, payload: bytes, writer_schema: str) -> Any:
        """Raises UnreadableValueError."""
        with _READING:
            return _fitting(json.loads(payload), self.type)


def _arrow_type(schema: Any, where: str) -> Any:
    if not isinstance(schema, dict):
        raise SettingsError(f"{where} has no type in its JSON schema; name one, or read the bytes without value.format")
    for name in _CHOICES:
        if name in schema and "type" not in schema:
            # So do generators in Java (oneOf) and pydantic (anyOf) write a field that may be null.
            others = [each for each in schema[name] if each != {**_as_dict(each), "type": "null"}]
            if len(others) == 1:
                return _arrow_type(others[0], where)
    kinds = schema.get("type")
    kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if len(kinds) == 1 and kinds[0] in _PLAIN:
        return _PLAIN[kinds[0]]
    if kinds == ["array"]:
        return pa.list_(_arrow_type(schema.get("items"), f"{where}[]"))
    if kinds == ["object"] and schema.get("properties"):
        return pa.struct(
            [pa.field(name, _arrow_type(each, f"{where}.{name}")) for name, each in schema["properties"].items()]
        )
    if kinds == ["object"] and isinstance(schema.get("additionalProperties"), dict):
        return pa.map_(pa.string(), _arrow_type(schema["additionalProperties"], f"{where}{{}}"))
    raise SettingsError(
        f"{where} has no single type in its JSON schema (it says {schema.get('type', 'nothing')}): read the bytes "
        "without value.format, and convert them with from_json"
    )


def _as_dict(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {}


def _fitting(value: Any, kind: Any) -> Any:
    """`value` with the fields of `kind` alone, numbers of a kind that Arrow takes. Raises UnreadableValueError."""
    if value is None:
        return None
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {field.name: _fitting(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind) and isinstance(value, dict):
        return [(name, _fitting(each, kind.item_type)) for name, each in value.items()]
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_fitting(each, kind.value_type) for each in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_floating(kind) and is_number:
        number = float(value)
        if not math.isfinite(number):
            raise UnreadableValueError("it has a number that is infinite or none")
        return number
    if pa.types.is_integer(kind) and is_number and value == int(value):
        return int(value)
    if (pa.types.is_string(kind) and isinstance(value, str)) or (pa.types.is_boolean(kind) and isinstance(value, bool)):
        return value
    raise UnreadableValueError(f"it has {type(value).__name__} where its schema says {kind}")
