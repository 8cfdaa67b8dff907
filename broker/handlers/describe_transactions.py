"""DescribeTransactions: v0-v0 (key 65)

Behaviour: each transactional id by itself (KIP-664): its producer, the state and start of its transaction, and the
partitions in it, after a decision those without a marker. An unknown id: TRANSACTIONAL_ID_NOT_FOUND.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return {"transaction_states": [_describe(node, name) for name in request.transactional_ids]}


def _describe(node: Node, transactional_id: str) -> Answer:
    found = node.transactions.describe(transactional_id)
    if isinstance(found, ErrorCode):
        return {"error_code": found, "transactional_id": transactional_id}
    return {
        "error_code": ErrorCode.none,
        "transactional_id": transactional_id,
        "transaction_state": found.state.kafka_name,
        "transaction_timeout": found.timeout_ms,
        "transaction_start_time": found.start_ms,
        "producer_id": found.producer.producer_id,
        "producer_epoch": found.producer.epoch,
        "topics": [
            {"topic": topic, "partitions": [index for _, index in keys]}
            for topic, keys in groupby(sorted(found.partitions), key=itemgetter(0))
        ],
    }
