"""Codecs of the APIs that are not hot: kio's classes, loaded when a version is first needed.

Versions that kio lacks are made from those that it has, by kafka.protocol.derived_schemas; APIs that it lacks stand in
highwater.kafka.protocol.cluster_schemas.

Requests are read and answers written along kio's schemas, and not by kio: its reader (0.6) reserves memory for as many
items as an array claims, and a count of some billions aborts the process; its writer needs an object of each item,
takes 2.7 times as long and does not give way, and both take a start 7 ms to import.

An answer is written as plain mappings and sequences with kio's field names, the same for every version: fields that a
version does not have are left out, fields that are absent take the schema's default or Kafka's implicit one
(zero, empty, null). A name that no version knows is a bug and raises.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import struct
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from kio.schema.index import schema_name_map
from kio.static.constants import EntityType

from highwater.common.log_lines import bounded
from highwater.kafka.arrays import array
from highwater.kafka.pacing import each, paced
from highwater.kafka.protocol import derived_schemas
from highwater.kafka.protocol.primitives import (
    ZERO_UUID,
    Decoder,
    MalformedRequestError,
    array_length,
    bytes_length,
    error_code_of,
    nullable_string,
    string,
    unsigned_varint,
)

Answer = dict[str, Any]
_ABSENT: Final = object()
_MESSAGE: Final = "error_message"
"""It may quote what a client sent, which may be longer than a string of an answer can be."""
_FLOAT64: Final = struct.Struct(">d")


def milliseconds(duration: datetime.timedelta) -> int:
    """A time-out of a request, as the rest of the broker counts it."""
    return duration // datetime.timedelta(milliseconds=1)


def decode_request(schema: str, version: int, decoder: Decoder) -> Any:
    """A request of the named schema (kio's spelling, such as "create_topics")."""
    return _reader(schema, version, EntityType.request)(decoder)


def encode_response(schema: str, version: int, answer: Answer) -> bytes:
    return _writer(schema, version, EntityType.response)(answer)


def encode_request(schema: str, version: int, fields: Answer) -> bytes:
    """What a client sends, written as answers are."""
    return _writer(schema, version, EntityType.request)(fields)


def decode_response(schema: str, version: int, decoder: Decoder) -> Any:
    """What a client reads. A point in time is left as it is sent, in ms, as it may be the -1 of none at all."""
    return _reader(schema, version, EntityType.response)(decoder)


def prepare(schema: str, version: int) -> None:
    """Load what a broker needs for one version of an API, so that its first request does not wait for that."""
    _reader(schema, version, EntityType.request)
    _writer(schema, version, EntityType.response)


def response_type(schema: str, version: int) -> type[Any]:
    """kio's class of an answer."""
    return _entity(schema, version, EntityType.response)


@functools.cache
def _entity(schema: str, version: int, kind: EntityType) -> type[Any]:
    base = derived_schemas.base_version(schema, version)
    if base is not None:
        return derived_schemas.derive(schema, version, kind, _entity(schema, base, kind))
    if schema not in schema_name_map:
        from highwater.kafka.protocol import cluster_schemas  # here, as only brokers of a cluster exchange them

        return cluster_schemas.entity(schema, version, kind)
    module_name, class_name = schema_name_map[schema][version][kind].split(":")  # type: ignore[index]
    entity: type[Any] = getattr(import_module(module_name), class_name)
    return entity


Read = Callable[[Decoder], Any]


@functools.cache
def _reader(schema: str, version: int, kind: EntityType) -> Read:
    return _entity_reader(_entity(schema, version, kind))


def _entity_reader(entity: type[Any]) -> Read:
    fields: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    for field in dataclasses.fields(entity):
        entry = (field.name, _field_reader(field.type, field.metadata.get("kafka_type", "")))
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = entry
        else:
            fields.append(entry)

    def read_entity(decoder: Decoder) -> Any:
        values = {name: read(decoder) for name, read in fields}
        if decoder.flexible:
            for tag, section in decoder.tags():
                if tag in tagged:
                    name, read = tagged[tag]
                    values[name] = read(section)
        return entity(**values)

    return read_entity


def _field_reader(hint: Any, kafka_type: str) -> Read:
    is_nullable = type(None) in typing.get_args(hint)
    hint = _not_none(hint)
    if typing.get_origin(hint) is tuple and kafka_type == "int32":
        return Decoder.int32_array if is_nullable else _read_int32_array
    if typing.get_origin(hint) is tuple:
        read_item = _field_reader(typing.get_args(hint)[0], kafka_type)

        def read_array(decoder: Decoder) -> tuple[Any, ...] | None:
            count = decoder.array_length()
            if count >= 0:
                return array([read_item(decoder) for _ in each(range(count))])
            if is_nullable:
                return None
            raise MalformedRequestError(f"an array before byte {decoder.position} is null where it must not be")

        return read_array
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        read_entity = _entity_reader(hint)
        if not is_nullable:
            return read_entity
        return lambda decoder: None if decoder.int8() < 0 else read_entity(decoder)
    if kafka_type == "string" and is_nullable:
        return Decoder.nullable_string
    return _PRIMITIVES[kafka_type]


def _read_uuid(decoder: Decoder) -> UUID | None:
    value = decoder.uuid()
    return None if value == ZERO_UUID else value


def _read_int32_array(decoder: Decoder) -> tuple[int, ...]:
    values = decoder.int32_array()
    if values is None:
        raise MalformedRequestError(f"an array before byte {decoder.position} is null where it must not be")
    return values


def _read_bytes(decoder: Decoder) -> bytes:
    value = decoder.copied_bytes()
    if value is None:
        raise MalformedRequestError(f"bytes before byte {decoder.position} are null where they must not be")
    return value


def _read_long_timedelta(decoder: Decoder) -> datetime.timedelta:
    """A time-out longer than timedelta can hold is as good as its longest."""
    return datetime.timedelta(milliseconds=max(-_MAX_TIMEDELTA_MS, min(decoder.int64(), _MAX_TIMEDELTA_MS)))


_MAX_TIMEDELTA_MS: Final = datetime.timedelta.max // datetime.timedelta(milliseconds=1)

_PRIMITIVES: Final[dict[str, Read]] = {
    "bool": Decoder.boolean,
    "bytes": _read_bytes,
    "datetime_i64": Decoder.int64,
    "error_code": lambda decoder: error_code_of(decoder.int16()),
    "float64": lambda decoder: decoder.fields(_FLOAT64)[0],
    "int8": Decoder.int8,
    "int16": Decoder.int16,
    "int32": Decoder.int32,
    "int64": Decoder.int64,
    "records": Decoder.nullable_bytes,
    "string": Decoder.string,
    "timedelta_i64": _read_long_timedelta,
    "timedelta_i32": lambda decoder: datetime.timedelta(milliseconds=decoder.int32()),
    "uuid": _read_uuid,
}
"""What requests and answers of the APIs in our table consist of."""


Write = Callable[[bytearray, Any], None]


@functools.cache
def _writer(schema: str, version: int, kind: EntityType) -> Callable[[Answer], bytes]:
    def other_versions() -> Iterator[type[Any]]:
        if schema in schema_name_map:
            versions = (*derived_schemas.versions(schema), *schema_name_map[schema])
        else:
            from highwater.kafka.protocol import cluster_schemas

            versions = tuple(cluster_schemas.versions(schema))
        for other in sorted(versions, reverse=True):
            yield _entity(schema, other, kind)

    write = _entity_writer(_entity(schema, version, kind), other_versions)

    return functools.partial(_written, write)


Hints = Callable[[], Iterator[Any]]
"""What stands in the place of a type in all versions, the newest first. Each is loaded when it is come to: that takes
milliseconds, and most answers need none."""


def _entity_writer(entity: type[Any], every_version: Hints) -> Write:
    fields: list[tuple[str, Write, bytes]] = []
    tagged: list[tuple[int, str, Write, bytes]] = []
    is_flexible = entity.__flexible__
    for field in dataclasses.fields(entity):
        kafka_type = field.metadata.get("kafka_type", "")
        hints = functools.partial(_hints_of_field, every_version, field.name)
        write = _field_writer(field.type, kafka_type, is_flexible, hints)
        if field.name == _MESSAGE:
            write = _bounded_writer(write)
        default = _written(write, _default(field, kafka_type))
        if "tag" in field.metadata:
            tagged.append((field.metadata["tag"], field.name, write, default))
        else:
            fields.append((field.name, write, default))
    tagged.sort(key=itemgetter(0))
    known = {field.name for field in dataclasses.fields(entity)}

    def check_names(names: Iterable[str]) -> None:
        unknown = set(names) - known
        for other in every_version():
            known.update(field.name for field in dataclasses.fields(other))
            if known >= unknown:
                return
        raise TypeError(f"{entity.__name__} has no field {', '.join(sorted(unknown - known))}")

    def write_entity(output: bytearray, values: Any) -> None:
        if not known.issuperset(values):
            check_names(values)
        for name, write, default in fields:
            value = values.get(name, _ABSENT)
            if value is _ABSENT:
                output += default
            else:
                write(output, value)
        if is_flexible:
            sections = []
            for tag, name, write, default in tagged:
                # What has its default is not sent.
                if name in values and (section := _written(write, values[name])) != default:
                    sections.append(unsigned_varint(tag) + unsigned_varint(len(section)) + section)
            output += unsigned_varint(len(sections)) + b"".join(sections)

    return write_entity


def _written(write: Write, value: object) -> bytes:
    output = bytearray()
    write(output, value)
    return bytes(output)


def _bounded_writer(write: Write) -> Write:
    return lambda output, text: write(output, text and bounded(text))


def _hints_of_field(every_version: Hints, name: str) -> Iterator[Any]:
    for entity in every_version():
        if name in entity.__dataclass_fields__:
            yield _not_none(entity.__dataclass_fields__[name].type)


def _hints_of_items(every_version: Hints) -> Iterator[Any]:
    for hint in every_version():
        yield _not_none(typing.get_args(hint)[0])


def _field_writer(hint: Any, kafka_type: str, is_flexible: bool, every_version: Hints) -> Write:
    is_nullable = type(None) in typing.get_args(hint)
    hint = _not_none(hint)
    if typing.get_origin(hint) is tuple:
        items = functools.partial(_hints_of_items, every_version)
        return _array_writer(_field_writer(typing.get_args(hint)[0], kafka_type, is_flexible, items), is_flexible)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        write_entity = _entity_writer(hint, every_version)
        return _nullable_writer(write_entity) if is_nullable else write_entity
    if kafka_type == "string":
        encode = nullable_string if is_nullable else string
        return lambda output, text: output.extend(encode(text, is_flexible))
    if kafka_type in ("bytes", "records"):
        return functools.partial(_write_bytes, is_flexible)
    if kafka_type == "uuid":
        return lambda output, value: output.extend((value or ZERO_UUID).bytes)
    pack = struct.Struct(_FORMATS[kafka_type]).pack
    if kafka_type == "datetime_i64" and is_nullable:
        return lambda output, value: output.extend(pack(-1 if value is None else value))
    return lambda output, value: output.extend(pack(value))


def _array_writer(write_item: Write, is_flexible: bool) -> Write:
    def write_array(output: bytearray, values: Iterable[Any] | None) -> None:
        if values is None:
            output += array_length(-1, is_flexible)
            return
        items = tuple(values)  # others may change what is theirs, once this gives way
        output += array_length(len(items), is_flexible)
        for item in paced(items):
            write_item(output, item)

    return write_array


def _nullable_writer(write_entity: Write) -> Write:
    """KIP-893."""

    def write(output: bytearray, values: Any) -> None:
        output += b"\xff" if values is None else b"\1"
        if values is not None:
            write_entity(output, values)

    return write


def _write_bytes(is_flexible: bool, output: bytearray, value: Any) -> None:
    output += bytes_length(-1 if value is None else len(value), is_flexible)
    output += value or b""


_FORMATS: Final = {
    "bool": ">?",
    "error_code": ">h",
    "float64": ">d",
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "timedelta_i32": ">i",
    "timedelta_i64": ">q",
    "datetime_i64": ">q",
}


def _default(field: dataclasses.Field[Any], kafka_type: str) -> object:
    """The schema's default or the implicit one, as an answer has it."""
    default = field.default
    if default is dataclasses.MISSING:
        hint = field.type
        if type(None) in typing.get_args(hint):
            return None
        if typing.get_origin(hint) is tuple:
            return ()
        if dataclasses.is_dataclass(hint):
            return {}
        return {"string": "", "bytes": b"", "records": b"", "uuid": None}.get(kafka_type, 0)
    if dataclasses.is_dataclass(default):
        return {}
    if isinstance(default, datetime.timedelta):
        return milliseconds(default)
    return default


def _not_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(choice for choice in typing.get_args(hint) if choice is not types.NoneType)
    return hint
