"""The bytes that consumers of the classic protocol send: what they subscribe to, and what the leader gives them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from highwater.broker.group.embedded import Partitions, write_assignment
from highwater.kafka.protocol.primitives import array_length, int32_array, nullable_string, string

NO_USER_DATA = b"\xff\xff\xff\xff"


def subscription(
    topics: Iterable[str],
    owned: Partitions | None = None,
    *,
    version: int = 3,
    rack_id: str | None = None,
    user_data: bytes = NO_USER_DATA,
) -> bytes:
    names = sorted(topics)
    parts = [struct.pack(">h", version), array_length(len(names), False), *(string(name, False) for name in names)]
    parts.append(user_data)
    if version >= 1:
        held = owned or {}
        parts.append(array_length(len(held), False))
        parts += [string(topic, False) + int32_array(sorted(held[topic]), False) for topic in sorted(held)]
    if version >= 2:
        parts.append(struct.pack(">i", -1))
    if version >= 3:
        parts.append(nullable_string(rack_id, False))
    return b"".join(parts)


def assignment(partitions: Mapping[str, Iterable[int]], version: int = 3, user_data: bytes = NO_USER_DATA) -> bytes:
    plain = write_assignment(version, {topic: list(indexes) for topic, indexes in partitions.items()})
    return plain[: -len(NO_USER_DATA)] + user_data
