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

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from highwater.broker.group.assignors.assignor import Assignment


class Kind(IntEnum):
    GROUP = 3
    PARTITIONS = 4
    MEMBER = 5
    TARGET = 6
    MEMBER_TARGET = 7
    CURRENT = 8
    REGEX = 16


class Key(NamedTuple):
    kind: Kind
    group_id: str
    name: str = ""
    """The member id or the regular expression; empty in kinds that a group has one of."""


class GroupEpoch(NamedTuple):
    epoch: int
    metadata_hash: int = 0
    """Of the topics that the members subscribe to."""


class ClassicProtocol(NamedTuple):
    name: str
    metadata: bytes


class ClassicMember(NamedTuple):
    """What a member has that still speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class Member(NamedTuple):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    """As the member told it; empty for none."""
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


Value = GroupEpoch | PartitionMetadata | Member | TargetEpoch | MemberTarget | CurrentAssignment | ResolvedRegex


class GroupRecord(NamedTuple):
    key: Key
    value: Value | None
    """None for a tombstone."""


def encode_key(key: Key) -> bytes:
    raise NotImplementedError


def encode_value(value: Value) -> bytes:
    raise NotImplementedError


def decode_key(data: bytes) -> Key | None:
    """Return the key, or None for a key of another kind. Raises CorruptBatch."""
    raise NotImplementedError


def decode_value(kind: Kind, data: bytes) -> Value:
    """Raises CorruptBatch."""
    raise NotImplementedError
