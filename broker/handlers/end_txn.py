"""EndTxn: v0-v4 (key 26)

Behaviour:
* The answer comes when the decision is in the log: nothing can change it from then on. The markers follow; until they
  are written, other requests for the transaction get CONCURRENT_TRANSACTIONS.
* A repeated request: NONE when the transaction ended that way, else INVALID_TXN_STATE.
* Another producer id than the transactional id's: INVALID_PRODUCER_ID_MAPPING; another epoch: PRODUCER_FENCED.

Versions: before v2 PRODUCER_FENCED is INVALID_PRODUCER_EPOCH; v4 may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.error_by_version import for_version
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.txn.transaction import Producer, ProducerAnswer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    deferred = Deferred()

    def answer(value: ProducerAnswer) -> None:
        deferred.complete({"error_code": for_version(value.error_code, knows_fenced=context.version >= 2)})

    producer = Producer(request.producer_id, request.producer_epoch)
    node.transactions.end(request.transactional_id, producer, request.committed, answer)
    return deferred.now_or_later()
