"""Encodes LeaderAndIsr 7 and UpdateMetadata 8 by hand, since they have thousands of partitions.

LeaderAndIsr    controller id, is KRaft, controller epoch, broker epoch, type, topics, live leaders
  a partition   index, controller epoch, leader, leader epoch, in sync, partition epoch, replicas, adding, removing,
                is new, leader recovery state
UpdateMetadata  controller id, is KRaft, controller epoch, broker epoch, topics, live brokers
  a partition   index, controller epoch, leader, leader epoch, in sync, partition epoch, replicas, offline
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from highwater.broker.cluster.peers import SECURITY_PROTOCOLS, Endpoint
from highwater.broker.cluster.state import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from highwater.kafka.protocol.primitives import NO_TAGS, nullable_string, string, unsigned_varint

LEADER_AND_ISR_VERSION: Final = 7
UPDATE_METADATA_VERSION: Final = 8
"""What Kafka 3.9 sends at inter.broker.protocol.version=3.9."""

_HEADER: Final = struct.Struct(">i?iq")
_STATE: Final = struct.Struct(">iiii")
_INT32: Final = struct.Struct(">i")
_END_OF_PARTITION: Final = struct.Struct(">?b")
_ENDPOINT_END: Final = struct.Struct(">h")
_UNKNOWN_TYPE: Final = b"\x00"
"""Neither a full nor an incremental update: KIP-866 distinguishes those while a cluster leaves ZooKeeper."""


class TopicStates(NamedTuple):
    name: str
    topic_id: UUID
    partitions: Sequence[bytes]
    """Each encoded."""


@lru_cache(maxsize=4096)
def _replicas(replicas: tuple[int, ...]) -> bytes:
    """Partitions by the thousand have the same."""
    return unsigned_varint(len(replicas) + 1) + struct.pack(f">{len(replicas)}i", *replicas)


def leader_and_isr_partition(index: int, state: LeaderAndIsr, assignment: ReplicaAssignment, *, is_new: bool) -> bytes:
    return (
        _STATE.pack(index, state.controller_epoch, state.leader, state.leader_epoch)
        + _replicas(state.in_sync_replicas)
        + _INT32.pack(state.partition_epoch)
        + _replicas(assignment.replicas)
        + _replicas(assignment.adding)
        + _replicas(assignment.removing)
        + _END_OF_PARTITION.pack(is_new, state.is_recovering)
        + NO_TAGS
    )


def leader_and_isr(
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    topics: Sequence[TopicStates],
    live_leaders: Mapping[int, Endpoint],
) -> bytes:
    parts = [_HEADER.pack(controller_id, False, controller_epoch, broker_epoch), _UNKNOWN_TYPE, *_topics(topics)]
    parts.append(unsigned_varint(len(live_leaders) + 1))
    for broker_id, endpoint in live_leaders.items():
        parts += _INT32.pack(broker_id), string(endpoint.host, True), _INT32.pack(endpoint.port), NO_TAGS
    parts.append(NO_TAGS)
    return b"".join(parts)


def metadata_partition(
    index: int, state: LeaderAndIsr, replicas: tuple[int, ...], offline_replicas: tuple[int, ...]
) -> bytes:
    return (
        _STATE.pack(index, state.controller_epoch, state.leader, state.leader_epoch)
        + _replicas(state.in_sync_replicas)
        + _INT32.pack(state.partition_epoch)
        + _replicas(replicas)
        + _replicas(offline_replicas)
        + NO_TAGS
    )


def update_metadata(
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    topics: Sequence[TopicStates],
    live_brokers: Sequence[BrokerInfo],
) -> bytes:
    parts = [_HEADER.pack(controller_id, False, controller_epoch, broker_epoch), *_topics(topics)]
    parts.append(unsigned_varint(len(live_brokers) + 1))
    for broker in live_brokers:
        parts += _INT32.pack(broker.broker_id), unsigned_varint(len(broker.endpoints) + 1)
        for listener_name, security_protocol, host, port in broker.endpoints:
            parts += _INT32.pack(port), string(host, True), string(listener_name, True)
            parts += _ENDPOINT_END.pack(SECURITY_PROTOCOLS.index(security_protocol)), NO_TAGS
        parts += nullable_string(broker.rack, True), NO_TAGS
    parts.append(NO_TAGS)
    return b"".join(parts)


def _topics(topics: Sequence[TopicStates]) -> Iterable[bytes]:
    yield unsigned_varint(len(topics) + 1)
    for name, topic_id, partitions in topics:
        yield string(name, True)
        yield topic_id.bytes
        yield unsigned_varint(len(partitions) + 1)
        yield from partitions
        yield NO_TAGS
