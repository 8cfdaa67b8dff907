"""Whether a producer's transaction has a partition, asked of its coordinator before the first batch goes in (KIP-890).

Without the question a batch that comes late, after its transaction has ended, would begin one that nobody ever ends.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker.handlers.fencing import as_known
from broker.node import Node
from broker.replica.partition import Verify


def verifier(node: Node, transactional_id: str, topic: str, partition: int, *, knows_abortable: bool) -> Verify:
    """`knows_abortable`: the client's version of the API knows TRANSACTION_ABORTABLE."""

    def verify(producer_id: int, producer_epoch: int) -> ErrorCode:
        if not node.config.boolean("transaction.partition.verification.enable"):
            return ErrorCode.none
        error = node.transactions.verify(transactional_id, producer_id, producer_epoch, topic, partition)
        if error is ErrorCode.transaction_abortable and not knows_abortable:
            return ErrorCode.invalid_txn_state
        # What writes records and offsets has no version that knows PRODUCER_FENCED.
        return as_known(error, knows_fenced=False)

    return verify
