"""FindCoordinator: v0-v4 (key 10)

Behaviour: COORDINATOR_NOT_AVAILABLE for every key, which clients ask again for: there are no groups and transactions
yet. It is served because librdkafka takes it for the sign of a broker that knows lz4, and would send such batches
uncompressed otherwise.

Versions: v1 brings transactional ids; v4 several keys in one request (KIP-699).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.handlers.reply import Reply, RequestContext
from broker.node import Node

_NOWHERE: Final = {
    "error_code": ErrorCode.coordinator_not_available,
    "error_message": "This version of the broker has no consumer groups and no transactions.",
    "node_id": -1,
    "host": "",
    "port": -1,
}


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if context.version >= 4:
        return {"coordinators": [{"key": key} | _NOWHERE for key in request.coordinator_keys]}
    return _NOWHERE
