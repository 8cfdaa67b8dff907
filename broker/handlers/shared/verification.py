"""Has the coordinator confirm or add a partition before the first batch of a transaction (KIP-890).

Without this a late batch, after the end of its transaction, would begin a transaction that nobody ever ends. A client
of version 1 of transactions has added the partition itself, and the coordinator confirms that: one on this broker
during the append, one on another broker before the append. For a client of version 2 the coordinator adds the
partition, before the append wherever it is, as that takes a record. If a transaction ends in this partition before the
answer, the answer is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.error_by_version import for_version
from highwater.broker.handlers.shared.member import member_of
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition, Verify
from highwater.broker.txn.transaction import Producer
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.records.record import TRANSACTIONS_2

if TYPE_CHECKING:
    from highwater.broker.member.verification import Verdicts

_RETRY_MS: Final = 20
_MOST_RETRIES: Final = 5
"""The defaults of Kafka: add.partitions.to.txn.retry.backoff.ms is 20, and its `max` 100."""


class Verified(NamedTuple):
    """The answer of a coordinator that was asked before the append, for a partition."""

    verdict: ErrorCode
    last_marker: int
    """The producer's state in the partition when the coordinator was asked."""


Wanted: TypeAlias = Sequence[tuple[Partition, Producer]]
Then: TypeAlias = Callable[[Mapping[TopicPartition, Verified]], None]
Ask: TypeAlias = Callable[[Producer, Sequence[TopicPartition], "Callable[[Verdicts], None]"], None]


def verifier(
    node: Node,
    transactional_id: str,
    partition: Partition,
    *,
    knows_abortable: bool,
    verified: Verified | None = None,
) -> Verify:
    """`knows_abortable`: the client's version of the API knows TRANSACTION_ABORTABLE.

    `verified` is not None if the coordinator was asked before the append.
    """

    def ask(producer_id: int, producer_epoch: int) -> ErrorCode:
        if verified is None:
            if not node.config.boolean("transaction.partition.verification.enable"):
                return ErrorCode.none
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


def verify_elsewhere(node: Node, transactional_id: str, wanted: Wanted, then: Then) -> None:
    """Ask the coordinator about producers (at least one) that have no open transaction in their partitions."""
    _ask(wanted, then, partial(member_of(node).verification.ask, transactional_id, adds=False))


def add_to_transaction(node: Node, transactional_id: str, wanted: Wanted, then: Then) -> None:
    """Have the coordinator add the partitions of producers (at least one) that have no open transaction there.

    A client begins its next transaction before the last one has all its markers. The coordinator is asked again for a
    short time, as the client would wait longer than that before it comes again (KAFKA-18654). If the marker came to the
    partition after the question, the answer may be about the last transaction, and the coordinator is asked again too.
    """
    left = _MOST_RETRIES
    answers: dict[TopicPartition, Verified] = {}

    def answered(verified: Mapping[TopicPartition, Verified]) -> None:
        nonlocal left
        answers.update(verified)
        again = []
        for partition, producer in wanted:
            key = (partition.topic, partition.index)
            marker = partition.log.producer_states.last_marker(producer.producer_id)
            if answers[key].last_marker != marker:
                answers[key] = Verified(ErrorCode.concurrent_transactions, marker)
            if answers[key].verdict is ErrorCode.concurrent_transactions:
                again.append((partition, producer))
        if again and left:
            left -= 1
            node.scheduler.call_later(_RETRY_MS, partial(_ask, again, answered, ask))
        else:
            then(answers)

    ask = partial(_add, node, transactional_id)
    _ask(wanted, answered, ask)


def _add(
    node: Node,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    then: Callable[[Verdicts], None],
) -> None:
    if node.member is not None and node.member.verification.is_needed(transactional_id):
        node.member.verification.ask(transactional_id, producer, partitions, then, adds=True)
        return
    node.transactions.add_partitions(
        transactional_id,
        producer,
        partitions,
        lambda error: then(dict.fromkeys(partitions, error)),
        client_version=TRANSACTIONS_2,
    )


def _ask(wanted: Wanted, then: Then, ask: Ask) -> None:
    """Ask for each producer, and call back when all answers are there."""
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

    for producer, partitions in by_producer.items():
        ask(producer, partitions, answered)
