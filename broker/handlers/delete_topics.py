"""DeleteTopics: v0-v6 (key 20)

Behaviour: each topic by itself; parked fetches of it are answered, and waiting producers get
UNKNOWN_TOPIC_OR_PARTITION. TOPIC_DELETION_DISABLED when delete.topic.enable is false. Above the
controller_mutation_rate of the client: THROTTLING_QUOTA_EXCEEDED from v5 on (handlers/mutation_quota.py).

Versions: v5 brings error messages; v6 topic ids (UNKNOWN_TOPIC_ID; a name and an id together: INVALID_REQUEST).
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.mutation_quota import MutationQuota
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.administration import NOT_CONTROLLER, Terms
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer, milliseconds
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if not node.administration.is_controller:
        # The controller may know topics that this broker does not know yet.
        return _refuse(context, request)
    if context.version >= 6:
        found = [_find(node, topic.name, topic.topic_id) for topic in request.topics]
    else:
        found = [_find(node, name, None) for name in request.topic_names]
    quota = MutationQuota(node, context, strict_from_version=5)
    deferred = Deferred()

    def answered(results: list[Problem | None]) -> Answer:
        rest = iter(results)
        return quota.throttled({"responses": [_answer(topic, topic.problem or next(rest)) for topic in paced(found)]})

    node.administration.delete_topics(
        [str(topic.name) for topic in paced(found) if topic.problem is None],
        Terms(milliseconds(request.timeout), charge=quota.charge),
        deferred.complete_by(answered),
    )
    return deferred.now_or_later()


def _refuse(context: RequestContext, request: Any) -> Answer:
    named = (
        [_Named(topic.name, topic.topic_id) for topic in request.topics]
        if context.version >= 6
        else [_Named(name, None) for name in request.topic_names]
    )
    return {"responses": [_answer(topic, NOT_CONTROLLER) for topic in paced(named)]}


class _Named(NamedTuple):
    """A topic of the request, as the answer names it, with the error of its naming."""

    name: str | None
    topic_id: UUID | None
    problem: Problem | None = None


def _find(node: Node, name: str | None, topic_id: UUID | None) -> _Named:
    if topic_id is not None:
        if name is not None:
            return _Named(
                name, topic_id, Problem(ErrorCode.invalid_request, "Give a topic's name or its id, not both.")
            )
        topic = node.cluster.topic(topic_id)
        if topic is None:
            return _Named(
                None, topic_id, Problem(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
            )
        name = topic.name
    if name is None:
        return _Named(None, None, Problem(ErrorCode.invalid_request, "Neither a topic's name nor its id is given."))
    known = node.cluster.topic(name)
    return _Named(name, known.topic_id if known is not None else None)


def _answer(topic: _Named, problem: Problem | None) -> Answer:
    return {"name": topic.name, "topic_id": topic.topic_id} | error_fields(problem)
