"""The largest requests of an API, made from its schema: one array as long as may be. Pure."""

from __future__ import annotations

import dataclasses
import struct
import types
import typing
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from kio.static.constants import EntityType

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import Api
from highwater.kafka.protocol.primitives import unsigned_varint

TOPIC: Final = "bystander"
MOST_BYTES: Final = 99 << 20
"""Below the default of socket.request.max.bytes."""
LONGEST_STRING: Final = 32_767
_FEW: Final = 1_000
_MAKES_TOPICS: Final = ("create_topics",)
"""APIs of which each distinct name is a folder on the disk."""
_DIGITS: Final = b"0000000"
_NUMBER: Final = bytes.fromhex("5afebabe")
_NULLABLE: Final = "nullable"
_PRESENT: Final = b"\x01"
_STRINGS: Final = {
    "group_id": "group",
    "host": "*",
    "protocol_type": "consumer",
    "member_id": "",
    "rack_id": "",
    "mechanism": "PLAIN",
}
_INTEGERS: Final = {
    "acks": 1,
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "pattern_type": 3,
    "operation": 3,
    "permission_type": 3,
    "num_partitions": 1,
    "replication_factor": 1,
    "session_timeout": 10_000,
    "rebalance_timeout": 10_000,
    "timeout": 1_000,
    "replica_id": -1,
    "current_leader_epoch": -1,
    "min_bytes": 0,
    "session_epoch": -1,
    "generation_id_or_member_epoch": -1,
    "iterations": 4096,
    "count": 1,
    "max_num_offsets": 1,
}
_WIDTHS: Final = {
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "error_code": 2,
    "timedelta_i32": 4,
    "bool": 1,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}


class Shape(NamedTuple):
    """One request of a version: what is large in it, and its body."""

    label: str
    body: Callable[[], bytes]


class _Widened(NamedTuple):
    path: tuple[str, ...]
    most: int
    is_distinct: bool


def shapes(api: Api, version: int) -> Iterator[Shape]:
    entity = _entity(api.name, version)
    flexible = api.is_flexible(version)
    for path in _arrays(entity):
        for is_distinct in (True, False):
            most = (api.items_max - 100) // _items_of_one(entity, path)
            count = _FEW if is_distinct and api.name in _MAKES_TOPICS else most
            widened = _Widened(path, count, is_distinct)
            kind = "distinct" if is_distinct else "equal"
            yield Shape(f"{count:,} {kind} {'.'.join(path)}", partial(_body, entity, flexible, widened))
    for path in _leaves(entity, ("string", "bytes", "records")):
        yield Shape(f"long {'.'.join(path)}", partial(_body, entity, flexible, None, path))


def _entity(name: str, version: int) -> type[Any]:
    return cold._entity(name, version, EntityType.request)


def _fields(entity: type[Any]) -> Iterator[tuple[str, Any, str, bool]]:
    """Yield (name, type, Kafka's type, is an array) of each field that has no tag.

    In the place of Kafka's type an entity that may be null has _NULLABLE.
    """
    hints = typing.get_type_hints(entity)
    for field in dataclasses.fields(entity):
        if "tag" in field.metadata:
            continue
        hint, kafka_type = hints[field.name], field.metadata.get("kafka_type", "")
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            hint = next(choice for choice in typing.get_args(hint) if choice is not types.NoneType)
            kafka_type = _NULLABLE if dataclasses.is_dataclass(hint) else kafka_type
        is_array = typing.get_origin(hint) is tuple
        kind = typing.get_args(hint)[0] if is_array else hint
        yield field.name, kind, kafka_type, is_array


def _arrays(entity: type[Any]) -> Iterator[tuple[str, ...]]:
    for name, kind, _, is_array in _fields(entity):
        if is_array:
            yield (name,)
        if dataclasses.is_dataclass(kind):
            for path in _arrays(typing.cast("type[Any]", kind)):
                yield (name, *path)


def _leaves(entity: type[Any], wanted: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, kind, kafka_type, _ in _fields(entity):
        if kafka_type in wanted:
            yield (name,)
        elif dataclasses.is_dataclass(kind):
            for path in _leaves(typing.cast("type[Any]", kind), wanted):
                yield (name, *path)


def _items_of_one(entity: type[Any], path: tuple[str, ...]) -> int:
    """How many items of arrays one item of the array at `path` brings with it, itself included."""
    for name, kind, _, _ in _fields(entity):
        if name == path[0]:
            if len(path) > 1:
                return _items_of_one(kind, path[1:])
            return 1 + (sum(_nested(kind)) if dataclasses.is_dataclass(kind) else 0)
    raise AssertionError(path)


def _nested(entity: Any) -> Iterator[int]:
    for _, kind, _, is_array in _fields(entity):
        yield int(is_array) + (sum(_nested(kind)) if dataclasses.is_dataclass(kind) else 0)


def _body(
    entity: type[Any], flexible: bool, widened: _Widened | None, long: tuple[str, ...] = (), *, numbered: bool = False
) -> bytes:
    out = bytearray()
    for name, kind, kafka_type, is_array in _fields(entity):
        inner = widened._replace(path=widened.path[1:]) if widened is not None and widened.path[0] == name else None
        longer = long[1:] if long and long[0] == name else None
        count = 1
        if inner is not None and not inner.path:
            count, items = _many(name, kind, kafka_type, flexible, inner)
        else:
            items = _one(name, kind, kafka_type, flexible, inner, longer, numbered=numbered)
        if is_array:
            out += unsigned_varint(count + 1) if flexible else struct.pack(">i", count)
        out += items
    return bytes(out) + (b"\0" if flexible else b"")


def _many(name: str, kind: Any, kafka_type: str, flexible: bool, widened: _Widened) -> tuple[int, bytes]:
    item = _one(name, kind, kafka_type, flexible, None, None, numbered=widened.is_distinct)
    count = min(widened.most, MOST_BYTES // len(item))
    if not widened.is_distinct:
        return count, item * count
    numbers = (item.replace(_DIGITS, b"%07d" % at).replace(_NUMBER, at.to_bytes(4, "big")) for at in range(count))
    return count, b"".join(numbers)


def _one(
    name: str,
    kind: Any,
    kafka_type: str,
    flexible: bool,
    widened: _Widened | None,
    long: tuple[str, ...] | None,
    *,
    numbered: bool,
) -> bytes:
    """One value. `long` is the path from here to what is long: empty if it is this one, None if it is elsewhere."""
    if dataclasses.is_dataclass(kind):
        body = _body(typing.cast("type[Any]", kind), flexible, widened, long or (), numbered=numbered)
        return _PRESENT + body if kafka_type == _NULLABLE else body
    match kafka_type:
        case "string":
            if long is not None:
                return _sized(b"x" * (MOST_BYTES if flexible else LONGEST_STRING), flexible, ">h")
            text = f"n{_DIGITS.decode()}" if numbered else TOPIC
            if name in ("principal", "principal_filter"):
                text = f"User:{text}"
            return _sized(_STRINGS.get(name, text).encode(), flexible, ">h")
        case "bytes" | "records":
            return _sized(b"x" * (0 if long is None else MOST_BYTES), flexible, ">i")
        case "uuid":
            return _NUMBER * 4 if numbered else bytes(16)
        case "float64":
            return struct.pack(">d", 1.0)
    width = _WIDTHS[kafka_type]
    if width == 4 and numbered and name not in _INTEGERS:
        return _NUMBER
    return _INTEGERS.get(name, 0).to_bytes(width, "big", signed=True)


def _sized(raw: bytes, flexible: bool, length: str) -> bytes:
    return (unsigned_varint(len(raw) + 1) if flexible else struct.pack(length, len(raw))) + raw
