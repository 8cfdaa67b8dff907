"""EndTxn: v0-v5 (key 26)

Behaviour:
* The answer comes when the decision is in the log: nothing can change it from then on. The markers follow; until they
  are written, other requests for the transaction get CONCURRENT_TRANSACTIONS.
* A repeated request: NONE when the transaction ended that way, else INVALID_TXN_STATE.
* From v5 on the end raises the epoch, and the answer has the producer of the next transaction. An abort of nothing is
  allowed then.
* Another producer id than the transactional id's: INVALID_PRODUCER_ID_MAPPING; another epoch: PRODUCER_FENCED.

Versions: before v2 PRODUCER_FENCED is INVALID_PRODUCER_EPOCH; v4 may answer TRANSACTION_ABORTABLE (KIP-890); v5
is for clients of version 2 of transactions.
"""

from __future__ import annotations

from typing import Any, Final

from highwater.broker.handlers.shared.error_by_version import for_version
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.txn.transaction import Producer, ProducerAnswer
from highwater.kafka.records.record import TRANSACTIONS_2

_RAISES_FROM: Final = 5


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    deferred = Deferred()

    def answer(value: ProducerAnswer) -> None:
        error_code = for_version(value.error_code, knows_fenced=context.version >= 2)
        producer_id, producer_epoch = value.producer
        deferred.complete({"error_code": error_code, "producer_id": producer_id, "producer_epoch": producer_epoch})

    producer = Producer(request.producer_id, request.producer_epoch)
    version = 0
    if context.version >= _RAISES_FROM:
        version = TRANSACTIONS_2
        context.client.uses_transactions_2 = True
    node.transactions.end(request.transactional_id, producer, request.committed, answer, client_version=version)
    return deferred.now_or_later()
