"""What consumers say inside of JoinGroup and SyncGroup: their subscriptions and assignments.

Their versions are those of ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json of Apache Kafka. A
newer version begins like version 3, so that it is read like it.

    subscription   version i16, topic names, user data?, owned [topic, [partition i32]] (1+), generation i32 (2+),
                   rack? (3+)
    assignment     version i16, [topic, [partition i32]], user data?
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError, array_length, int32_array, string

_INT16: Final = struct.Struct(">h")
_NO_USER_DATA: Final = b"\xff\xff\xff\xff"
_NEWEST: Final = 3

Partitions = Mapping[str, Collection[int]]
"""Partition numbers by topic name."""


class EmbeddedSubscription(NamedTuple):
    version: int
    topics: frozenset[str]
    owned: Partitions
    """What the member has while it joins; nothing before version 1, as such members give up everything first."""
    rack_id: str | None


class EmbeddedAssignment(NamedTuple):
    partitions: Partitions
    has_user_data: bool
    """Whether the assignor has more to say than the partitions."""


def read_subscription(data: bytes) -> EmbeddedSubscription | None:
    """Return what a member subscribes to, or None if this is not of the consumer protocol."""
    decoder = Decoder(memoryview(data))
    try:
        version = decoder.int16()
        topics = _read_topics(decoder)
        decoder.nullable_bytes()
        owned = _read_partitions(decoder) if version >= 1 else {}
        if version >= 2:
            decoder.int32()
        rack_id = decoder.nullable_string() if version >= 3 else None
    except MalformedRequestError:
        return None
    return None if version < 0 else EmbeddedSubscription(version, topics, owned, rack_id)


def subscribed_topics(data: bytes) -> frozenset[str] | None:
    """Return the topics of a subscription; the rest of it may be of any form. None as in `read_subscription`."""
    decoder = Decoder(memoryview(data))
    try:
        decoder.int16()
        return _read_topics(decoder)
    except MalformedRequestError:
        return None


def read_assignment(data: bytes) -> EmbeddedAssignment | None:
    """Return what a member was given, or None if this is not of the consumer protocol. No bytes are no partitions."""
    if not data:
        return EmbeddedAssignment({}, has_user_data=False)
    decoder = Decoder(memoryview(data))
    try:
        version = decoder.int16()
        partitions = _read_partitions(decoder)
        user_data = decoder.nullable_bytes()
    except MalformedRequestError:
        return None
    return None if version < 0 else EmbeddedAssignment(partitions, bool(user_data))


def write_assignment(version: int, partitions: Partitions) -> bytes:
    topics = [
        string(topic, False) + int32_array(sorted(partitions[topic]), False)
        for topic in sorted(partitions)
        if partitions[topic]
    ]
    head = _INT16.pack(min(version, _NEWEST)) + array_length(len(topics), False)
    return head + b"".join(topics) + _NO_USER_DATA


def _read_topics(decoder: Decoder) -> frozenset[str]:
    return frozenset([decoder.string() for _ in range(decoder.array_length(2))])


def _read_partitions(decoder: Decoder) -> Partitions:
    found: dict[str, set[int]] = {}
    for _ in range(decoder.array_length(6)):
        found.setdefault(decoder.string(), set()).update(decoder.int32_array() or ())
    return found
