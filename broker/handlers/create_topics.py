"""CreateTopics: v0-v7 (key 19)

Behaviour:
* Each topic succeeds or fails by itself; one named twice in a request fails with INVALID_REQUEST, both times.
* The checks and their error codes are those of broker.node.Node.create_topics.
* The topic is ready when the answer is sent, so the time-out is never reached.

Versions: v1 brings error messages and validate_only; v4 lets both counts be -1, for the broker's defaults (KIP-464);
v5 tells the resulting counts and configuration (KIP-525); v7 the topic id.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from broker.handlers.describe_configs import describe_topic_config
from broker.handlers.reply import Reply, RequestContext
from broker.node import NewTopic, Node, Problem, Topic
from broker.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    named = Counter(topic.name for topic in request.topics)
    checked = [_read(topic, named[topic.name] > 1) for topic in request.topics]
    wanted = [topic for topic in checked if isinstance(topic, NewTopic)]
    validate_only = context.version >= 1 and request.validate_only
    created = iter(node.create_topics(wanted, validate_only=validate_only))
    results = [entry if isinstance(entry, Problem) else next(created) for entry in checked]
    return {
        "topics": [
            _failed(topic.name, result) if isinstance(result, Problem) else _made(result, validate_only)
            for topic, result in zip(request.topics, results, strict=True)
        ]
    }


def _read(topic: Any, is_named_twice: bool) -> NewTopic | Problem:
    if is_named_twice:
        return Problem(ErrorCode.invalid_request, f"Topic '{topic.name}' is named twice in the request.")
    assignment = {entry.partition_index: list(entry.broker_ids) for entry in topic.assignments}
    if len(assignment) != len(topic.assignments):
        return Problem(ErrorCode.invalid_replica_assignment, "A partition is assigned more than once.")
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignment or None,
        {entry.name: entry.value for entry in topic.configs},
    )


def _made(topic: Topic, validate_only: bool) -> Answer:
    return {
        "name": topic.name,
        "topic_id": None if validate_only else topic.topic_id,
        "num_partitions": topic.partition_count,
        "replication_factor": 1,
        "configs": [
            {key: entry[key] for key in ("name", "value", "read_only", "config_source", "is_sensitive")}
            for entry in describe_topic_config(topic.config)
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
