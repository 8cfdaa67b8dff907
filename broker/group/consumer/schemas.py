"""The records of a consumer group in `__consumer_offsets`, as Apache Kafka 4.4 writes them.

A key begins with an i16, its kind; then come the group id and, in most kinds, a member id or a regular expression. A
value begins with i16 0, its version, which is flexible (KIP-482). A null value is a tombstone.

    kind                  name       value
     3 GROUP              -          epoch i32; tag 0 hash of the subscribed topics i64
     4 PARTITIONS         -          of Kafka 4.0 and before: never written
     5 MEMBER             member     instance id?, rack id?, client id, client host, topic names, regular expression?,
                                     rebalance timeout i32, assignor?; tag 0 of a classic member?: session timeout i32,
                                     protocols [name, metadata]
     6 TARGET             -          epoch i32; tag 0 timestamp i64
     7 MEMBER_TARGET      member     [topic id, [partition i32]]
     8 CURRENT            member     epoch i32, previous epoch i32, state i8, assigned, pending revocation, both
                                     [topic id, [partition i32]; tag 0 the epochs they were assigned at [i32]?]
    16 REGEX              pattern    topic names, version of the metadata i64, timestamp i64

The schemas are ConsumerGroup*Key.json and ConsumerGroup*Value.json.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from highwater.broker.group.assignors.assignor import Assignment
from highwater.kafka.protocol.primitives import (
    NO_TAGS,
    Decoder,
    MalformedRequestError,
    array_length,
    bytes_length,
    int32_array,
    nullable_string,
    string,
    unsigned_varint,
)
from highwater.kafka.records.batch import CorruptBatch

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_TWO_INT64: Final = struct.Struct(">qq")
_CURRENT_HEAD: Final = struct.Struct(">iib")
_VERSION: Final = 0


class RecordKind(IntEnum):
    GROUP = 3
    PARTITIONS = 4
    MEMBER = 5
    TARGET = 6
    MEMBER_TARGET = 7
    CURRENT = 8
    REGEX = 16


class Key(NamedTuple):
    kind: RecordKind
    group_id: str
    name: str = ""
    """The member id or the regular expression; empty in kinds that a group has one of."""


class GroupEpoch(NamedTuple):
    epoch: int
    metadata_hash: int = 0
    """A hash of the topics that the members subscribe to."""


class ClassicProtocol(NamedTuple):
    name: str
    metadata: bytes


class ClassicMember(NamedTuple):
    """What a member has that still speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class ConsumerMember(NamedTuple):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    """A regular expression for topics; empty for none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None


class TargetEpoch(NamedTuple):
    epoch: int
    timestamp_ms: int = 0


class MemberTarget(NamedTuple):
    partitions: Assignment


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


Held = Mapping[UUID, Mapping[int, int]]
"""Partitions of a member, each with the epoch at which it was assigned (KIP-1251). Nobody changes one."""

NOTHING_HELD: Final[Held] = MappingProxyType({})


class CurrentAssignment(NamedTuple):
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Held = NOTHING_HELD
    pending: Held = NOTHING_HELD
    """The partitions that the member must give up."""


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class PartitionMetadata(NamedTuple):
    """What Kafka 4.0 and before kept of the topics: read, so that it can be removed, and not looked at."""


Value = GroupEpoch | PartitionMetadata | ConsumerMember | TargetEpoch | MemberTarget | CurrentAssignment | ResolvedRegex


class GroupRecord(NamedTuple):
    key: Key
    value: Value | None
    """None for a tombstone."""


_OF_GROUP: Final = frozenset((RecordKind.GROUP, RecordKind.PARTITIONS, RecordKind.TARGET))
"""The kinds whose keys name nothing but the group."""


def encode_key(key: Key) -> bytes:
    name = b"" if key.kind in _OF_GROUP else string(key.name, False)
    return _INT16.pack(key.kind) + string(key.group_id, False) + name


def encode_value(value: Value) -> bytes:
    return _INT16.pack(_VERSION) + _encode(value)


def decode_key(data: bytes) -> Key | None:
    """Return the key, or None for a key of another kind. Raises CorruptBatch."""
    decoder = Decoder(memoryview(data))
    try:
        kind = decoder.int16()
        if kind not in _READERS:
            return None
        return Key(RecordKind(kind), decoder.string(), "" if kind in _OF_GROUP else decoder.string())
    except MalformedRequestError as error:
        raise CorruptBatch(f"the key of a consumer group's record cannot be read: {error}") from None


def decode_value(kind: RecordKind, data: bytes) -> Value:
    """Raises CorruptBatch."""
    decoder = Decoder(memoryview(data))
    try:
        version = decoder.int16()
        if version != _VERSION:
            raise CorruptBatch(f"version {version} of a consumer group's record {kind} is not known")
        decoder.flexible = True
        return _READERS[kind](decoder)
    except (MalformedRequestError, ValueError) as error:
        raise CorruptBatch(f"a consumer group's record {kind} cannot be read: {error}") from None


# Values written


def _encode(value: Value) -> bytes:
    if isinstance(value, GroupEpoch):
        return _INT32.pack(value.epoch) + _optional_int64(value.metadata_hash)
    if isinstance(value, TargetEpoch):
        return _INT32.pack(value.epoch) + _optional_int64(value.timestamp_ms)
    if isinstance(value, ConsumerMember):
        return _member(value)
    if isinstance(value, MemberTarget):
        return _topics((topic, sorted(indexes), NO_TAGS) for topic, indexes in value.partitions.items()) + NO_TAGS
    if isinstance(value, CurrentAssignment):
        head = _CURRENT_HEAD.pack(value.epoch, value.previous_epoch, value.state)
        return head + _held(value.assigned) + _held(value.pending) + NO_TAGS
    if isinstance(value, ResolvedRegex):
        return _strings(value.topics) + _TWO_INT64.pack(value.version, value.timestamp_ms) + NO_TAGS
    return array_length(0, True) + NO_TAGS


def _optional_int64(value: int) -> bytes:
    """The tagged field 0, which is left out if it is 0."""
    return _tag_0(_INT64.pack(value)) if value else NO_TAGS


def _tag_0(content: bytes) -> bytes:
    return b"\x01\x00" + unsigned_varint(len(content)) + content


def _strings(values: Iterable[str]) -> bytes:
    names = sorted(values)
    return array_length(len(names), True) + b"".join([string(name, True) for name in names])


def _member(member: ConsumerMember) -> bytes:
    return b"".join(
        (
            nullable_string(member.instance_id, True),
            nullable_string(member.rack_id, True),
            string(member.client_id, True),
            string(member.client_host, True),
            _strings(member.topics),
            string(member.regex, True),
            _INT32.pack(member.rebalance_timeout_ms),
            nullable_string(member.assignor, True),
            _tag_0(b"\x00" if member.classic is None else _classic(member.classic)),
        )
    )


def _classic(classic: ClassicMember) -> bytes:
    # A byte says whether the structure is there. Kafka writes it in any case.
    protocols = [
        string(name, True) + bytes_length(len(metadata), True) + metadata + NO_TAGS
        for name, metadata in classic.protocols
    ]
    head = b"\x01" + _INT32.pack(classic.session_timeout_ms) + array_length(len(protocols), True)
    return head + b"".join(protocols) + NO_TAGS


def _held(held: Held) -> bytes:
    return _topics(
        (topic, sorted(epochs), _tag_0(int32_array([epochs[index] for index in sorted(epochs)], True)))
        for topic, epochs in held.items()
    )


def _topics(topics: Iterable[tuple[UUID, list[int], bytes]]) -> bytes:
    encoded = [topic.bytes + int32_array(indexes, True) + tags for topic, indexes, tags in sorted(topics)]
    return array_length(len(encoded), True) + b"".join(encoded)


# Values read


def _read_group(decoder: Decoder) -> GroupEpoch:
    return GroupEpoch(decoder.int32(), _read_optional_int64(decoder))


def _read_target(decoder: Decoder) -> TargetEpoch:
    return TargetEpoch(decoder.int32(), _read_optional_int64(decoder))


def _read_optional_int64(decoder: Decoder) -> int:
    value = 0
    for tag, content in decoder.tags():
        value = content.int64() if tag == 0 else value
    return value


def _read_partitions(_: Decoder) -> PartitionMetadata:
    return PartitionMetadata()


def _read_member(decoder: Decoder) -> ConsumerMember:
    member = ConsumerMember(
        decoder.nullable_string(),
        decoder.nullable_string(),
        decoder.string(),
        decoder.string(),
        _read_strings(decoder),
        decoder.nullable_string() or "",
        decoder.int32(),
        decoder.nullable_string(),
    )
    for tag, content in decoder.tags():
        if tag == 0:
            member = member._replace(classic=_read_classic(content))
    return member


def _read_classic(decoder: Decoder) -> ClassicMember | None:
    if decoder.int8() <= 0:
        return None
    session_timeout_ms = decoder.int32()
    protocols: list[ClassicProtocol] = []
    for _ in range(decoder.array_length()):
        protocols.append(ClassicProtocol(decoder.string(), bytes(decoder.nullable_bytes() or b"")))
        decoder.skip_tags()
    return ClassicMember(session_timeout_ms, tuple(protocols))


def _read_strings(decoder: Decoder) -> frozenset[str]:
    return frozenset([decoder.string() for _ in range(decoder.array_length())])


def _read_member_target(decoder: Decoder) -> MemberTarget:
    topics = _read_topics(decoder)
    return MemberTarget({topic: frozenset(indexes) for topic, indexes, _ in topics})


def _read_current(decoder: Decoder) -> CurrentAssignment:
    epoch, previous_epoch, state = decoder.fields(_CURRENT_HEAD)
    # A state of a newer broker is unknown: such a member has to join again (CurrentAssignmentBuilder).
    known = MemberState(state) if state in MemberState.__members__.values() else MemberState.UNKNOWN
    return CurrentAssignment(epoch, previous_epoch, known, _read_held(decoder), _read_held(decoder))


def _read_held(decoder: Decoder) -> Held:
    # Before Kafka 4.3 the epochs were not stored: 0 is older than each commit.
    return {
        topic: dict(zip(indexes, epochs if len(epochs) == len(indexes) else [0] * len(indexes), strict=True))
        for topic, indexes, epochs in _read_topics(decoder)
    }


def _read_topics(decoder: Decoder) -> list[tuple[UUID, tuple[int, ...], tuple[int, ...]]]:
    topics = []
    for _ in range(decoder.array_length(16)):
        topic, indexes = decoder.uuid(), decoder.int32_array() or ()
        epochs: tuple[int, ...] = ()
        for tag, content in decoder.tags():
            epochs = content.int32_array() or () if tag == 0 else epochs
        topics.append((topic, indexes, epochs))
    return topics


def _read_regex(decoder: Decoder) -> ResolvedRegex:
    return ResolvedRegex(_read_strings(decoder), *decoder.fields(_TWO_INT64))


_READERS: Final[Mapping[int, Callable[[Decoder], Value]]] = {
    RecordKind.GROUP: _read_group,
    RecordKind.PARTITIONS: _read_partitions,
    RecordKind.MEMBER: _read_member,
    RecordKind.TARGET: _read_target,
    RecordKind.MEMBER_TARGET: _read_member_target,
    RecordKind.CURRENT: _read_current,
    RecordKind.REGEX: _read_regex,
}
