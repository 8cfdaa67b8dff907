"""CreateTopics: v2-v7 (key 19)

Behaviour:
* Each topic succeeds or fails by itself; one named twice in a request fails with INVALID_REQUEST, both times.
* The checks and their error codes are those of broker.node.Node.create_topic.
* The topic is ready when the answer is sent, so the time-out is never reached.

Versions: v4 lets both counts be -1, for the broker's defaults (KIP-464); v5 tells the resulting counts and
configuration (KIP-525); v7 the topic id.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from broker.handlers.describe_configs import describe_topic_config
from broker.handlers.reply import Reply, RequestContext
from broker.node import NewTopic, Node, Problem
from broker.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    topics = request.topics
    named = Counter(topic.name for topic in topics)
    return {"topics": [_create(node, topic, named[topic.name] > 1, request.validate_only) for topic in topics]}


def _create(node: Node, wanted: Any, is_named_twice: bool, validate_only: bool) -> Answer:
    if is_named_twice:
        return _failed(
            wanted.name, Problem(ErrorCode.invalid_request, f"Topic '{wanted.name}' is named twice in the request.")
        )
    assignments = wanted.assignments
    assignment = {entry.partition_index: list(entry.broker_ids) for entry in assignments}
    if len(assignment) != len(assignments):
        return _failed(
            wanted.name, Problem(ErrorCode.invalid_replica_assignment, "A partition is assigned more than once.")
        )
    topic = NewTopic(
        wanted.name,
        wanted.num_partitions,
        wanted.replication_factor,
        assignment or None,
        {entry.name: entry.value for entry in wanted.configs},
    )
    created = node.create_topic(topic, validate_only=validate_only)
    if isinstance(created, Problem):
        return _failed(wanted.name, created)
    return {
        "name": wanted.name,
        "topic_id": None if validate_only else created.topic_id,
        "error_code": ErrorCode.none,
        "num_partitions": created.partition_count,
        "replication_factor": 1,
        "configs": [
            {
                "name": entry["name"],
                "value": entry["value"],
                "read_only": entry["read_only"],
                "config_source": entry["config_source"],
                "is_sensitive": entry["is_sensitive"],
            }
            for entry in describe_topic_config(created.config)
        ],
    }


def _failed(name: str, problem: Problem) -> Answer:
    return {
        "name": name,
        "error_code": problem.error_code,
        "error_message": problem.message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": None,
    }
