"""FindCoordinator: v0-v4 (key 10)

Behaviour:
* This broker coordinates every group. The first to ask for one has `__consumer_offsets` made, and is answered when it
  is there; Kafka answers COORDINATOR_NOT_AVAILABLE meanwhile, as we do when it cannot be made.
* Transactional ids: COORDINATOR_NOT_AVAILABLE, as there are no transactions yet. Other kinds of keys: INVALID_REQUEST.

librdkafka takes this API for the sign of a broker that knows lz4, and would send such batches uncompressed otherwise.

Versions: v1 brings kinds of keys; v4 several keys in one request (KIP-699).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.handlers.reply import Reply, RequestContext
from broker.internal_topic import OFFSETS_TOPIC
from broker.node import Node, Problem
from broker.protocol.cold import Answer

_GROUP: Final = 0
_TRANSACTION: Final = 1


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    place = _find(node, context, getattr(request, "key_type", _GROUP))
    if context.version >= 4:
        return {"coordinators": [{"key": key} | place for key in request.coordinator_keys]}
    return place


def _find(node: Node, context: RequestContext, key_type: int) -> Answer:
    if key_type == _TRANSACTION:
        return _nowhere(ErrorCode.coordinator_not_available, "This version of the broker has no transactions.")
    if key_type != _GROUP:
        return _nowhere(ErrorCode.invalid_request, f"There are no coordinators of kind {key_type}.")
    if node.topic(OFFSETS_TOPIC) is None and isinstance(problem := node.create_by_default(OFFSETS_TOPIC), Problem):
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
