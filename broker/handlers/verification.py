"""Asks the coordinator whether a partition is in a transaction, before the first batch (KIP-890).

Without the question a batch that comes late, after its transaction has ended, would begin one that nobody ever ends.
A coordinator on this broker is asked as the batch is appended; one elsewhere before, and by the time it has answered
the transaction may have ended here: then what it said counts no longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.fencing import as_known
from highwater.broker.handlers.member import member_of
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition, Verify
from highwater.broker.txn.transaction import Producer, TopicPartition

if TYPE_CHECKING:
    from highwater.broker.cluster.verification import Verdicts


class Verified(NamedTuple):
    """What a coordinator elsewhere said of a partition."""

    verdict: ErrorCode
    last_marker: int
    """Of the producer in the partition, when the coordinator was asked."""


def verifier(
    node: Node,
    transactional_id: str,
    partition: Partition,
    *,
    knows_abortable: bool,
    verified: Verified | None = None,
) -> Verify:
    """`knows_abortable`: the client's version of the API knows TRANSACTION_ABORTABLE.

    `verified` is there if the coordinator is elsewhere and was asked.
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
        # What writes records and offsets has no version that knows PRODUCER_FENCED.
        return as_known(error, knows_fenced=False)

    return verify


def is_asked_elsewhere(node: Node, transactional_id: str) -> bool:
    """Whether another broker must be asked, so that it takes a while."""
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
    """Ask the coordinator about producers who have no transaction in their partitions yet, at least one."""
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
