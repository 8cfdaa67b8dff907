"""ListTransactions: v0-v2 (key 66)

Behaviour: returns the transactional ids (KIP-664) that pass the filters by state and by producer id, and the unknown
states of the filter. COORDINATOR_LOAD_IN_PROGRESS while the ids are read back after a start.

Versions: v1 filters by the time since the start of the transaction (KIP-994), whether it has ended or not; v2 by a
pattern that the whole id matches, in RE2's syntax (KIP-1152): INVALID_REGULAR_EXPRESSION if it is none.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.txn.transaction import TxnState
from highwater.kafka.pacing import paced
from highwater.kafka.regular_expressions import Pattern, PatternError

_logger = logging.getLogger(__name__)

_STATES: Final = {state.kafka_name: state for state in TxnState}
_ANY_DURATION: Final = -1


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    listings = node.transactions.all_transactions()
    if isinstance(listings, ErrorCode):
        return {"error_code": listings}
    text = getattr(request, "transactional_id_pattern", None)
    try:
        pattern = Pattern(text) if text else None
    except PatternError as problem:
        _logger.info("a client asks for transactions by a pattern that is none: %s", problem)
        return {"error_code": ErrorCode.invalid_regular_expression}
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    producer_ids = set(request.producer_id_filters)
    duration_ms = getattr(request, "duration_filter", _ANY_DURATION)
    now_ms = node.clock.now_ms()
    return {
        "error_code": ErrorCode.none,
        "unknown_state_filters": [name for name in request.state_filters if name not in _STATES],
        "transaction_states": [
            {
                "transactional_id": transactional_id,
                "producer_id": found.producer.producer_id,
                "transaction_state": found.state.kafka_name,
            }
            for transactional_id, found in paced(listings)
            if (not request.state_filters or found.state in states)
            and (not producer_ids or found.producer.producer_id in producer_ids)
            and (duration_ms < 0 or now_ms - found.start_ms > duration_ms)
            and (pattern is None or pattern.matches(transactional_id))
        ],
    }
