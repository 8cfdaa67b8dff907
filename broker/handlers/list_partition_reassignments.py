"""ListPartitionReassignments: v0-v0 (key 46)

Behaviour (KIP-455): returns the requested partitions (null: all) that are being moved; others are left out.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.administration import Reassignments
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer, milliseconds
from highwater.kafka.protocol.problem import Problem


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    wanted = (
        None
        if request.topics is None
        else [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    )
    deferred = Deferred()
    node.administration.list_reassignments(
        wanted, lambda found: deferred.complete(lambda: _answer(found)), timeout_ms=milliseconds(request.timeout)
    )
    return deferred.now_or_later()


def _answer(found: Reassignments) -> Answer:
    if isinstance(found, Problem):
        return {"error_code": found.error_code, "error_message": found.message, "topics": ()}
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
