"""AddOffsetsToTxn: v0-v4 (key 25)

Behaviour: adds the group's partition of `__consumer_offsets` to the transaction, as AddPartitionsToTxn adds others.
Offsets of TxnOffsetCommit take effect when the transaction is committed.

Versions: before v2 PRODUCER_FENCED is INVALID_PRODUCER_EPOCH; v4 may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.error_by_version import for_version
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC
from highwater.broker.txn.transaction import Producer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    partition = node.groups.partition_of(request.group_id)
    if partition is None:
        node.auto_creation.create([OFFSETS_TOPIC])
        partition = node.groups.partition_of(request.group_id)
    if partition is None:
        return {"error_code": ErrorCode.coordinator_not_available}
    deferred = Deferred()

    def answer(error: ErrorCode) -> None:
        deferred.complete({"error_code": for_version(error, knows_fenced=context.version >= 2)})

    producer = Producer(request.producer_id, request.producer_epoch)
    node.transactions.add_partitions(request.transactional_id, producer, [(OFFSETS_TOPIC, partition)], answer)
    return deferred.now_or_later()
