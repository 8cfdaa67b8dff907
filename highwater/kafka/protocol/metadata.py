"""Metadata (key 3), versions 0 to 13, by hand: a frequent request with a large answer.

request  v0: topics [string], none of them = all        v1: null = all
         v4: + allow_auto_topic_creation bool           v8: + include_cluster_operations, include_topic_operations bool
         v9: flexible   v10: topics [id uuid, name nullable_string]   v11: include_cluster_operations leaves
response v0: brokers [id i32, host string, port i32],
             topics [error i16, name string, partitions [error i16, index i32, leader i32, replicas [i32], isr [i32]]]
         v1: + rack per broker, controller_id i32 after the brokers, is_internal bool per topic
         v2: + cluster_id before the controller         v3: + throttle_time_ms i32 in front
         v5: + offline replicas [i32]                    v7: + leader_epoch i32 after leader
         v8: + operations i32 per topic and at the end   v9: flexible   v10: + topic id after name
        v11: the operations at the end leave             v12: a topic's name may be null
        v13: + error i16 at the end
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.kafka.arrays import array
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.frame import Part
from highwater.kafka.protocol.primitives import (
    NO_TAGS,
    ZERO_UUID,
    Decoder,
    MalformedRequestError,
    array_length,
    int32_array,
    nullable_string,
    string,
)

FLEXIBLE_FROM: Final = 9
OPERATIONS_NOT_ASKED: Final = -(2**31)

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_PARTITION_HEAD: Final = struct.Struct(">hii")


class RequestedTopic(NamedTuple):
    """A topic asked for by name, or by id when the name is None."""

    name: str | None
    topic_id: UUID = ZERO_UUID


class MetadataRequest(NamedTuple):
    topics: Sequence[RequestedTopic] | None
    """None asks for all topics."""
    allow_auto_topic_creation: bool
    include_cluster_authorized_operations: bool
    include_topic_authorized_operations: bool


class BrokerMetadata(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    error_code: ErrorCode
    partition: int
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    in_sync_replicas: list[int]
    offline_replicas: list[int]


class TopicMetadata(NamedTuple):
    error_code: ErrorCode
    name: str | None
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: Sequence[PartitionMetadata] = ()
    authorized_operations: int = OPERATIONS_NOT_ASKED


class ClusterMetadata(NamedTuple):
    brokers: Sequence[BrokerMetadata]
    cluster_id: str | None
    controller_id: int
    topics: Sequence[TopicMetadata]
    authorized_operations: int = OPERATIONS_NOT_ASKED


def decode_request(decoder: Decoder, version: int) -> MetadataRequest:
    count = decoder.array_length()
    topics: list[RequestedTopic] | None = None
    if version == 0 and count == -1:
        raise MalformedRequestError("the topics of a Metadata v0 request are null")
    if count > 0 or (count == 0 and version > 0):
        topics = []
        for _ in paced(range(count)):
            topic_id = decoder.uuid() if version >= 10 else ZERO_UUID
            name = decoder.nullable_string() if version >= 10 else decoder.string()
            decoder.skip_tags()
            topics.append(RequestedTopic(name, topic_id))
    allow_auto_topic_creation = decoder.boolean() if version >= 4 else True
    include_cluster = decoder.boolean() if 8 <= version <= 10 else False
    include_topic = decoder.boolean() if version >= 8 else False
    decoder.skip_tags()
    return MetadataRequest(
        None if topics is None else array(topics), allow_auto_topic_creation, include_cluster, include_topic
    )


def encode_response(metadata: ClusterMetadata, version: int, throttle_time_ms: int = 0) -> list[Part]:
    flexible = version >= FLEXIBLE_FROM
    tags = NO_TAGS if flexible else b""
    out = bytearray()
    if version >= 3:
        out += _INT32.pack(throttle_time_ms)
    out += array_length(len(metadata.brokers), flexible)
    for broker in metadata.brokers:
        out += _INT32.pack(broker.node_id) + string(broker.host, flexible) + _INT32.pack(broker.port)
        if version >= 1:
            out += nullable_string(broker.rack, flexible)
        out += tags
    if version >= 2:
        out += nullable_string(metadata.cluster_id, flexible)
    if version >= 1:
        out += _INT32.pack(metadata.controller_id)
    arrays: dict[tuple[int, ...], bytes] = {}

    def array(values: list[int]) -> bytes:
        # Partitions by the thousand have the same replicas.
        key = tuple(values)
        found = arrays.get(key)
        if found is None:
            found = arrays[key] = int32_array(values, flexible)
        return found

    out += array_length(len(metadata.topics), flexible)
    for topic in paced(metadata.topics):
        out += _INT16.pack(topic.error_code)
        # Before version 12 the name cannot be null: a topic asked for by an unknown id is answered with an empty one.
        out += nullable_string(topic.name, flexible) if version >= 12 else string(topic.name or "", flexible)
        if version >= 10:
            out += topic.topic_id.bytes
        if version >= 1:
            out += b"\x01" if topic.is_internal else b"\x00"
        out += array_length(len(topic.partitions), flexible)
        for partition in topic.partitions:
            error_code, index, leader_id, leader_epoch, replicas, in_sync_replicas, offline_replicas = partition
            out += _PARTITION_HEAD.pack(error_code, index, leader_id)
            if version >= 7:
                out += _INT32.pack(leader_epoch)
            out += array(replicas)
            out += array(in_sync_replicas)
            if version >= 5:
                out += array(offline_replicas)
            out += tags
        if version >= 8:
            out += _INT32.pack(topic.authorized_operations)
        out += tags
    if 8 <= version <= 10:
        out += _INT32.pack(metadata.authorized_operations)
    if version >= 13:
        out += _INT16.pack(ErrorCode.none)
    out += tags
    return [out]
