"""ListOffsets v4 to v7, written and read by hand: large in each tick of a monitor.

Partition [index i32, leader epoch i32, timestamp i64]; its answer
    [index i32, error i16, timestamp i64, offset i64, leader epoch i32]; flexible from v6.
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


Wanted = tuple[int, int, int]
"""A partition, its leader epoch or −1, and LATEST, EARLIEST or Unix time in ms."""


def all_at(partitions: Mapping[str, Collection[int]], timestamp: int) -> dict[str, list[Wanted]]:
    return {topic: [(number, _ANY_EPOCH, timestamp) for number in numbers] for topic, numbers in partitions.items()}


class Listed(NamedTuple):
    """`offset`: -1 if the partition has none. `error_code`: 0 if all is well."""

    error_code: int
    timestamp_ms: int
    """The time of the record; −1 if the start or the end was asked for."""
    offset: int
    leader_epoch: int


ListedOffsets = dict[str, dict[int, Listed]]
"""Offsets by topic and partition."""


def list_offsets(
    partitions: Mapping[str, Collection[Wanted]], *, read_committed: bool = False
) -> Request[ListedOffsets]:
    """Return a request for offsets of one leader's partitions."""

    def encode(version: int) -> bytes:
        flexible = version >= _LIST_OFFSETS_FLEXIBLE_FROM
        tags = NO_TAGS if flexible else b""
        out = bytearray(_LIST_OFFSETS_HEAD.pack(_CONSUMER, read_committed))
        out += array_length(len(partitions), flexible)
        for topic, wanted in partitions.items():
            out += string(topic, flexible) + array_length(len(wanted), flexible)
            for each in wanted:
                out += _ASKED.pack(*each) + tags
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
            partition, *listed = fields(_LISTED)
            topic[partition] = Listed(*listed)
            skip_tags()
        skip_tags()
    return found
