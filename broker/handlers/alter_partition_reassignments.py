"""AlterPartitionReassignments: v0-v0 (key 45)

Behaviour (KIP-455): this broker is the only one, so every partition is where it can be.
* A partition assigned to this broker is there at once; another broker, or none: INVALID_REPLICA_ASSIGNMENT.
* A cancellation (null replicas): NO_REASSIGNMENT_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from broker.handlers.reply import Reply, RequestContext
from broker.node import Node, Problem
from broker.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return {
        "responses": [
            {
                "name": topic.name,
                "partitions": [_answer(node, topic.name, wanted) for wanted in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _answer(node: Node, topic: str, wanted: Any) -> Answer:
    if node.partition(topic, wanted.partition_index) is None:
        problem: Problem | None = Problem(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    elif wanted.replicas is None:
        problem = Problem(ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress.")
    else:
        problem = _check(node, wanted.replicas)
    return {
        "partition_index": wanted.partition_index,
        "error_code": ErrorCode.none if problem is None else problem.error_code,
        "error_message": None if problem is None else problem.message,
    }


def _check(node: Node, replicas: Sequence[int]) -> Problem | None:
    if not replicas:
        reason = "Empty replica list specified in partition reassignment."
    elif len(set(replicas)) < len(replicas):
        reason = f"Duplicate replica ids in partition reassignment replica list: {list(replicas)}"
    elif replicas != (node.broker_id,):
        reason = f"Replica assignment has brokers that are not alive: {list(replicas)}"
    else:
        return None
    return Problem(ErrorCode.invalid_replica_assignment, reason)
