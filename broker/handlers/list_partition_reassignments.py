"""ListPartitionReassignments: v0-v0 (key 46)

Behaviour (KIP-455): returns the requested partitions (null: all) that are being moved; others are left out.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.administration import Reassignments
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    wanted = (
        None
        if request.topics is None
        else [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    )
    deferred = Deferred()
    node.administration.list_reassignments(wanted, deferred.complete_by(_answer))
    return deferred.now_or_later()


def _answer(found: Reassignments) -> Answer:
    if isinstance(found, Problem):
        return {"topics": ()} | error_fields(found)
    topics: dict[str, list[Answer]] = {}
    for (topic, index), moving in paced(found.items()):
        topics.setdefault(topic, []).append(
            {
                "partition_index": index,
                "replicas": moving.replicas,
                "adding_replicas": moving.adding,
                "removing_replicas": moving.removing,
            }
        )
    return {"topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]}
