"""FindCoordinator: v0-v4 (key 10)

Behaviour:
* This broker coordinates every group and every transactional id. The first to ask for one has `__consumer_offsets` or
  `__transaction_state` made, and is answered when it is there; Kafka answers COORDINATOR_NOT_AVAILABLE meanwhile, as we
  do when it cannot be made.
* Other kinds of keys: INVALID_REQUEST.

librdkafka takes this API for the sign of a broker that knows lz4, and would send such batches uncompressed otherwise.

Versions: v1 brings kinds of keys; v4 several keys in one request (KIP-699).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.administration import Problem
from broker.handlers.reply import Reply, RequestContext
from broker.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.node import Node
from broker.protocol.cold import Answer

_GROUP: Final = 0
_TOPICS: Final = {_GROUP: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC}
"""Where coordinators keep what they know, by the kind of key."""


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    place = _find(node, context, getattr(request, "key_type", _GROUP))
    if context.version >= 4:
        return {"coordinators": [{"key": key} | place for key in request.coordinator_keys]}
    return place


def _find(node: Node, context: RequestContext, key_type: int) -> Answer:
    topic = _TOPICS.get(key_type)
    if topic is None:
        return _nowhere(ErrorCode.invalid_request, f"There are no coordinators of kind {key_type}.")
    if node.topic(topic) is None and isinstance(problem := node.local_topics.create_by_default(topic), Problem):
        return _nowhere(ErrorCode.coordinator_not_available, problem.message)
    listener = context.client.listener
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "node_id": node.broker_id,
        "host": listener.host,
        "port": listener.port,
    }


def _nowhere(error_code: ErrorCode, message: str) -> Answer:
    return {"error_code": error_code, "error_message": message, "node_id": -1, "host": "", "port": -1}
