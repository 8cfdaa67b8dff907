"""OffsetForLeaderEpoch: v0-v4 (key 23)

Behaviour: returns for each partition the largest epoch at or below the requested one, and its end offset; -1 and -1
for an unknown epoch. Only the leader answers, others return NOT_LEADER_OR_FOLLOWER. The reader's current epoch is
checked as in Fetch (KIP-320).

Versions: v1 returns the epoch that was found (KIP-279); v2 brings the reader's current epoch, v3 its replica id.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.refusal import refusal
from highwater.kafka.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [
                    {"partition": wanted.partition} | _look_up(node, topic.topic, wanted) for wanted in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _look_up(node: Node, topic: str, wanted: Any) -> Answer:
    partition = node.partitions.find(topic, wanted.partition)
    error = (
        refusal(node.partitions, node.cluster, topic, wanted.partition)
        if partition is None
        else partition.check_leader_epoch(getattr(wanted, "current_leader_epoch", -1))
    )
    if partition is None or error:
        return {"error_code": error, "leader_epoch": -1, "end_offset": -1}
    epoch, end_offset = partition.end_of_epoch(wanted.leader_epoch)
    return {"leader_epoch": epoch, "end_offset": end_offset}
