"""OffsetFetch v8 (KIP-709): all commits of many groups, read by hand: large for a monitor.

The answer by group and topic: [index i32, offset i64, leader epoch i32, metadata string, error i16]; flexible.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final, NamedTuple

from highwater.kafka.client.request import Request
from highwater.kafka.protocol.primitives import NO_TAGS, Decoder, array_length, string

_COMMITTED: Final = struct.Struct(">iqi")
_OFFSET_FETCH_VERSION: Final = 8
_ALL_TOPICS: Final = b"\0"


class GroupCommits(NamedTuple):
    error_code: int
    offsets: dict[tuple[str, int], tuple[int, str]]
    """Committed offset and metadata, of the partitions that have one."""


def offset_fetch(groups: Collection[str]) -> Request[dict[str, GroupCommits]]:
    """All commits of these groups, which have one coordinator. Offsets of open transactions are not waited for."""

    def encode(_: int) -> bytes:
        out = bytearray(array_length(len(groups), flexible=True))
        for group in groups:
            out += string(group, flexible=True) + _ALL_TOPICS + NO_TAGS
        out += b"\0" + NO_TAGS  # require_stable
        return bytes(out)

    return Request("offset_fetch", _OFFSET_FETCH_VERSION, _OFFSET_FETCH_VERSION, encode, _decode_offset_fetch)


def _decode_offset_fetch(decoder: Decoder, version: int) -> dict[str, GroupCommits]:
    decoder.int32()  # throttle time
    found = {}
    fields, skip_tags, nullable_string, int16 = (
        decoder.fields,
        decoder.skip_tags,
        decoder.nullable_string,
        decoder.int16,
    )
    for _ in range(decoder.array_length()):
        group = decoder.string()
        offsets: dict[tuple[str, int], tuple[int, str]] = {}
        for _ in range(decoder.array_length()):
            topic = decoder.string()
            for _ in range(decoder.array_length(_COMMITTED.size)):
                partition, offset, _ = fields(_COMMITTED)
                metadata = nullable_string()
                error_code = int16()
                skip_tags()
                if offset >= 0 and not error_code:
                    offsets[topic, partition] = offset, metadata or ""
            skip_tags()
        found[group] = GroupCommits(int16(), offsets)
        skip_tags()
    return found
