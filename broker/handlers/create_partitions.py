"""CreatePartitions: v0-v3 (key 37)

Behaviour: each topic by itself; the count is the new total, which must be larger than the present one
(INVALID_PARTITIONS). One topic named twice: INVALID_REQUEST, both times. Nothing changes with validate_only.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from broker.handlers.reply import Reply, RequestContext
from broker.node import Node, Problem
from broker.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    topics = request.topics
    named = Counter(topic.name for topic in topics)
    return {"results": [_add(node, topic, named[topic.name] > 1, request.validate_only) for topic in topics]}


def _add(node: Node, wanted: Any, is_named_twice: bool, validate_only: bool) -> Answer:
    problem: Problem | None
    if is_named_twice:
        problem = Problem(ErrorCode.invalid_request, f"Topic '{wanted.name}' is named twice in the request.")
    else:
        assignments = None if wanted.assignments is None else [list(entry.broker_ids) for entry in wanted.assignments]
        problem = node.add_partitions(wanted.name, wanted.count, assignments, validate_only=validate_only)
    return {
        "name": wanted.name,
        "error_code": ErrorCode.none if problem is None else problem.error_code,
        "error_message": None if problem is None else problem.message,
    }
