"""Offsets of partitions and commits of groups, written and read by hand: large in each tick. Pure.

ListOffsets v4 to v7: partition [index i32, leader epoch i32, timestamp i64]; its answer
    [index i32, error i16, timestamp i64, offset i64, leader epoch i32]; flexible from v6.
OffsetFetch v8 (KIP-709): many groups in one request; its answer by group and topic
    [index i32, offset i64, leader epoch i32, metadata string, error i16]; flexible.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from highwater.kafka.client.request import Request
from highwater.kafka.protocol.primitives import NO_TAGS, Decoder, array_length, string

LATEST: Final = -1
EARLIEST: Final = -2
_LIST_OFFSETS_FLEXIBLE_FROM: Final = 6
_CONSUMER: Final = -1
_ANY_EPOCH: Final = -1
_LIST_OFFSETS_HEAD: Final = struct.Struct(">ib")
_ASKED: Final = struct.Struct(">iiq")
_LISTED: Final = struct.Struct(">ihqqi")
_COMMITTED: Final = struct.Struct(">iqi")
_OFFSET_FETCH_VERSION: Final = 8
_ALL_TOPICS: Final = b"\0"


class Listed(NamedTuple):
    """`offset`: -1 if the partition has none. `error_code`: 0 if all is well."""

    error_code: int
    offset: int


ListedOffsets = dict[str, dict[int, Listed]]
"""Offsets by topic and partition."""


def list_offsets(
    partitions: Mapping[str, Collection[int]], timestamp: int, *, read_committed: bool = False
) -> Request[ListedOffsets]:
    """Return a request for offsets of one leader's partitions. `timestamp`: LATEST, EARLIEST, or Unix time in ms."""

    def encode(version: int) -> bytes:
        flexible = version >= _LIST_OFFSETS_FLEXIBLE_FROM
        tags = NO_TAGS if flexible else b""
        out = bytearray(_LIST_OFFSETS_HEAD.pack(_CONSUMER, read_committed))
        out += array_length(len(partitions), flexible)
        for topic, numbers in partitions.items():
            out += string(topic, flexible) + array_length(len(numbers), flexible)
            for number in numbers:
                out += _ASKED.pack(number, _ANY_EPOCH, timestamp) + tags
            out += tags
        return bytes(out + tags)

    return Request("list_offsets", 4, 7, encode, _decode_list_offsets)


def _decode_list_offsets(decoder: Decoder, version: int) -> ListedOffsets:
    decoder.int32()  # throttle time
    found: ListedOffsets = {}
    fields, skip_tags = decoder.fields, decoder.skip_tags
    for _ in range(decoder.array_length()):
        topic: dict[int, Listed] = {}
        found[decoder.string()] = topic
        for _ in range(decoder.array_length(_LISTED.size)):
            partition, error_code, _, offset, _ = fields(_LISTED)
            topic[partition] = Listed(error_code, offset)
            skip_tags()
        skip_tags()
    return found


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
