"""CreatePartitions: v0-v3 (key 37)

Behaviour: each topic by itself; the count is the new total, which must be larger than the present one
(INVALID_PARTITIONS). One topic named twice: INVALID_REQUEST, both times. Nothing changes with validate_only. Above the
controller_mutation_rate of the client: THROTTLING_QUOTA_EXCEEDED from v3 on (handlers/mutation_quota.py).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.mutation_quota import MutationQuota
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.administration import MorePartitions, Terms
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer, milliseconds
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    named = Counter(topic.name for topic in request.topics)
    wanted = [
        MorePartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [list(entry.broker_ids) for entry in topic.assignments],
        )
        for topic in request.topics
    ]
    quota = MutationQuota(node, context, strict_from_version=3)
    deferred = Deferred()

    def answered(results: list[Problem | None]) -> Answer:
        rest = iter(results)
        told = [
            {"name": topic.name} | error_fields(_named_twice(topic.name) if named[topic.name] > 1 else next(rest))
            for topic in paced(wanted)
        ]
        return quota.throttled({"results": told})

    node.administration.add_partitions(
        [topic for topic in paced(wanted) if named[topic.name] == 1],
        Terms(milliseconds(request.timeout), request.validate_only, quota.charge),
        deferred.complete_by(answered),
    )
    return deferred.now_or_later()


def _named_twice(topic: str) -> Problem:
    return Problem(ErrorCode.invalid_request, f"Topic '{topic}' is named twice in the request.")
