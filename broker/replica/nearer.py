"""Chooses the replica that a consumer should read from: one in its own rack (KIP-392).

Kafka lets a setting name a class for this (`replica.selector.class`); this broker has Kafka's class for racks.
"""

from __future__ import annotations

from typing import Final

from highwater.broker.cluster.state import ClusterView
from highwater.broker.replica.leader import Leader
from highwater.broker.replica.partition import Partition
from highwater.broker.settings.config import BrokerConfig

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NONE_NEARER: Final = -1


def chooses_nearer(config: BrokerConfig, rack: str) -> bool:
    """Whether another replica may be nearer to a consumer in `rack`."""
    return bool(rack) and config.string("replica.selector.class") == RACK_AWARE and config.string("broker.rack") != rack


def nearer_replica(cluster: ClusterView, partition: Partition, offset: int, rack: str) -> int:
    """The broker from which a consumer in `rack` should read `offset`; NONE_NEARER if it should read here.

    It is the replica in the ISR and in the rack that has the offset and the most records.
    """
    role = partition.role
    if not isinstance(role, Leader):
        return NONE_NEARER
    nearer = [
        follower
        for follower in role.followers
        if follower.broker_id in role.followers.in_sync
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and (broker := cluster.broker(follower.broker_id)) is not None
        and broker.rack == rack
    ]
    furthest = max(nearer, key=lambda follower: (follower.log_end_offset, follower.last_caught_up_ms), default=None)
    return NONE_NEARER if furthest is None else furthest.broker_id
