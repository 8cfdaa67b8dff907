"""AddPartitionsToTxn: v0-v5 (key 24)

Behaviour:
* When the answer is sent, the log has the partitions of the transaction. The first ones begin the transaction.
* One partition that does not exist fails all: UNKNOWN_TOPIC_OR_PARTITION, and OPERATION_NOT_ATTEMPTED for the others.
* Another producer id than the transactional id's: INVALID_PRODUCER_ID_MAPPING; another epoch: PRODUCER_FENCED; a
  transaction that is being ended: CONCURRENT_TRANSACTIONS.

Versions: before v2 PRODUCER_FENCED is INVALID_PRODUCER_EPOCH. v4 is for brokers: several transactions at once, each
added to or only verified (KIP-890). Brokers add for clients of version 2 of transactions. v5 may answer
TRANSACTION_ABORTABLE for a partition outside the transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.error_by_version import for_version
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.txn.transaction import Producer
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.records.record import TRANSACTIONS_2

Outcomes = dict[TopicPartition, ErrorCode]


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    deferred = Deferred()
    if context.version < 4:
        _add(
            node,
            request.v3_and_below_transactional_id,
            Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            _partitions(request.v3_and_below_topics),
            lambda outcomes: deferred.complete(
                lambda: {"results_by_topic_v3_and_below": _encode(outcomes, context.version)}
            ),
        )
        return deferred.now_or_later()
    results: dict[int, tuple[str, Outcomes]] = {}

    def answered(slot: int, transactional_id: str, outcomes: Outcomes) -> None:
        results[slot] = transactional_id, outcomes
        if len(results) == len(request.transactions):
            deferred.complete(
                lambda: {
                    "error_code": ErrorCode.none,
                    "results_by_transaction": [
                        {"transactional_id": name, "topic_results": _encode(found, context.version)}
                        for _, (name, found) in paced(sorted(results.items()))
                    ],
                }
            )

    for slot, transaction in enumerate(request.transactions):
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        carry_out = _verify if transaction.verify_only else partial(_add, client_version=TRANSACTIONS_2)
        answer = partial(answered, slot, transaction.transactional_id)
        carry_out(node, transaction.transactional_id, producer, _partitions(transaction.topics), answer)
    if not request.transactions:
        return {"error_code": ErrorCode.none, "results_by_transaction": []}
    return deferred.now_or_later()


def _partitions(topics: Any) -> list[TopicPartition]:
    return [(topic.name, partition) for topic in topics for partition in topic.partitions]


def _missing(node: Node, partitions: list[TopicPartition]) -> Outcomes | None:
    missing = {key for key in paced(partitions) if node.cluster.partition(*key) is None}
    if not missing:
        return None
    return {
        key: ErrorCode.unknown_topic_or_partition if key in missing else ErrorCode.operation_not_attempted
        for key in paced(partitions)
    }


def _add(
    node: Node,
    transactional_id: str,
    producer: Producer,
    partitions: list[TopicPartition],
    answer: Callable[[Outcomes], None],
    client_version: int = 0,
) -> None:
    if (outcomes := _missing(node, partitions)) is not None:
        answer(outcomes)
        return
    node.transactions.add_partitions(
        transactional_id,
        producer,
        partitions,
        lambda error: answer(dict.fromkeys(partitions, error)),
        client_version=client_version,
    )


def _verify(
    node: Node,
    transactional_id: str,
    producer: Producer,
    partitions: list[TopicPartition],
    answer: Callable[[Outcomes], None],
) -> None:
    if (outcomes := _missing(node, partitions)) is None:
        outcomes = {key: node.transactions.verify(transactional_id, *producer, *key) for key in paced(partitions)}
    answer(outcomes)


def _encode(outcomes: Outcomes, version: int) -> list[Answer]:
    outcomes = {key: for_version(error, knows_fenced=version >= 2) for key, error in paced(outcomes.items())}
    return [
        {
            "name": topic,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": outcomes[topic, index]} for _, index in keys
            ],
        }
        for topic, keys in groupby(paced(sorted(outcomes)), key=itemgetter(0))
    ]
