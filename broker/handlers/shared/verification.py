"""Asks the coordinator whether a partition is in a transaction, before the first batch (KIP-890).

Without this check a late batch, after the end of its transaction, would begin a transaction that nobody ever ends. A
coordinator on this broker is asked during the append. A coordinator on another broker is asked before the append; if
the transaction ends in this partition before the answer, the answer is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.error_by_version import for_version
from highwater.broker.handlers.shared.member import member_of
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition, Verify
from highwater.broker.txn.transaction import Producer
from highwater.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from highwater.broker.member.verification import Verdicts


class Verified(NamedTuple):
    """The answer of a coordinator on another broker for a partition."""

    verdict: ErrorCode
    last_marker: int
    """The producer's state in the partition when the coordinator was asked."""


def verifier(
    node: Node,
    transactional_id: str,
    partition: Partition,
    *,
    knows_abortable: bool,
    verified: Verified | None = None,
) -> Verify:
    """`knows_abortable`: the client's version of the API knows TRANSACTION_ABORTABLE.

    `verified` is not None if the coordinator is on another broker and was asked.
    """

    def ask(producer_id: int, producer_epoch: int) -> ErrorCode:
        if not node.config.boolean("transaction.partition.verification.enable"):
            return ErrorCode.none
        if verified is None:
            return node.transactions.verify(
                transactional_id, producer_id, producer_epoch, partition.topic, partition.index
            )
        if partition.log.producer_states.last_marker(producer_id) != verified.last_marker:
            return ErrorCode.invalid_txn_state
        return verified.verdict

    def verify(producer_id: int, producer_epoch: int) -> ErrorCode:
        error = ask(producer_id, producer_epoch)
        if error is ErrorCode.transaction_abortable and not knows_abortable:
            return ErrorCode.invalid_txn_state
        # No version of Produce or TxnOffsetCommit has PRODUCER_FENCED.
        return for_version(error, knows_fenced=False)

    return verify


def is_asked_elsewhere(node: Node, transactional_id: str) -> bool:
    """Whether the coordinator is on another broker, so that the answer takes a while."""
    member = node.member
    return (
        member is not None
        and node.config.boolean("transaction.partition.verification.enable")
        and member.verification.is_needed(transactional_id)
    )


def verify_elsewhere(
    node: Node,
    transactional_id: str,
    wanted: Iterable[tuple[Partition, Producer]],
    then: Callable[[Mapping[TopicPartition, Verified]], None],
) -> None:
    """Ask the coordinator about producers (at least one) that have no open transaction in their partitions."""
    last_markers: dict[TopicPartition, int] = {}
    by_producer: dict[Producer, list[TopicPartition]] = {}
    for partition, producer in wanted:
        key = (partition.topic, partition.index)
        last_markers[key] = partition.log.producer_states.last_marker(producer.producer_id)
        by_producer.setdefault(producer, []).append(key)
    verified: dict[TopicPartition, Verified] = {}
    left = len(by_producer)

    def answered(verdicts: Verdicts) -> None:
        nonlocal left
        verified.update({key: Verified(verdict, last_markers[key]) for key, verdict in verdicts.items()})
        left -= 1
        if left == 0:
            then(verified)

    verification = member_of(node).verification
    for producer, partitions in by_producer.items():
        verification.ask(transactional_id, producer, partitions, answered)
