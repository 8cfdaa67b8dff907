"""Chooses the replica that a consumer should read from: one in its own rack (KIP-392).

Kafka takes a class for it (`replica.selector.class`), and has one that looks at racks; that one is known here.
"""

from __future__ import annotations

from typing import Final

from highwater.broker.cluster.state import ClusterView
from highwater.broker.replica.leader import Leader
from highwater.broker.replica.partition import Partition
from highwater.broker.settings.config import BrokerConfig

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NONE_NEARER: Final = -1


def nearer_replica(config: BrokerConfig, cluster: ClusterView, partition: Partition, offset: int, rack: str) -> int:
    """The broker that a consumer in `rack` should read this offset from rather than here; NONE_NEARER if that is here.

    It is one of those in sync that have the offset, the furthest of them.
    """
    role = partition.role
    if not rack or not isinstance(role, Leader):
        return NONE_NEARER
    if config.string("replica.selector.class") != RACK_AWARE or config.string("broker.rack") == rack:
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
