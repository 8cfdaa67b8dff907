"""DeleteTopics: v0-v6 (key 20)

Behaviour: each topic by itself; fetches parked on it are answered and waiting producers told
UNKNOWN_TOPIC_OR_PARTITION. TOPIC_DELETION_DISABLED when delete.topic.enable is false.

Versions: v5 brings error messages; v6 topic ids (UNKNOWN_TOPIC_ID; a name and an id together: INVALID_REQUEST).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.handlers.reply import Reply, RequestContext
from broker.node import Node, Problem
from broker.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if context.version >= 6:
        return {"responses": [_delete(node, topic.name, topic.topic_id) for topic in request.topics]}
    return {"responses": [_delete(node, name, None) for name in request.topic_names]}


def _delete(node: Node, name: str | None, topic_id: UUID | None) -> Answer:
    if topic_id is not None:
        if name is not None:
            return _answer(
                name, topic_id, Problem(ErrorCode.invalid_request, "Give a topic's name or its id, not both.")
            )
        topic = node.topic(topic_id)
        if topic is None:
            return _answer(
                None, topic_id, Problem(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
            )
        name = topic.name
    if name is None:
        return _answer(None, None, Problem(ErrorCode.invalid_request, "Neither a topic's name nor its id is given."))
    known = node.topic(name)
    return _answer(name, known.topic_id if known is not None else None, node.delete_topic(name))


def _answer(name: str | None, topic_id: UUID | None, problem: Problem | None) -> Answer:
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": ErrorCode.none if problem is None else problem.error_code,
        "error_message": None if problem is None else problem.message,
    }
