"""What a throttle of moves sets (KIP-73): replicas by topic, and bytes a second by broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.requests.list_partition_reassignments import Move

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def throttled_replicas(
    planned: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
    moves: Mapping[TopicPartition, Move],
) -> tuple[dict[str, dict[str, str]], set[int]]:
    """Settings by topic, and the brokers that copy, as Kafka's tool has them: for planned and for running moves.

    current: the replicas of the planned partitions.
    """
    pairs = {key: (set(move.origin), set(move.adding)) for key, move in moves.items()}
    for key, replicas in planned.items():
        origin = set(moves[key].origin if key in moves else current[key])
        pairs[key] = origin, set(replicas) - origin
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for (topic, number), (origin, added) in pairs.items():
        leaders.setdefault(topic, []).extend(f"{number}:{broker}" for broker in origin)
        followers.setdefault(topic, []).extend(f"{number}:{broker}" for broker in added)
    brokers = {broker for origin, added in pairs.values() for broker in origin | added}
    settings = {
        topic: {
            LEADER_REPLICAS: ",".join(sorted(leaders[topic])),
            FOLLOWER_REPLICAS: ",".join(sorted(followers[topic])),
        }
        for topic in leaders
    }
    return settings, brokers
