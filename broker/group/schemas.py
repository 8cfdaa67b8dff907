"""The records of `__consumer_offsets`, written as by Kafka 3.9 or 4.4 and read as by 0.9 to 4.x.

A key begins with an i16 version, which is its kind: 0 and 1 an offset (group, topic, partition i32), 2 the membership
of a group (group). Higher versions are of consumer groups (`consumer/schemas`), and of kinds of groups that this broker
does not support. A value begins with the i16 version of its format; a null value is a tombstone. Kafka 3.9 writes
version 3 of both values; version 4 is flexible (KIP-915), and what Kafka 4.4 writes of offsets.

    offset       offset i64, leader epoch i32 (3+), metadata, commit timestamp i64, expire timestamp i64 (1 only);
                 tag 0 topic id (4)
    membership   protocol type, generation i32, protocol?, leader?, state timestamp i64 (2+), members
    member       member id, instance id? (3+), client id, client host, rebalance timeout i32 (1+), session timeout i32,
                 subscription bytes, assignment bytes
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from highwater.broker.group.events import NO_STATE_TIMESTAMP, StoredGroup, StoredMember
from highwater.broker.group.offsets import CommittedOffset
from highwater.kafka.protocol.primitives import (
    NO_TAGS,
    Decoder,
    MalformedRequestError,
    bytes_length,
    nullable_string,
    string,
)
from highwater.kafka.records.batch import CorruptBatch

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET_KEY_VERSION: Final = 1
_GROUP_KEY_VERSION: Final = 2
_VALUE_VERSION: Final = 3
_NEWEST_VALUE_VERSION: Final = 4
_FLEXIBLE_FROM: Final = 4
_NO_EXPIRE_TIMESTAMP: Final = -1
_FLEXIBLE_HEAD: Final = struct.Struct(">hqi")
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
"""One tag, whose number is 0, of 16 bytes."""

T = TypeVar("T")


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group_id: str


def encode_offset_key(key: OffsetKey) -> bytes:
    return (
        _INT16.pack(_OFFSET_KEY_VERSION)
        + string(key.group_id, False)
        + string(key.topic, False)
        + _INT32.pack(key.partition)
    )


def encode_group_key(key: GroupKey) -> bytes:
    return _INT16.pack(_GROUP_KEY_VERSION) + string(key.group_id, False)


def decode_key(data: bytes) -> OffsetKey | GroupKey | None:
    """Return the key, or None for a key of another kind. Raises CorruptBatch."""
    return _decode("key", data, _read_key)


def encode_offset(offset: CommittedOffset, *, with_topic_id: bool) -> bytes:
    """Encode in version 4 or 3, or in version 1 if the offset has its own expiry, which later versions do not have."""
    has_expiry = offset.expire_timestamp_ms is not None
    if with_topic_id and not has_expiry:
        topic_id = offset.topic_id
        return b"".join(
            (
                _FLEXIBLE_HEAD.pack(_NEWEST_VALUE_VERSION, offset.offset, offset.leader_epoch),
                string(offset.metadata, True),
                _INT64.pack(offset.commit_timestamp_ms),
                NO_TAGS if topic_id is None else _TOPIC_ID_TAG + topic_id.bytes,
            )
        )
    return b"".join(
        (
            _INT16.pack(1 if has_expiry else _VALUE_VERSION),
            _INT64.pack(offset.offset),
            b"" if has_expiry else _INT32.pack(offset.leader_epoch),
            string(offset.metadata, False),
            _INT64.pack(offset.commit_timestamp_ms),
            b"" if offset.expire_timestamp_ms is None else _INT64.pack(offset.expire_timestamp_ms),
        )
    )


def decode_offset(data: bytes) -> CommittedOffset:
    """Raises CorruptBatch."""
    return _decode("offset", data, _read_offset)


def encode_group(group: StoredGroup) -> bytes:
    parts = [
        _INT16.pack(_VALUE_VERSION),
        string(group.protocol_type, False),
        _INT32.pack(group.generation_id),
        nullable_string(group.protocol_name, False),
        nullable_string(group.leader_id, False),
        _INT64.pack(group.state_timestamp_ms),
        _INT32.pack(len(group.members)),
    ]
    for member in group.members:
        parts += (
            string(member.member_id, False),
            nullable_string(member.group_instance_id, False),
            string(member.client_id, False),
            string(member.client_host, False),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            bytes_length(len(member.subscription), False),
            member.subscription,
            bytes_length(len(member.assignment), False),
            member.assignment,
        )
    return b"".join(parts)


def decode_group(data: bytes) -> StoredGroup:
    """Raises CorruptBatch."""
    return _decode("group", data, _read_group)


def _decode(kind: str, data: bytes, read: Callable[[Decoder, int], T]) -> T:
    decoder = Decoder(memoryview(data))
    try:
        version = decoder.int16()
        decoder.flexible = kind != "key" and version >= _FLEXIBLE_FROM
        if kind != "key" and not 0 <= version <= _NEWEST_VALUE_VERSION:
            raise CorruptBatch(f"version {version} of the {kind} value is not known")
        return read(decoder, version)
    except MalformedRequestError as error:
        raise CorruptBatch(f"the {kind} cannot be read: {error}") from None


def _read_key(decoder: Decoder, version: int) -> OffsetKey | GroupKey | None:
    if version in (0, _OFFSET_KEY_VERSION):
        return OffsetKey(decoder.string(), decoder.string(), decoder.int32())
    return GroupKey(decoder.string()) if version == _GROUP_KEY_VERSION else None


def _read_offset(decoder: Decoder, version: int) -> CommittedOffset:
    offset = decoder.int64()
    leader_epoch = decoder.int32() if version >= 3 else -1
    metadata = decoder.string()
    commit_timestamp_ms = decoder.int64()
    expire_timestamp_ms = decoder.int64() if version == 1 else _NO_EXPIRE_TIMESTAMP
    topic_id = None
    for tag, content in decoder.tags() if version >= _FLEXIBLE_FROM else ():
        topic_id = content.uuid() if tag == 0 else topic_id
    return CommittedOffset(
        offset,
        leader_epoch,
        metadata,
        commit_timestamp_ms,
        None if expire_timestamp_ms == _NO_EXPIRE_TIMESTAMP else expire_timestamp_ms,
        topic_id if topic_id is not None and topic_id.int else None,
    )


def _read_group(decoder: Decoder, version: int) -> StoredGroup:
    protocol_type = decoder.string()
    generation_id = decoder.int32()
    protocol_name = decoder.nullable_string()
    leader_id = decoder.nullable_string()
    state_timestamp_ms = decoder.int64() if version >= 2 else NO_STATE_TIMESTAMP
    members = tuple([_read_member(decoder, version) for _ in range(decoder.array_length())])
    if members and protocol_name is None:
        raise CorruptBatch("the group has members and no assignor")
    return StoredGroup(protocol_type, generation_id, protocol_name, leader_id, state_timestamp_ms, members)


def _read_member(decoder: Decoder, version: int) -> StoredMember:
    member_id = decoder.string()
    group_instance_id = decoder.nullable_string() if version >= 3 else None
    client_id = decoder.string()
    client_host = decoder.string()
    rebalance_timeout_ms = decoder.int32() if version >= 1 else None
    session_timeout_ms = decoder.int32()
    subscription = bytes(decoder.nullable_bytes() or b"")
    assignment = bytes(decoder.nullable_bytes() or b"")
    decoder.skip_tags()
    return StoredMember(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )
