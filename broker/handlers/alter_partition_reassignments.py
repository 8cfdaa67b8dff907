"""AlterPartitionReassignments: v0-v1 (key 45)

Behaviour (KIP-455): each partition by itself; null replicas cancel a move (NO_REASSIGNMENT_IN_PROGRESS without one).
The answer comes when the move has begun, not when it is done.

Versions: v1 can forbid that a partition gets more or fewer replicas (KIP-860): INVALID_REPLICATION_FACTOR.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.administration import PartitionOutcomes
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    wanted = {
        (topic.name, partition.partition_index): None if partition.replicas is None else list(partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    }
    deferred = Deferred()
    may_change = getattr(request, "allow_replication_factor_change", True)
    node.administration.alter_reassignments(
        wanted,
        lambda results: deferred.complete(lambda: _answer(results) | {"allow_replication_factor_change": may_change}),
        may_change_replication_factor=may_change,
    )
    return deferred.now_or_later()


def _answer(results: PartitionOutcomes) -> Answer:
    if isinstance(results, Problem):
        return {"responses": ()} | error_fields(results)
    topics: dict[str, list[Answer]] = {}
    for (topic, index), problem in paced(results.items()):
        topics.setdefault(topic, []).append({"partition_index": index} | error_fields(problem))
    return {"responses": [{"name": topic, "partitions": partitions} for topic, partitions in paced(topics.items())]}
