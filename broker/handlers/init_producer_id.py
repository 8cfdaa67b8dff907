"""InitProducerId: v0-v5 (key 22)

Behaviour:
* Without a transactional id: an unused producer id, epoch 0. The producer's own id and epoch matter only to
  transactional producers.
* With a transactional id: its producer id and the next epoch, which fences earlier instances; the answer comes when the
  log has the epoch. An open transaction is aborted first: CONCURRENT_TRANSACTIONS, and the client retries. After the
  last epoch the producer gets a new id.
* While the broker has no producer ids: COORDINATOR_LOAD_IN_PROGRESS in a cluster, where it requests a block from the
  controller; KAFKA_STORAGE_ERROR if it runs alone.
* A time-out above transaction.max.timeout.ms: INVALID_TRANSACTION_TIMEOUT.

Versions: v3 brings the producer's own id and epoch (KIP-360): the producer gets the next epoch unless another instance
has a higher one, else PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before v4 (KIP-588).
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.error_by_version import for_version
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.txn.transaction import NO_EPOCH, NO_PRODUCER, NO_PRODUCER_ID, Producer, ProducerAnswer
from highwater.kafka.protocol.cold import Answer, milliseconds


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    own = Producer(getattr(request, "producer_id", NO_PRODUCER_ID), getattr(request, "producer_epoch", NO_EPOCH))
    if own != NO_PRODUCER and (own.producer_id == NO_PRODUCER_ID or own.epoch == NO_EPOCH):
        return _encode(context, ProducerAnswer(ErrorCode.invalid_request))
    deferred = Deferred()

    def answer(value: ProducerAnswer) -> None:
        deferred.complete(_encode(context, value))

    if request.transactional_id is None:
        producer_id = node.producer_ids.next()
        if isinstance(producer_id, ErrorCode):
            return _encode(context, ProducerAnswer(producer_id))
        return _encode(context, ProducerAnswer(ErrorCode.none, Producer(producer_id, 0)))
    timeout_ms = milliseconds(request.transaction_timeout)
    expected = None if own == NO_PRODUCER else own
    node.transactions.init_producer(request.transactional_id, timeout_ms, expected, answer)
    return deferred.now_or_later()


def _encode(context: RequestContext, value: ProducerAnswer) -> Answer:
    return {
        "error_code": for_version(value.error_code, knows_fenced=context.version >= 4),
        "producer_id": value.producer.producer_id,
        "producer_epoch": value.producer.epoch,
    }
