"""Answers with an error, made from the request along kio's schemas; answers decoded and changed.

An error stands where Kafka puts it: those of the coordinator, the controller or a fetch session concern the whole
request, and stand as far out as the schema has a place; all others stand with each partition, topic, group or resource
that the request names, and as far in as that goes.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import API_VERSIONS, Api
from highwater.kafka.protocol.frame import frame_response
from highwater.kafka.protocol.primitives import Decoder

_ERRORS: Final = ("error_code", "partition_error_code")
_OF_THE_WHOLE: Final = frozenset(
    (
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_controller,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    )
)
_KEYS: Final = (
    *("partition_index", "partition_id", "partition", "index", "name", "topic", "topic_name", "topic_id", "key"),
    *("group_id", "transactional_id", "member_id", "group_instance_id", "user", "resource_type", "resource_name"),
    *("producer_id", "entity_type", "entity_name"),
)
"""What an answer repeats of the request, so that the client knows whose error it is."""
_SAME: Final = (
    frozenset(("partition_index", "partition_id", "partition", "index")),
    frozenset(("name", "topic", "topic_name", "user")),
)
"""Names of the same thing in a request and in its answer."""
_UNKNOWN: Final = frozenset(
    (
        *("base_offset", "high_watermark", "last_stable_offset", "log_start_offset", "offset", "committed_offset"),
        *("low_watermark", "end_offset", "leader_epoch", "node_id", "port", "generation_id", "producer_id"),
        *("producer_epoch", "timestamp"),
    )
)
"""Numbers that are −1 beside an error."""
_SOURCES: Final[dict[tuple[str, str], Callable[[Any], Iterable[Any]]]] = {
    ("alter_replica_log_dirs", "results"): lambda request: [topic for each in request.dirs for topic in each.topics],
    ("alter_user_scram_credentials", "results"): lambda request: [*request.deletions, *request.upsertions],
    ("describe_log_dirs", "results"): lambda request: [None],
}
"""The items of a request that the items of an answer stand for, where the schemas do not say it."""


def names_topics(request: Any) -> Iterator[Any]:
    """Yield the topics in a decoded request: names, or ids from the versions on that have ids alone."""
    for field in dataclasses.fields(request):
        value = getattr(request, field.name)
        if not isinstance(value, tuple):
            continue
        for item in value:
            if "topic" in field.name:
                name = next(
                    (found for key in ("name", "topic", "topic_id") if (found := getattr(item, key, None))), item
                )
                yield name
            elif dataclasses.is_dataclass(item):
                yield from names_topics(item)
            elif field.name == "resources" and item.resource_type == 2:
                yield item.resource_name


def decode_request(api: Api, version: int, frame: memoryview, body_position: int) -> Any:
    """Raises MalformedRequestError."""
    decoder = Decoder(frame, body_position, flexible=api.is_flexible(version))
    decoder.skip_tags()
    return cold.decode_request(api.name, version, decoder)


def refused(api: Api, version: int, correlation_id: int, request: Any, error: ErrorCode) -> bytes | None:
    """Return the answer that refuses a request with `error`; None if the request names nothing that could have it."""
    if api.key == API_VERSIONS and error is ErrorCode.unsupported_version:
        # The client does not know a newer format then (KIP-511).
        versions = [{"api_key": API_VERSIONS, "min_version": 0, "max_version": 0}]
        body = cold.encode_response(api.name, 0, {"error_code": error, "api_keys": versions})
        return b"".join(frame_response(correlation_id, [body], flexible_header=False))
    answer_type = entity_of(api, version)
    values = _skeleton(api.name, answer_type, request, is_item=False)
    answer, _ = entity_reader(answer_type)(cold.encode_response(api.name, version, values), 0)
    changed, count = with_error(answer, error)
    return encoded(api, version, correlation_id, changed) if count else None


def entity_of(api: Api, version: int) -> type[Any]:
    return cold.response_type(api.name, version)


def rewritten(api: Api, version: int, answer: bytes, change: Callable[[Any], Any]) -> bytes:
    """Decode a whole answer, change it and encode it again."""
    entity_type = entity_of(api, version)
    position = 9 if _has_flexible_header(api, version) else 8
    entity, _ = entity_reader(entity_type)(answer, position)
    return encoded(api, version, int.from_bytes(answer[4:8], "big", signed=True), change(entity))


def encoded(api: Api, version: int, correlation_id: int, entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    flexible_header = _has_flexible_header(api, version)
    return b"".join(frame_response(correlation_id, [buffer.getvalue()], flexible_header=flexible_header))


def _has_flexible_header(api: Api, version: int) -> bool:
    return api.is_flexible(version) and api.key != API_VERSIONS


def with_error(answer: Any, error: ErrorCode) -> tuple[Any, int]:
    """Return the answer with the error in its places, and how many these are."""
    own = next((name for name in _ERRORS if name in answer.__dataclass_fields__), None)
    inner = {
        field.name: getattr(answer, field.name) or ()
        for field in dataclasses.fields(answer)
        if (item := item_of(type(answer), field.name)) is not None and _has_error(item)
    }
    if own is not None and error in _OF_THE_WHOLE:
        return dataclasses.replace(answer, **dict.fromkeys(inner, ()), **{own: error}), 1
    count = 0
    changes: dict[str, Any] = {}
    # A topic of Metadata has the error for its partitions too.
    for name, items in {} if "is_internal" in answer.__dataclass_fields__ else inner.items():
        pairs = [with_error(item, error) for item in items]
        changes[name] = tuple(item for item, _ in pairs)
        count += sum(each for _, each in pairs)
    if not count and own is not None:
        changes, count = {own: error}, 1
    return dataclasses.replace(answer, **changes), count


def _skeleton(api: str, entity: type[Any], request: Any, *, is_item: bool) -> dict[str, Any]:
    """The answer's fields without an error, with the items that the request names."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        item = item_of(entity, field.name)
        if item is not None:
            same = getattr(request, field.name, None)
            if _has_error(item):
                sources = _SOURCES.get((api, field.name), lambda found, name=field.name: _source(found, name))
                values[field.name] = [_skeleton(api, item, each, is_item=True) for each in sources(request)]
            elif isinstance(same, tuple) and same and set(_fields(item)) <= set(_fields(type(same[0]))):
                values[field.name] = [{name: getattr(each, name) for name in _fields(item)} for each in same]
        elif field.name in _KEYS and (is_item or field.name == "member_id"):
            value = _key(request, field.name)
            if value is not None:
                values[field.name] = value
        elif field.metadata.get("kafka_type") == "records":
            values[field.name] = b""  # librdkafka refuses null
        if field.name in _UNKNOWN and field.name not in values and "int" in field.metadata.get("kafka_type", ""):
            values[field.name] = -1
    return values


def _source(request: Any, name: str) -> Iterable[Any]:
    """The array of the request that an array of the answer goes over: of the same name, or else the first."""
    if not dataclasses.is_dataclass(request):
        return ()
    arrays = {
        field.name: value
        for field in dataclasses.fields(request)
        if isinstance(value := getattr(request, field.name), tuple)
    }
    return arrays.get(name, next(iter(arrays.values()), ()))


def _key(item: Any, name: str) -> Any:
    if not dataclasses.is_dataclass(item):
        wanted = int if name in _SAME[0] else str
        return item if isinstance(item, wanted) and name != "producer_id" else None
    names = (name, *next((same - {name} for same in _SAME if name in same), ()))
    return next((value for each in names if (value := getattr(item, each, None)) is not None), None)


def _fields(entity: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(entity)) if dataclasses.is_dataclass(entity) else ()


def item_of(entity: Any, name: str) -> type[Any] | None:
    """The type of the items of an array; None for what is no array of entities."""
    hint = _hints(entity)[name]
    array = next((each for each in (hint, *typing.get_args(hint)) if typing.get_origin(each) is tuple), None)
    item = None if array is None else typing.get_args(array)[0]
    return item if isinstance(item, type) and dataclasses.is_dataclass(item) else None


@functools.cache
def _hints(entity: Any) -> dict[str, Any]:
    return typing.get_type_hints(entity)


def _has_error(entity: type[Any]) -> bool:
    if any(name in entity.__dataclass_fields__ for name in _ERRORS):
        return True
    return any((item := item_of(entity, name)) is not None and _has_error(item) for name in _fields(entity))
