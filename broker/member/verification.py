"""Asks the coordinator of a transaction to confirm or to add the partitions of a producer (KIP-890).

A broker has at most one pending request to each coordinator; later questions go together in the next one.
(Apache Kafka, AddPartitionsToTxnManager.scala.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.connections import Connections
from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.cluster.state import ClusterView
from highwater.broker.runtime import Runtime
from highwater.broker.topics.internal_topic import TRANSACTIONS_TOPIC
from highwater.broker.txn.transaction import Producer
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.apis import ADD_PARTITIONS_TO_TXN
from highwater.kafka.protocol.cold import Answer

_VERSION: Final = 5

Verdicts = Mapping[TopicPartition, ErrorCode]


class _Question(NamedTuple):
    transactional_id: str
    producer: Producer
    partitions: Sequence[TopicPartition]
    adds: bool
    then: Callable[[Verdicts], None]


class RemoteVerification:
    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        partition_of: Callable[[str], int | None],
        connections: Connections,
    ) -> None:
        """`partition_of` gives the partition of `__transaction_state` that keeps a transactional id, None if none."""
        self._broker_id = runtime.broker_id
        self._cluster = cluster
        self._partition_of = partition_of
        self._connections = connections
        self._timeout_ms = runtime.config.integer("request.timeout.ms")
        self._waiting: dict[int, list[_Question]] = {}
        """Questions for the next request, by broker; a broker is in it while a request to it is pending."""

    def is_needed(self, transactional_id: str) -> bool:
        """Whether the coordinator is another broker, so that a request is needed."""
        return self._coordinator(transactional_id) != self._broker_id

    def ask(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        then: Callable[[Verdicts], None],
        *,
        adds: bool,
    ) -> None:
        """Call back with an error code for each of the partitions, maybe before this returns.

        `adds`: the coordinator adds the partitions to the transaction; else it only says whether they are in it.
        """
        question = _Question(transactional_id, producer, partitions, adds, then)
        broker_id = self._coordinator(transactional_id)
        if broker_id is None or self._connections.to(broker_id) is None:
            _answer_all([question], ErrorCode.coordinator_not_available)
        elif broker_id in self._waiting:
            self._waiting[broker_id].append(question)
        else:
            self._waiting[broker_id] = [question]
            self._send(broker_id)

    def close(self) -> None:
        self._connections.close()

    def _coordinator(self, transactional_id: str) -> int | None:
        index = self._partition_of(transactional_id)
        view = None if index is None else self._cluster.partition(TRANSACTIONS_TOPIC, index)
        return None if view is None else view.leader

    def _send(self, broker_id: int) -> None:
        # A request has each transactional id only once, because the answer identifies transactions by it.
        waiting = self._waiting[broker_id]
        batch = {question.transactional_id: question for question in reversed(waiting)}
        rest = [question for question in waiting if batch[question.transactional_id] is not question]
        self._waiting[broker_id] = rest
        peer = self._connections.to(broker_id)
        if peer is None:
            del self._waiting[broker_id]
            _answer_all([*batch.values(), *rest], ErrorCode.coordinator_not_available)
            return

        def answered(answer: Any | PeerFailure) -> None:
            if self._waiting[broker_id]:
                self._send(broker_id)
            else:
                del self._waiting[broker_id]
            if isinstance(answer, PeerFailure):
                _answer_all(batch.values(), ErrorCode.network_exception)
            elif answer.error_code:
                _answer_all(batch.values(), ErrorCode(answer.error_code))
            else:
                _tell(batch, answer)

        request = {"transactions": [_transaction(question) for question in batch.values()]}
        ask(peer, ADD_PARTITIONS_TO_TXN, _VERSION, request, answered, timeout_ms=self._timeout_ms)


def _transaction(question: _Question) -> Answer:
    return {
        "transactional_id": question.transactional_id,
        "producer_id": question.producer.producer_id,
        "producer_epoch": question.producer.epoch,
        "verify_only": not question.adds,
        "topics": [
            {"name": topic, "partitions": [index for _, index in keys]}
            for topic, keys in groupby(sorted(question.partitions), key=itemgetter(0))
        ],
    }


def _tell(batch: Mapping[str, _Question], answer: Any) -> None:
    told = {
        result.transactional_id: {
            (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
        for result in answer.results_by_transaction
    }
    for transactional_id, question in batch.items():
        verdicts = told.get(transactional_id, {})
        question.then({key: verdicts.get(key, ErrorCode.unknown_server_error) for key in question.partitions})


def _answer_all(questions: Iterable[_Question], error: ErrorCode) -> None:
    for question in questions:
        question.then(dict.fromkeys(question.partitions, error))
