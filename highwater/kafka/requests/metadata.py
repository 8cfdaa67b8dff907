"""Metadata of a whole cluster, read by hand: a large answer in each tick. Pure.

v9: brokers, cluster, controller, topics with partitions   v10: + topic id   v12: a topic's name may be null
The layout stands in highwater/kafka/protocol/metadata.py, which writes these answers.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from typing import Final, NamedTuple

from highwater.kafka.client.request import Request
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.primitives import Decoder

_LEAST, _MOST = 9, 12
_TOPIC_IDS_FROM: Final = 10
_OPERATIONS_UNTIL: Final = 10
_PARTITION_HEAD: Final = struct.Struct(">hiii")
_NO_ID: Final = bytes(16)


class BrokerRow(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str


class PartitionRow(NamedTuple):
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicRow(NamedTuple):
    name: str
    topic_id: str
    is_internal: bool
    error_code: int
    partitions: list[PartitionRow]


class ClusterRow(NamedTuple):
    cluster_id: str
    controller: int
    brokers: list[BrokerRow]
    topics: list[TopicRow]


def metadata(*, with_topics: bool = True) -> Request[ClusterRow]:
    """Return a request for all topics, or for the cluster and its brokers alone."""
    topics: list[object] | None = None if with_topics else []
    fields = {"topics": topics, "allow_auto_topic_creation": False}
    return Request(
        "metadata", _LEAST, _MOST, lambda version: cold.encode_request("metadata", version, fields), decode_metadata
    )


def decode_metadata(decoder: Decoder, version: int) -> ClusterRow:
    decoder.int32()  # throttle time
    brokers = []
    for _ in range(decoder.array_length()):
        brokers.append(BrokerRow(decoder.int32(), decoder.string(), decoder.int32(), decoder.nullable_string() or ""))
        decoder.skip_tags()
    cluster_id = decoder.nullable_string() or ""
    controller = decoder.int32()
    # Many partitions have the same replicas: one tuple for all of them.
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    topics = [_topic(decoder, version, shared) for _ in range(decoder.array_length())]
    if version <= _OPERATIONS_UNTIL:
        decoder.int32()
    decoder.skip_tags()
    return ClusterRow(cluster_id, controller, brokers, topics)


def _topic(decoder: Decoder, version: int, shared: dict[tuple[int, ...], tuple[int, ...]]) -> TopicRow:
    error_code = decoder.int16()
    name = decoder.nullable_string() or ""
    topic_id = _id_text(bytes(decoder.take(16))) if version >= _TOPIC_IDS_FROM else ""
    is_internal = decoder.boolean()
    partitions = []
    fields, int32_array, skip_tags = decoder.fields, decoder.int32_array, decoder.skip_tags
    for _ in range(decoder.array_length(_PARTITION_HEAD.size)):
        _, partition, leader, leader_epoch = fields(_PARTITION_HEAD)
        replicas = int32_array() or ()
        in_sync = int32_array() or ()
        offline = int32_array() or ()
        skip_tags()
        partitions.append(
            PartitionRow(
                partition,
                leader,
                leader_epoch,
                shared.setdefault(replicas, replicas),
                shared.setdefault(in_sync, in_sync),
                shared.setdefault(offline, offline),
            )
        )
    decoder.int32()  # authorized operations
    decoder.skip_tags()
    partitions.sort()
    return TopicRow(name, topic_id, is_internal, error_code, partitions)


def _id_text(topic_id: bytes) -> str:
    return "" if topic_id == _NO_ID else urlsafe_b64encode(topic_id).decode().rstrip("=")
