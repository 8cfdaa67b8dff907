"""The transaction coordinator: passes requests to the transactions and executes their effects.

A transaction's state machine returns effects; the coordinator sends answers, appends states to `__transaction_state`,
and writes markers to the partitions of a decided transaction. A state is in the log before a client sees it, so a crash
at any moment leaves either nothing or a decision: after a start the topic is read back, and decided transactions get
their markers. A marker that is written twice does no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.clock import ClockGuard, Timer
from highwater.broker.cluster.state import ClusterView
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.topics.internal_topic import APPEND_ERRORS, TRANSACTIONS_TOPIC, InternalTopic, fits
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.settled_records import SettledRecords
from highwater.broker.txn.markers import Markers
from highwater.broker.txn.producer_ids import ProducerIds
from highwater.broker.txn.schemas import decode_key, decode_transaction, encode_key, encode_transaction
from highwater.broker.txn.transaction import (
    EXPECTED_MARKER_ERRORS,
    AnswerError,
    AnswerProducer,
    Effect,
    Mark,
    Producer,
    ProducerAnswer,
    Reply,
    StoredTransaction,
    StoreTransaction,
    Transaction,
    TxnState,
)
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.records.record import TRANSACTIONS_2, TransactionMarker

_logger = logging.getLogger(__name__)

_ABORT_INTERVAL: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_EXPIRE_INTERVAL: Final = "transaction.remove.expired.transaction.cleanup.interval.ms"
_EXPIRED_AT_ONCE: Final = 500
_EXPIRE_MORE_MS: Final = 10


class Listing(NamedTuple):
    transactional_id: str
    transaction: StoredTransaction


class TransactionCoordinator:
    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        cluster: ClusterView,
        producer_ids: ProducerIds,
        markers: Markers,
        level: Callable[[], int],
    ) -> None:
        """`level` gives the finalised level of `transaction.version`."""
        config = runtime.config
        self._config = config
        self._clock = runtime.clock
        self._scheduler = runtime.scheduler
        self._producer_ids = producer_ids
        self._markers = markers
        self._level = level
        self.topic = InternalTopic(
            runtime,
            partitions,
            cluster,
            TRANSACTIONS_TOPIC,
            "transactions",
            self._load,
            self._unload,
            read_bytes=config.integer("transaction.state.log.load.buffer.size"),
        )
        self._transactions: dict[str, Transaction] = {}
        self._clock_guard = ClockGuard(runtime.clock)
        self._ongoing: dict[str, Transaction] = {}
        """The transactional ids whose transactions may time out."""
        self._timers: dict[str, Timer] = {}
        self._longest_timeout_ms = config.integer("transaction.max.timeout.ms")
        self._expiration_ms = config.integer("transactional.id.expiration.ms")
        self._is_closed = False

    # The topic

    def topic_deleted(self, name: str) -> None:
        """Remove all transactions when `__transaction_state` is deleted. Writing a marker notices other topics."""
        if name == TRANSACTIONS_TOPIC:
            self.topic.forget()

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Note partitions that the cluster deleted."""
        self.topic.forget_if_gone()

    def _unload(self, index: int) -> None:
        for transactional_id in [name for name in self._transactions if self.topic.index_of(name) == index]:
            del self._transactions[transactional_id]
            self._ongoing.pop(transactional_id, None)
            if (timer := self._timers.pop(_retry_of(transactional_id), None)) is not None:
                timer.cancel()

    def close(self) -> None:
        """Refuse new requests, because the broker stops."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _refusal(self, transactional_id: str) -> ErrorCode | None:
        if not transactional_id or not fits(transactional_id):
            return ErrorCode.invalid_request
        if self._is_closed:
            return ErrorCode.coordinator_not_available
        return self.topic.refusal(transactional_id)

    def partition_of(self, transactional_id: str) -> int | None:
        """Return the partition of `__transaction_state` for an id; None while there is no such topic."""
        return self.topic.index_of(transactional_id)

    def _find(self, transactional_id: str) -> Transaction | ErrorCode:
        if (error := self._refusal(transactional_id)) is not None:
            return error
        return self._transactions.get(transactional_id, ErrorCode.invalid_producer_id_mapping)

    # Requests

    def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, answer: AnswerProducer
    ) -> None:
        error = self._refusal(transactional_id)
        if not 0 < timeout_ms <= self._longest_timeout_ms and error is not ErrorCode.invalid_request:
            error = ErrorCode.invalid_transaction_timeout
        if error is not None:
            answer(ProducerAnswer(error))
            return
        now_ms = self._clock.now_ms()
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            producer_id = self._producer_ids.next()
            if isinstance(producer_id, ErrorCode):
                answer(ProducerAnswer(producer_id))
                return
            transaction = Transaction.new(producer_id, timeout_ms, now_ms)
            self._transactions[transactional_id] = transaction
            self._schedule("expire", self._expire, _EXPIRE_INTERVAL)
        effects = transaction.init_producer(
            timeout_ms, expected, self._producer_ids.next, answer, now_ms, level=self._level()
        )
        self._apply(transactional_id, transaction, effects)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
        answer: AnswerError,
        *,
        client_version: int = 0,
    ) -> None:
        """Add partitions to a transaction, and begin it with the first. `client_version` is the client's version of
        transactions.
        """
        found = self._find(transactional_id)
        if isinstance(found, ErrorCode):
            answer(found)
            return
        now_ms = self._clock.now_ms()
        effects = found.add_partitions(producer, partitions, answer, now_ms, client_version=client_version)
        self._apply(transactional_id, found, effects)

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, topic: str, partition: int
    ) -> ErrorCode:
        """Whether the producer may write to the partition as part of its transaction (KIP-890)."""
        found = self._find(transactional_id)
        if isinstance(found, ErrorCode):
            return found
        return found.verify(Producer(producer_id, producer_epoch), (topic, partition))

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        is_commit: bool,
        answer: AnswerProducer,
        *,
        client_version: int = 0,
    ) -> None:
        """Commit or abort. The answer names the next producer if the client's version of transactions is 2."""
        found = self._find(transactional_id)
        if isinstance(found, ErrorCode):
            answer(ProducerAnswer(found))
            return
        now_ms = self._clock.now_ms()
        if client_version >= TRANSACTIONS_2:
            effects = found.end_raising(producer, is_commit, self._producer_ids.next, answer, now_ms)
        else:
            effects = found.end(producer, is_commit, answer, now_ms)
        self._apply(transactional_id, found, effects)

    # Administration

    def describe(self, transactional_id: str) -> StoredTransaction | ErrorCode:
        found = self._find(transactional_id)
        if isinstance(found, ErrorCode):
            return ErrorCode.transactional_id_not_found if found is ErrorCode.invalid_producer_id_mapping else found
        return found.kept

    def all_transactions(self) -> list[Listing] | ErrorCode:
        if self._is_closed:
            return ErrorCode.coordinator_not_available
        if self.topic.is_loading:
            return ErrorCode.coordinator_load_in_progress
        return [Listing(name, transaction.kept) for name, transaction in self._transactions.items()]

    # Time

    def _schedule(self, name: str, work: Callable[[], None], interval: str | int) -> None:
        """Schedule `work` after an interval (the name of a property, or ms), unless it is scheduled already."""
        if name in self._timers or self._is_closed:
            return
        delay_ms = interval if isinstance(interval, int) else self._config.integer(interval)

        def due() -> None:
            del self._timers[name]
            work()

        self._timers[name] = self._scheduler.call_later(delay_ms, due)

    def _abort_overdue(self) -> None:
        now_ms = self._clock.now_ms()
        for transactional_id, transaction in tuple(self._ongoing.items()):
            if transaction.is_overdue(now_ms):
                _logger.info("the transaction of %s takes too long and is aborted", transactional_id)
                effects = transaction.time_out(self._producer_ids.next, now_ms, level=self._level())
                self._apply(transactional_id, transaction, effects)
        self._watch_ongoing()

    def _watch_ongoing(self) -> None:
        if self._ongoing:
            self._schedule("abort", self._abort_overdue, _ABORT_INTERVAL)

    def _expire(self) -> None:
        """Remove ids that were not used for transactional.id.expiration.ms."""
        now_ms = self._clock_guard.now_ms()
        expired = [
            transactional_id
            for transactional_id, transaction in self._transactions.items()
            if now_ms is not None and transaction.is_expired(now_ms, self._expiration_ms)
        ]
        self._bury(expired)

    def _bury(self, expired: Sequence[str]) -> None:
        """Remove a few ids at a time, as each tombstone is an append."""
        now_ms = self._clock.now_ms()
        for transactional_id in expired[:_EXPIRED_AT_ONCE]:
            transaction = self._transactions.get(transactional_id)
            if transaction is not None and transaction.is_expired(now_ms, self._expiration_ms):
                self._apply(transactional_id, transaction, transaction.expire())
        if rest := expired[_EXPIRED_AT_ONCE:]:
            self._schedule("expire", partial(self._bury, rest), _EXPIRE_MORE_MS)
        elif self._transactions:
            self._schedule("expire", self._expire, _EXPIRE_INTERVAL)

    # Executing effects

    def _apply(self, transactional_id: str, transaction: Transaction, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                effect.deliver()
            elif isinstance(effect, StoreTransaction):
                self._store(transactional_id, transaction, effect)
            elif isinstance(effect, Mark):
                self._mark(transactional_id, transaction, effect)
            else:
                retry = partial(self._retry, transactional_id, transaction)
                self._schedule(_retry_of(transactional_id), retry, effect.delay_ms)
        if not self._is_ours(transactional_id, transaction):
            return
        if transaction.is_dead:
            del self._transactions[transactional_id]
        elif transaction.state is TxnState.ONGOING:
            self._ongoing[transactional_id] = transaction
            self._watch_ongoing()
        else:
            self._ongoing.pop(transactional_id, None)

    def _store(self, transactional_id: str, transaction: Transaction, store: StoreTransaction) -> None:
        value = None if store.transaction is None else encode_transaction(store.transaction, level=self._level())

        def stored(error: ErrorCode) -> None:
            if not self._is_ours(transactional_id, transaction):
                error = ErrorCode.not_coordinator
            self._apply(transactional_id, transaction, transaction.stored(_STORE_ERRORS.get(error, error)))
            if transaction.is_new and self._is_ours(transactional_id, transaction):
                del self._transactions[transactional_id]

        if self._is_ours(transactional_id, transaction):
            record = (encode_key(transactional_id), value)
            now_ms, timeout_ms = self._clock.now_ms(), transaction.kept.timeout_ms
            self.topic.append(transactional_id, [record], now_ms, stored, timeout_ms=timeout_ms)
        else:
            stored(ErrorCode.not_coordinator)

    def _is_ours(self, transactional_id: str, transaction: Transaction) -> bool:
        """Return False if another broker leads or has led the topic's partition meanwhile, or the topic was deleted."""
        return self._transactions.get(transactional_id) is transaction

    def _mark(self, transactional_id: str, transaction: Transaction, mark: Mark) -> None:
        coordinator_epoch = self.topic.leader_epoch(transactional_id)
        marker = TransactionMarker(*mark.producer, coordinator_epoch, mark.is_commit, mark.version)

        def marked(key: TopicPartition, error: ErrorCode) -> None:
            if not self._is_ours(transactional_id, transaction):
                return
            if error and error not in EXPECTED_MARKER_ERRORS:
                _logger.warning("no marker of transaction %s in %s-%d: %s", transactional_id, *key, error.name)
            self._apply(transactional_id, transaction, transaction.marked(key, error))

        is_still_ours = partial(self._is_ours, transactional_id, transaction)
        self._markers.write(mark.partitions, marker, marked, is_still_ours)

    def _retry(self, transactional_id: str, transaction: Transaction) -> None:
        if self._is_ours(transactional_id, transaction):
            self._apply(transactional_id, transaction, transaction.retry())

    # Reading back

    def _load(self, partition: Partition) -> Iterator[None]:
        settled = SettledRecords()
        for header, batch in self.topic.batches(partition):
            settled.take(header, batch)
            yield
        transactions: dict[str, Transaction] = {}
        for raw_key, value in settled.latest.items():
            transactional_id = decode_key(raw_key)
            if transactional_id is not None:
                transactions[transactional_id] = Transaction(decode_transaction(value))
        self._transactions |= transactions
        now_ms = self._clock.now_ms()
        for transactional_id, transaction in transactions.items():
            self._apply(transactional_id, transaction, transaction.complete(now_ms))
        self._schedule("expire", self._expire, _EXPIRE_INTERVAL)


def _retry_of(transactional_id: str) -> str:
    """Return the name of a retry timer; the names of other timers contain no blank."""
    return f"retry {transactional_id}"


_STORE_ERRORS: Final = APPEND_ERRORS | {ErrorCode.request_timed_out: ErrorCode.coordinator_not_available}
"""The errors that clients get when the log refuses a state (TransactionStateManager.appendTransactionToLog)."""
