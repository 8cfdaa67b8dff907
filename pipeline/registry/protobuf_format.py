"""Protobuf: the Arrow type of a message, and values as Python has them. protoc reads the schemas."""

from __future__ import annotations

import base64
import graphlib
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from highwater.common.nearest import did_you_mean
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.registry.wire import UnreadableValueError, reading_schema, reading_value, split_message_path

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_READING: Final = reading_value("Protobuf")
_MAIN: Final = "value.proto"
_IMPORTS: Final = "imports.proto"
_PLAIN: Final = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    # Spark has no unsigned numbers.
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


class ProtobufFormat:
    """Reads values as one message of `reader_schema` has them. What that message lacks is left out.

    Protobuf finds fields by their numbers, so that a value of an older or newer schema can be read as it is.
    """

    def __init__(self, reader_schema: str, references: Mapping[str, str], message: str = "") -> None:
        """references: the imported files by the names that they are imported with. message: by default the first.

        Raises SettingsError.
        """
        with reading_schema("Protobuf"):
            messages = _messages(_compiled(reader_schema, references))
            if not messages:
                raise SettingsError("the registry has a Protobuf schema without a message")
            names = [each.full_name for each in messages.values()]
            wanted = [path for path, each in messages.items() if message in ("", each.name, each.full_name)]
            if not wanted:
                hint = did_you_mean(message, [*names, *(each.name for each in messages.values())])
                raise SettingsError(f"there is no message {message}{hint}; there are {', '.join(names)}")
            self._path = wanted[0]
            self._names = {path: each.full_name for path, each in messages.items()}
            self._class = message_factory.GetMessageClass(messages[self._path])
            self.type = _struct(messages[self._path], (), "the value")

    def decode(self, payload: bytes, writer_schema: str) -> Any:
        """Raises UnreadableValueError, also for another message of the file."""
        path, data = split_message_path(payload)
        if path != self._path:
            it = self._names.get(path, f"message {'.'.join(map(str, path))} of its schema")
            raise UnreadableValueError(f"it is a {it}, and not a {self._names[self._path]}")
        with _READING:
            message = self._class()
            message.ParseFromString(data)
            return _values(message)


def _messages(file: Any) -> dict[tuple[int, ...], Any]:
    """All messages of a file by their paths of indexes, the outer ones first."""
    found: dict[tuple[int, ...], Any] = {}
    level: list[tuple[tuple[int, ...], Any]] = [
        ((index,), each) for index, each in enumerate(file.message_types_by_name.values())
    ]
    while level:
        found.update(level)
        level = [
            ((*path, index), inner)
            for path, outer in level
            for index, inner in enumerate(outer.nested_types)
            if not inner.GetOptions().map_entry
        ]
    return found


def _compiled(main: str, references: Mapping[str, str]) -> Any:
    """The descriptor of the main file. A registry has files as text, or as descriptors in base64."""
    files = {name: _described(text) for name, text in {**references, _MAIN: main}.items()}
    described = {name: each for name, each in files.items() if each is not None}
    texts = {name: text for name, text in {**references, _MAIN: main}.items() if name not in described}
    # What a described file imports, and no reference has, are files that protoc knows.
    imports = sorted({name for each in described.values() for name in each.dependency} - files.keys())
    if imports:
        texts[_IMPORTS] = 'syntax = "proto3";\n' + "".join(f'import public "{name}";\n' for name in imports)
    found = [*(_by_protoc(texts) if texts else ()), *_in_order(described)]
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in found:
            pool.Add(file)
        return pool.FindFileByName(described[_MAIN].name if _MAIN in described else _MAIN)
    except (TypeError, KeyError) as error:
        raise SettingsError(f"the registry has a Protobuf schema whose files do not fit together: {error}") from None


def _described(text: str) -> Any:
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None
    return file if file.name else None


def _in_order(described: Mapping[str, Any]) -> list[Any]:
    """Files after those that they import."""
    order = graphlib.TopologicalSorter({name: set(each.dependency) for name, each in described.items()})
    return [described[name] for name in order.static_order() if name in described]


def _by_protoc(texts: Mapping[str, str]) -> list[Any]:
    # An import of some 50 ms, for those alone who read Protobuf.
    import grpc_tools
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        for name, text in texts.items():
            path = Path(folder, name)
            if not path.resolve().is_relative_to(Path(folder).resolve()):
                raise SettingsError(f"the registry has a Protobuf schema that imports {name}, outside of its folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        found = Path(folder, "found")
        known = Path(grpc_tools.__file__).parent / "_proto"
        options = (f"-I{folder}", f"-I{known}", "--include_imports", f"--descriptor_set_out={found}")
        if protoc.main(["protoc", *options, *(name for name in (_MAIN, _IMPORTS) if name in texts)]) != 0:
            raise SettingsError("the registry has a Protobuf schema that protoc refuses; what it says stands above")
        return list(descriptor_pb2.FileDescriptorSet.FromString(found.read_bytes()).file)


def _struct(descriptor: Any, around: tuple[str, ...], where: str) -> Any:
    if descriptor.full_name in around:
        raise SettingsError(f"{where} is a {descriptor.full_name}, which contains itself; Spark has no such columns")
    if not descriptor.fields:
        raise SettingsError(f"{where} is a {descriptor.full_name} without fields; Spark has no such columns")
    inside = (*around, descriptor.full_name)
    return pa.struct([pa.field(each.name, _field(each, inside, f"{where}.{each.name}")) for each in descriptor.fields])


def _field(field: Any, around: tuple[str, ...], where: str) -> Any:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_one(entry["key"], around, where), _one(entry["value"], around, where))
    found = _one(field, around, where)
    return pa.list_(found) if field.is_repeated else found


def _one(field: Any, around: tuple[str, ...], where: str) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if field.message_type.full_name == _TIMESTAMP:
            return pa.timestamp("us", tz="UTC")
        return _struct(field.message_type, around, where)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
    return _PLAIN[field.cpp_type]


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return bool(kind is not None and kind.GetOptions().map_entry)


def _values(message: Any) -> dict[str, Any]:
    """The values of all fields; null where a field knows that it was not set."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            of = field.message_type.fields_by_name["value"]
            found[field.name] = [(key, _value(of, each)) for key, each in value.items()]
        elif field.is_repeated:
            found[field.name] = [_value(field, each) for each in value]
        else:
            is_null = field.has_presence and not message.HasField(field.name)
            found[field.name] = None if is_null else _value(field, value)
    return found


def _value(field: Any, value: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if field.message_type.full_name == _TIMESTAMP:
            return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        return _values(value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value
