"""CreateTopics: v0-v7 (key 19)

Behaviour:
* Each topic succeeds or fails by itself; one named twice in a request fails with INVALID_REQUEST, both times.
* The checks and their error codes are those of broker.alone.topics, or of the cluster's controller.
* Above the controller_mutation_rate of the client: THROTTLING_QUOTA_EXCEEDED from v6 on (handlers/mutation_quota.py).
* The topic is ready when the answer is sent; with REQUEST_TIMED_OUT it is still created, later.

Versions: v1 brings error messages and validate_only; v4 lets both counts be -1, for the broker's defaults (KIP-464);
v5 returns the resulting counts and configuration (KIP-525); v7 the topic id.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.describe_configs import describe_topic_config
from highwater.broker.handlers.shared.mutation_quota import MutationQuota
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.administration import CreatedTopic, NewTopic, Terms
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer, milliseconds
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    named = Counter(topic.name for topic in request.topics)
    checked = [_read(topic, named[topic.name] > 1) for topic in request.topics]
    quota = MutationQuota(node, context, strict_from_version=6)
    deferred = Deferred()

    def answered(results: list[CreatedTopic | Problem]) -> Answer:
        rest = iter(results)
        answers = [
            (topic.name, entry if isinstance(entry, Problem) else next(rest))
            for topic, entry in zip(request.topics, checked, strict=True)
        ]
        topics = [
            _failed(name, result) if isinstance(result, Problem) else _made(result) for name, result in paced(answers)
        ]
        return quota.throttled({"topics": topics})

    node.administration.create_topics(
        [topic for topic in paced(checked) if isinstance(topic, NewTopic)],
        Terms(milliseconds(request.timeout), context.version >= 1 and request.validate_only, quota.charge),
        deferred.complete_by(answered),
    )
    return deferred.now_or_later()


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


def _made(topic: CreatedTopic) -> Answer:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "num_partitions": topic.partition_count,
        "replication_factor": topic.replication_factor,
        "configs": [
            {key: entry[key] for key in ("name", "value", "read_only", "config_source", "is_sensitive")}
            for entry in describe_topic_config(topic.config)
        ],
    }


def _failed(name: str, problem: Problem) -> Answer:
    return {"name": name, "num_partitions": -1, "replication_factor": -1, "configs": []} | error_fields(problem)
