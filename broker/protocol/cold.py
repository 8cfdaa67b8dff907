"""The codecs of the APIs that are not hot: kio's generated classes, loaded when a version is first asked for.

An answer is written as plain mappings and sequences with kio's field names, the same for every version: fields that a
version does not have are left out, fields that are absent take the schema's default or Kafka's implicit one
(zero, empty, null). A name that not even the newest version knows is a bug and raises.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import io
import types
import typing
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import DecodeError, OutOfBoundValue
from kio.static.constants import EntityType

from broker.protocol.primitives import MalformedRequestError

Answer = dict[str, Any]
_ABSENT: Final = object()


def decode_request(schema: str, version: int, body: memoryview, position: int) -> Any:
    """A request of the named schema (kio's spelling, such as "create_topics")."""
    raw = bytes(body[position:])  # kio reads immutable buffers only
    try:
        request, size = _reader(schema, version)(raw, 0)
    except (DecodeError, OutOfBoundValue, ValueError, OverflowError, IndexError) as error:
        raise MalformedRequestError(f"not a {schema} request of version {version}: {error}") from None
    if size > len(raw):
        raise MalformedRequestError(f"not a {schema} request of version {version}: it ends early")
    return request


def encode_response(schema: str, version: int, answer: Answer) -> bytes:
    build, write = _writer(schema, version)
    buffer = io.BytesIO()
    write(buffer, build(answer))
    return buffer.getvalue()


@functools.cache
def _entity(schema: str, version: int, kind: EntityType) -> type[Any]:
    module_name, class_name = schema_name_map[schema][version][kind].split(":")  # type: ignore[index]
    entity: type[Any] = getattr(import_module(module_name), class_name)
    return entity


@functools.cache
def _reader(schema: str, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reader(_entity(schema, version, EntityType.request))


@functools.cache
def _writer(schema: str, version: int) -> tuple[Callable[[Any], Any], Callable[[io.BytesIO, Any], None]]:
    newest = _entity(schema, max(schema_name_map[schema]), EntityType.response)
    entity = _entity(schema, version, EntityType.response)
    return _builder(entity, newest), entity_writer(entity)


Build = Callable[[Any], Any]


def _builder(entity: type[Any], newest: type[Any]) -> Build:
    """A function that makes an `entity` out of a mapping. `newest` is its class in the newest version."""
    builds: dict[str, tuple[Build, object]] = {}
    hints = typing.get_type_hints(entity)
    newest_hints = typing.get_type_hints(newest)
    for field in dataclasses.fields(entity):
        hint = hints[field.name]
        build = _field_builder(hint, newest_hints.get(field.name, hint))
        default = field.default if field.default is not dataclasses.MISSING else _implicit_default(hint)
        builds[field.name] = (build, default)
    known = set(builds) | {field.name for field in dataclasses.fields(newest)}

    def build_entity(values: Any) -> Any:
        if not known.issuperset(values):
            raise TypeError(f"{newest.__name__} has no field {', '.join(sorted(set(values) - known))}")
        arguments = {}
        for name, (build, default) in builds.items():
            value = values.get(name, _ABSENT)
            arguments[name] = default if value is _ABSENT else None if value is None else build(value)
        return entity(**arguments)

    return build_entity


def _field_builder(hint: Any, newest_hint: Any) -> Build:
    hint, newest_hint = _not_none(hint), _not_none(newest_hint)
    if typing.get_origin(hint) is tuple:
        item = _field_builder(typing.get_args(hint)[0], typing.get_args(newest_hint)[0])

        def build_array(values: Iterable[Any]) -> tuple[Any, ...]:
            return tuple(item(value) for value in values)

        return build_array
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _builder(hint, newest_hint)
    if issubclass(hint, datetime.timedelta):
        return lambda milliseconds: datetime.timedelta(milliseconds=milliseconds)
    return lambda value: value


def _not_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(choice for choice in typing.get_args(hint) if choice is not types.NoneType)
    return hint


def _implicit_default(hint: Any) -> object:
    if type(None) in typing.get_args(hint):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    for kind, default in (
        (ErrorCode, ErrorCode.none),
        (bool, False),
        (datetime.timedelta, datetime.timedelta()),
        (UUID, None),
        (str, ""),
        (bytes, b""),
        (int, 0),
    ):
        if issubclass(hint, kind):
            return default
    raise TypeError(f"no implicit default for {hint}")
