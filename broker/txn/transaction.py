"""The state machine of one transactional id: events and the time in, effects out.

    state                previous states                        meaning
    Empty                Empty, CompleteCommit, CompleteAbort   a producer has its id; it may begin
    Ongoing              Ongoing, Empty, CompleteCommit,        partitions are in the transaction; EndTxn, a time-out or
                         CompleteAbort                          a newer producer ends it
    PrepareCommit        Ongoing                                decided: markers are written to every partition
    PrepareAbort         Ongoing, PrepareEpochFence; in         likewise; without partitions, if a client of version 2
                         version 2 Empty, CompleteCommit,       does not know whether its records arrived
                         CompleteAbort
    CompleteCommit       PrepareCommit                          every partition has its marker
    CompleteAbort        PrepareAbort                           likewise
    Dead                 Empty, CompleteCommit, CompleteAbort   expired: a tombstone is written
    PrepareEpochFence    Ongoing                                in Kafka, before a newer producer's PrepareAbort; here
                                                                that is one step, so this state is never used

(Apache Kafka, TransactionMetadata.scala and TransactionCoordinator.scala; KIP-98, and KIP-360 for a producer that
requests a new epoch itself.) A state takes effect after it is appended to the log. During the append, and from a
decision until its last marker, the answer to other requests is CONCURRENT_TRANSACTIONS, and clients retry.

In version 2 of transactions (KIP-890) each end raises the epoch, so that a late record or a late marker of one
transaction cannot change the next one. The state PrepareCommit or PrepareAbort has the raised epoch, and its markers
carry it. After the last epoch, the state Complete has a new producer id with epoch 0. The client gets that pair in the
answer to EndTxn. A transaction has the version of its client; what no client decides has the finalised level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.records.record import HIGHEST_EPOCH, TRANSACTIONS_2

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
LAST_EPOCH: Final = HIGHEST_EPOCH - 1
"""The highest epoch of a producer; one more remains to fence it."""

_FIRST_RETRY_MS: Final = 100
_LONGEST_RETRY_MS: Final = 1000
"""Short: the producer waits, and missing in-sync replicas may be back at any moment."""


class TxnState(IntEnum):
    """The values are those of the log records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        return self.name.title().replace("_", "")


_ENDED: Final = frozenset((TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT))
_PREVIOUS: Final = {
    TxnState.EMPTY: _ENDED,
    TxnState.ONGOING: _ENDED | {TxnState.ONGOING},
    TxnState.PREPARE_COMMIT: frozenset((TxnState.ONGOING,)),
    TxnState.PREPARE_ABORT: _ENDED | {TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE},
    TxnState.COMPLETE_COMMIT: frozenset((TxnState.PREPARE_COMMIT,)),
    TxnState.COMPLETE_ABORT: frozenset((TxnState.PREPARE_ABORT,)),
    TxnState.DEAD: _ENDED,
    TxnState.PREPARE_EPOCH_FENCE: frozenset((TxnState.ONGOING,)),
}


class Producer(NamedTuple):
    """A producer instance; a newer instance of the same transactional id has a higher epoch, or another id."""

    producer_id: int
    epoch: int

    def raised(self) -> Producer:
        """Return what fences this instance and ends its transaction. No producer gets the highest epoch.

        An instance that has the highest epoch keeps it, so that its transaction can still be aborted (KAFKA-20090).
        """
        return self._replace(epoch=min(self.epoch + 1, HIGHEST_EPOCH))


NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_EPOCH)


class StoredTransaction(NamedTuple):
    """The state of a transactional id as it is stored in the log."""

    producer: Producer
    timeout_ms: int
    state: TxnState
    partitions: frozenset[TopicPartition]
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    last: Producer = NO_PRODUCER
    """The earlier instance that continued as the current producer, to recognize its retry. It is not in the log."""
    previous_id: int = NO_PRODUCER_ID
    """The producer id of the state before this one, to recognize the retry of an EndTxn that brought a new id."""
    next: Producer = NO_PRODUCER
    """Who follows when the transaction is complete, if the epochs of `producer` are exhausted. The epoch is 0."""
    client_version: int = 0
    """The version of transactions that the client used for the last transaction."""

    @property
    def completed_by(self) -> Producer:
        """The producer of the state Complete that follows a decision."""
        return self.producer if self.next == NO_PRODUCER else self.next._replace(epoch=0)


class ProducerAnswer(NamedTuple):
    error_code: ErrorCode
    producer: Producer = NO_PRODUCER


class Reply(NamedTuple):
    """Effect: answer a request."""

    deliver: Callable[[], None]


class StoreTransaction(NamedTuple):
    """Effect: append this or a tombstone to the log, then report the outcome to `Transaction.stored`."""

    transaction: StoredTransaction | None


class Mark(NamedTuple):
    """Effect: write a marker to each partition, then report each outcome to `Transaction.marked`."""

    partitions: tuple[TopicPartition, ...]
    producer: Producer
    is_commit: bool
    version: int
    """The version of the transaction. A leader checks the epoch of a marker of version 2 strictly (KIP-1228)."""


class Retry(NamedTuple):
    """Effect: call `Transaction.retry` after this delay."""

    delay_ms: int


Effect: TypeAlias = Reply | StoreTransaction | Mark | Retry
AnswerError: TypeAlias = Callable[[ErrorCode], None]
AnswerProducer: TypeAlias = Callable[[ProducerAnswer], None]
NextId: TypeAlias = Callable[[], int | ErrorCode]


class _Change(NamedTuple):
    """A state that is being appended to the log."""

    to: StoredTransaction
    then: Callable[[ErrorCode], list[Effect]]


class Transaction:
    def __init__(self, kept: StoredTransaction) -> None:
        self.kept = kept
        """The state in effect. After a decision, its partitions are those without a marker."""
        self._change: _Change | None = None
        self._fence_failed = False
        """The epoch was raised to fence a producer, but the log refused it: it must not be raised a second time."""
        self._being_marked: set[TopicPartition] = set()
        self._retry_ms = _FIRST_RETRY_MS

    @classmethod
    def new(cls, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state of a new transactional id, which is not in the log yet."""
        return cls(StoredTransaction(Producer(producer_id, NO_EPOCH), timeout_ms, TxnState.EMPTY, frozenset(), now_ms))

    @property
    def is_new(self) -> bool:
        """Whether the log has no record of it."""
        return self.kept.producer.epoch == NO_EPOCH

    @property
    def state(self) -> TxnState:
        return self.kept.state

    # Requests

    def init_producer(
        self,
        timeout_ms: int,
        expected: Producer | None,
        next_producer_id: NextId,
        answer: AnswerProducer,
        now_ms: int,
        *,
        level: int,
    ) -> list[Effect]:
        """Begin a new producer, or (KIP-360) continue the `expected` one with a new epoch after an error.

        `level` is the finalised level of `transaction.version`.
        """

        refuse = partial(_tell, answer, NO_PRODUCER)
        if self._change is not None:
            return refuse(ErrorCode.concurrent_transactions)
        kept = self.kept
        is_present = expected is None or self.is_new or expected == kept.producer
        is_repeated = expected == kept.last and self.state is not TxnState.ONGOING
        if not is_present and not is_repeated:
            return refuse(ErrorCode.producer_fenced)
        if self.state is TxnState.ONGOING:
            # Fence the current producer first. No producer gets the raised epoch; this client retries for the next.
            return self._fence(
                lambda error: refuse(error or ErrorCode.concurrent_transactions), next_producer_id, now_ms, level
            )
        producer, last = kept.producer, kept.last
        if is_present:
            last = NO_PRODUCER if expected is None else producer
            successor = _successor(producer, next_producer_id)
            if isinstance(successor, ErrorCode):
                return refuse(successor)
            producer = successor
        # Otherwise this is a retry of a request whose answer was lost: answer the same.
        initialised = StoredTransaction(
            producer,
            timeout_ms,
            TxnState.EMPTY,
            frozenset(),
            now_ms,
            last=last,
            client_version=kept.client_version,
        )
        return self._begin(initialised, partial(_tell, answer, producer))

    def add_partitions(
        self,
        producer: Producer,
        partitions: Iterable[TopicPartition],
        answer: AnswerError,
        now_ms: int,
        *,
        client_version: int = 0,
    ) -> list[Effect]:
        kept = self.kept
        # First: the producer may have its next id already, which takes effect with the pending change (KAFKA-18660).
        error = ErrorCode.concurrent_transactions if self._change is not None else self._check(producer)
        added = kept.partitions.union(partitions)
        if error is None and self.state is TxnState.ONGOING and added == kept.partitions:
            error = ErrorCode.none
        if error is not None:
            return [Reply(partial(answer, error))]
        start_ms = kept.start_ms if self.state is TxnState.ONGOING else now_ms
        grown = kept._replace(
            state=TxnState.ONGOING,
            partitions=added,
            start_ms=start_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )
        return self._begin(grown, lambda error: [Reply(partial(answer, error))])

    def verify(self, producer: Producer, partition: TopicPartition) -> ErrorCode:
        """Whether the producer may write to the partition as part of its transaction (KIP-890)."""
        if (error := self._check(producer)) is not None:
            return error
        if self.state in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT):
            return ErrorCode.concurrent_transactions
        return ErrorCode.none if partition in self.kept.partitions else ErrorCode.transaction_abortable

    def end(self, producer: Producer, is_commit: bool, answer: AnswerProducer, now_ms: int) -> list[Effect]:
        """Commit or abort; answers when the decision is in the log. A repeated request gets the same answer."""
        error = self._check(producer)
        if error is None and self._change is not None:
            error = ErrorCode.concurrent_transactions
        if error is None and self.state is not TxnState.ONGOING:
            wanted = TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT
            error = ErrorCode.none if self.state is wanted else ErrorCode.invalid_txn_state
        if error is not None:
            return _tell(answer, NO_PRODUCER, error)
        return self._begin(self._decided(is_commit, now_ms), self._then_complete(partial(_tell, answer, NO_PRODUCER)))

    def end_raising(
        self, producer: Producer, is_commit: bool, next_producer_id: NextId, answer: AnswerProducer, now_ms: int
    ) -> list[Effect]:
        """End the transaction of a client of version 2, and answer with the producer of the next transaction.

        A retry names the producer before the end. An abort without partitions is allowed: the client does not know
        whether its records added some. (TransactionCoordinator.endTransaction, in the same order.)
        """

        refuse = partial(_tell, answer, NO_PRODUCER)
        if self._change is not None:
            return refuse(ErrorCode.concurrent_transactions)
        kept = self.kept
        has_new_id = (
            producer.producer_id == kept.previous_id and producer.epoch == LAST_EPOCH and kept.producer.epoch == 0
        )
        if producer.producer_id != kept.producer.producer_id and not has_new_id:
            return refuse(ErrorCode.invalid_producer_id_mapping)
        is_retry = self.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT) and (
            # No producer gets the highest epoch, which a fence of version 1 may have left.
            has_new_id or producer.epoch + 1 == kept.producer.epoch <= LAST_EPOCH
        )
        if not is_retry and producer != kept.producer:
            return refuse(ErrorCode.producer_fenced)
        if is_retry:
            wanted = TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT
            if self.state is not wanted:
                return refuse(ErrorCode.invalid_txn_state)
            return _tell(answer, kept.producer, ErrorCode.none)
        if is_commit and self.state is not TxnState.ONGOING:
            return refuse(ErrorCode.invalid_txn_state)
        decided = self._decided_raising(is_commit, next_producer_id, now_ms)
        if isinstance(decided, ErrorCode):
            return refuse(decided)
        return self._begin(decided, self._then_complete(partial(_tell, answer, decided.completed_by)))

    def _check(self, producer: Producer) -> ErrorCode | None:
        if producer.producer_id != self.kept.producer.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        return ErrorCode.producer_fenced if producer.epoch != self.kept.producer.epoch else None

    # Time

    def is_overdue(self, now_ms: int) -> bool:
        kept = self.kept
        return kept.state is TxnState.ONGOING and self._change is None and kept.start_ms + kept.timeout_ms < now_ms

    def time_out(self, next_producer_id: NextId, now_ms: int, *, level: int) -> list[Effect]:
        """Abort a transaction that has timed out, and fence its producer. `level` is that of `transaction.version`."""
        return self._fence(lambda error: [], next_producer_id, now_ms, level) if self.is_overdue(now_ms) else []

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        kept = self.kept
        return kept.state in _ENDED and self._change is None and kept.last_update_ms <= now_ms - expiration_ms

    def expire(self) -> list[Effect]:
        """Store a tombstone; `is_dead` is true when the log has it."""
        self._change = _Change(self.kept._replace(state=TxnState.DEAD, partitions=frozenset()), lambda error: [])
        return [StoreTransaction(None)]

    @property
    def is_dead(self) -> bool:
        return self.state is TxnState.DEAD

    # Ending

    def _fence(
        self, then: Callable[[ErrorCode], list[Effect]], next_producer_id: NextId, now_ms: int, level: int
    ) -> list[Effect]:
        if level >= TRANSACTIONS_2:
            # The end raises the epoch, once. If the log refuses it, nothing has changed (KAFKA-19367).
            raised = self._decided_raising(False, next_producer_id, now_ms)
            return then(raised) if isinstance(raised, ErrorCode) else self._begin(raised, self._then_complete(then))
        kept = self.kept
        if not self._fence_failed:
            # In effect at once: even if the log refuses it, the fenced producer must not write any more.
            self.kept = kept._replace(producer=kept.producer.raised(), last=NO_PRODUCER)

        def decided(error: ErrorCode) -> list[Effect]:
            self._fence_failed = bool(error)
            return then(error)

        return self._begin(self._decided(False, now_ms), self._then_complete(decided))

    def _decided(self, is_commit: bool, now_ms: int) -> StoredTransaction:
        state = TxnState.PREPARE_COMMIT if is_commit else TxnState.PREPARE_ABORT
        return self.kept._replace(state=state, last_update_ms=now_ms, client_version=0)

    def _decided_raising(self, is_commit: bool, next_producer_id: NextId, now_ms: int) -> StoredTransaction | ErrorCode:
        kept = self.kept
        successor = _successor(kept.producer, next_producer_id)
        if isinstance(successor, ErrorCode):
            return successor
        has_new_id = successor.producer_id != kept.producer.producer_id
        return self._decided(is_commit, now_ms)._replace(
            producer=kept.producer.raised(),
            last=kept.producer,
            next=Producer(successor.producer_id, NO_EPOCH) if has_new_id else NO_PRODUCER,
            start_ms=kept.start_ms if self.state is TxnState.ONGOING else now_ms,
            client_version=TRANSACTIONS_2,
        )

    def _then_complete(self, then: Callable[[ErrorCode], list[Effect]]) -> Callable[[ErrorCode], list[Effect]]:
        def decided(error: ErrorCode) -> list[Effect]:
            return then(error) if error else [*then(error), *self.complete(self.kept.last_update_ms)]

        return decided

    def complete(self, now_ms: int) -> list[Effect]:
        """Complete a decision: write the markers, then store the Complete state. Also used after a restart."""
        if self.state not in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT):
            return []
        state = TxnState.COMPLETE_COMMIT if self.state is TxnState.PREPARE_COMMIT else TxnState.COMPLETE_ABORT
        completed = self.kept._replace(
            state=state,
            partitions=frozenset(),
            last_update_ms=now_ms,
            producer=self.kept.completed_by,
            next=NO_PRODUCER,
        )
        self._set_out(completed, lambda error: [])
        self._fence_failed = False
        self._retry_ms = _FIRST_RETRY_MS
        return self.retry()

    def retry(self) -> list[Effect]:
        """Continue the completion."""
        change, kept = self._change, self.kept
        if change is None:
            return []
        if not kept.partitions:
            return [StoreTransaction(change.to)]
        self._being_marked = set(kept.partitions)
        is_commit = self.state is TxnState.PREPARE_COMMIT
        return [Mark(tuple(sorted(kept.partitions)), kept.producer, is_commit, kept.client_version)]

    def marked(self, partition: TopicPartition, error: ErrorCode) -> list[Effect]:
        """Note the outcome of writing a marker.

        A deleted partition needs no marker. A partition that knows a newer epoch of the producer refuses it; so does
        one in which the next transaction of version 2 is open, which begins only after this marker was written there.
        Other errors are temporary, for example while a leader is elected, and lead to a retry.
        """
        self._being_marked.discard(partition)
        if error in _LEADER_MOVES:
            self._retry_ms = min(self._retry_ms, _FIRST_RETRY_MS)
        if error in _DONE_WITH:
            self.kept = self.kept._replace(partitions=self.kept.partitions - {partition})
        if self._being_marked:
            return []
        return self._later() if self.kept.partitions else self.retry()

    def _later(self) -> list[Effect]:
        delay_ms = self._retry_ms
        self._retry_ms = min(2 * delay_ms, _LONGEST_RETRY_MS)
        return [Retry(delay_ms)]

    # Changing

    def _begin(self, to: StoredTransaction, then: Callable[[ErrorCode], list[Effect]]) -> list[Effect]:
        return [StoreTransaction(self._set_out(to, then).to)]

    def _set_out(self, to: StoredTransaction, then: Callable[[ErrorCode], list[Effect]]) -> _Change:
        if self._change is not None or self.state not in _PREVIOUS[to.state]:
            raise RuntimeError(f"{self.state.kafka_name} cannot become {to.state.kafka_name}")
        change = self._change = _Change(to._replace(previous_id=self.kept.producer.producer_id), then)
        return change

    def stored(self, error: ErrorCode) -> list[Effect]:
        """Continue after the append of the last `StoreTransaction`: `error` is its outcome."""
        change = self._change
        if change is None:
            raise RuntimeError("nothing was to be stored")
        if error and change.to.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT):
            return self._later()
        self._change = None
        if not error:
            self.kept = change.to
        return change.then(error)


def _tell(answer: AnswerProducer, producer: Producer, error: ErrorCode) -> list[Effect]:
    """Answer with this producer, or with an error and none."""
    return [Reply(partial(answer, ProducerAnswer(error, NO_PRODUCER if error else producer)))]


def _successor(producer: Producer, next_producer_id: NextId) -> Producer | ErrorCode:
    """Return the instance after `producer`, or why there is no producer id for it now."""
    if producer.epoch < LAST_EPOCH:
        return producer.raised()
    next_id = next_producer_id()
    return next_id if isinstance(next_id, ErrorCode) else Producer(next_id, 0)


_DONE_WITH: Final = frozenset((ErrorCode.none, ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_producer_epoch))
_LEADER_MOVES: Final = frozenset(
    (ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available, ErrorCode.network_exception)
)
EXPECTED_MARKER_ERRORS: Final = _LEADER_MOVES | {ErrorCode.unknown_topic_or_partition}
"""These errors are normal and are not logged."""
