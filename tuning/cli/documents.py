"""JSON output of the verbs: dataclasses, and the JSON Schemas derived from their types.

The schemas are shipped in tuning/schemas/; a test compares them with the dataclasses.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import typer

from ..facts.model import BlockDevice, Facts, Mount
from ..hostfiles import readable

# Fields that `Facts.as_json` leaves out, and properties that it adds.
_NOT_WRITTEN: Final[dict[type, tuple[str, ...]]] = {Facts: ("files",)}
_WRITTEN_TOO: Final[dict[type, tuple[str, ...]]] = {
    BlockDevice: ("medium",),
    Facts: ("cpu_count",),
    Mount: ("options",),
}
_PRIMITIVES: Final[dict[Any, dict[str, Any]]] = {
    Any: {},
    types.NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
}


def print_document(document: Any) -> None:
    """Print a document as JSON on standard output. It is a dataclass; its field `schema` names its kind."""
    print_verbatim(readable(json.dumps(_plain(document), indent=2, ensure_ascii=False)) + "\n")


def print_verbatim(text: str) -> None:
    """Print text for programs and shells, in UTF-8 whatever the terminal's encoding is, and bytes of files as such."""
    typer.echo(text.encode(errors="surrogateescape"), nl=False)


def json_schema(document: type) -> dict[str, Any]:
    """The JSON Schema of a document's class; its title is the value of the field `schema`."""
    (kind,) = get_args(get_type_hints(document)["schema"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind} | _schema(document)


def _plain(value: Any) -> Any:
    if isinstance(value, Facts):
        return value.as_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, frozenset)):
        return [_plain(item) for item in value]
    return value


def _schema(annotation: Any) -> dict[str, Any]:
    if annotation in _PRIMITIVES:
        return dict(_PRIMITIVES[annotation])
    if dataclasses.is_dataclass(annotation) or hasattr(annotation, "_fields"):
        return _object(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return {"enum": list(arguments)} if len(arguments) > 1 else {"const": arguments[0]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(argument) for argument in arguments]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    if isinstance(origin, type) and issubclass(origin, (Sequence, frozenset)):
        return {"type": "array", "items": _schema(arguments[0])}
    raise TypeError(f"no JSON Schema for {annotation}")


def _object(kind: Any) -> dict[str, Any]:
    """The schema of a dataclass or a named tuple; for facts, the schema of what `Facts.as_json` returns."""
    hints = get_type_hints(kind)
    names = [item.name for item in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(kind._fields)
    properties = {name: _schema(hints[name]) for name in names if name not in _NOT_WRITTEN.get(kind, ())}
    for name in _WRITTEN_TOO.get(kind, ()):
        properties[name] = _schema(get_type_hints(getattr(kind, name).fget)["return"])
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
