"""InitProducerId: v0-v5 (key 22)

Behaviour:
* Without a transactional id: a producer id nobody had before, epoch 0. The producer's own id and epoch (v3, KIP-360)
  matter only to transactional producers.
* With a transactional id: INVALID_REQUEST, as there are no transactions yet.
"""

from __future__ import annotations

import logging
from typing import Any

from kio.schema.errors import ErrorCode

from broker.handlers.reply import Reply, RequestContext
from broker.node import Node
from broker.protocol.cold import Answer

_logger = logging.getLogger(__name__)


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if request.transactional_id is not None:
        return _failed(ErrorCode.invalid_request)
    try:
        producer_id = node.next_producer_id()
    except OSError as error:
        _logger.error("cannot take a block of producer ids: %s", error)
        return _failed(ErrorCode.kafka_storage_error)
    return {"producer_id": producer_id, "producer_epoch": 0}


def _failed(error_code: ErrorCode) -> Answer:
    return {"error_code": error_code, "producer_id": -1, "producer_epoch": -1}
