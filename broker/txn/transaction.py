"""The state machine of one transactional id: events and the time in, effects out.

    state                previous states                        meaning
    Empty                Empty, CompleteCommit, CompleteAbort   a producer has its id; it may begin
    Ongoing              Ongoing, Empty, CompleteCommit,        partitions are in the transaction; EndTxn, a time-out or
                         CompleteAbort                          a newer producer ends it
    PrepareCommit        Ongoing                                decided: markers are written to every partition
    PrepareAbort         Ongoing, PrepareEpochFence             likewise
    CompleteCommit       PrepareCommit                          every partition has its marker
    CompleteAbort        PrepareAbort                           likewise
    Dead                 Empty, CompleteCommit, CompleteAbort   expired: a tombstone is written
    PrepareEpochFence    Ongoing                                in Kafka, before a newer producer's PrepareAbort; here
                                                                that is one step, so this state is never used

(Apache Kafka, TransactionMetadata.scala and TransactionCoordinator.scala; KIP-98, and KIP-360 for a producer that
requests a new epoch itself.) A state takes effect after it is appended to the log. During the append, and from a
decision until its last marker, the answer to other requests is CONCURRENT_TRANSACTIONS, and clients retry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
LAST_EPOCH: Final = 32767 - 1
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
    TxnState.PREPARE_ABORT: frozenset((TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE)),
    TxnState.COMPLETE_COMMIT: frozenset((TxnState.PREPARE_COMMIT,)),
    TxnState.COMPLETE_ABORT: frozenset((TxnState.PREPARE_ABORT,)),
    TxnState.DEAD: _ENDED,
    TxnState.PREPARE_EPOCH_FENCE: frozenset((TxnState.ONGOING,)),
}


class Producer(NamedTuple):
    """A producer instance; a newer instance of the same transactional id has a higher epoch, or another id."""

    producer_id: int
    epoch: int


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


class InitAnswer(NamedTuple):
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


class Retry(NamedTuple):
    """Effect: call `Transaction.retry` after this delay."""

    delay_ms: int


Effect: TypeAlias = Reply | StoreTransaction | Mark | Retry
AnswerError: TypeAlias = Callable[[ErrorCode], None]
AnswerInit: TypeAlias = Callable[[InitAnswer], None]


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
        next_producer_id: Callable[[], int | ErrorCode],
        answer: AnswerInit,
        now_ms: int,
    ) -> list[Effect]:
        """Begin a new producer, or (KIP-360) continue the `expected` one with a new epoch after an error."""

        def refuse(error: ErrorCode) -> list[Effect]:
            return [Reply(partial(answer, InitAnswer(error)))]

        if self._change is not None:
            return refuse(ErrorCode.concurrent_transactions)
        kept = self.kept
        is_present = expected is None or self.is_new or expected == kept.producer
        is_repeated = expected == kept.last and self.state is not TxnState.ONGOING
        if not is_present and not is_repeated:
            return refuse(ErrorCode.producer_fenced)
        if self.state is TxnState.ONGOING:
            # Fence the current producer first. No producer gets the raised epoch; this client retries for the next.
            return self._fence(lambda error: refuse(error or ErrorCode.concurrent_transactions), now_ms)
        producer, last = kept.producer, kept.last
        if is_present:
            last = NO_PRODUCER if expected is None else producer
            if producer.epoch < LAST_EPOCH:
                producer = producer._replace(epoch=producer.epoch + 1)
            else:
                producer_id = next_producer_id()
                if isinstance(producer_id, ErrorCode):
                    return refuse(producer_id)
                producer = Producer(producer_id, 0)
        # Otherwise this is a retry of a request whose answer was lost: answer the same.
        initialised = StoredTransaction(producer, timeout_ms, TxnState.EMPTY, frozenset(), now_ms, last=last)
        answered = InitAnswer(ErrorCode.none, producer)
        return self._begin(initialised, lambda error: refuse(error) if error else [Reply(partial(answer, answered))])

    def add_partitions(
        self, producer: Producer, partitions: Iterable[TopicPartition], answer: AnswerError, now_ms: int
    ) -> list[Effect]:
        kept = self.kept
        error = self._check(producer)
        if error is None and self._change is not None:
            error = ErrorCode.concurrent_transactions
        added = kept.partitions.union(partitions)
        if error is None and self.state is TxnState.ONGOING and added == kept.partitions:
            error = ErrorCode.none
        if error is not None:
            return [Reply(partial(answer, error))]
        start_ms = kept.start_ms if self.state is TxnState.ONGOING else now_ms
        grown = kept._replace(state=TxnState.ONGOING, partitions=added, start_ms=start_ms, last_update_ms=now_ms)
        return self._begin(grown, lambda error: [Reply(partial(answer, error))])

    def verify(self, producer: Producer, partition: TopicPartition) -> ErrorCode:
        """Whether the producer may write to the partition as part of its transaction (KIP-890)."""
        if (error := self._check(producer)) is not None:
            return error
        if self.state in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT):
            return ErrorCode.concurrent_transactions
        return ErrorCode.none if partition in self.kept.partitions else ErrorCode.transaction_abortable

    def end(self, producer: Producer, is_commit: bool, answer: AnswerError, now_ms: int) -> list[Effect]:
        """Commit or abort; answers when the decision is in the log. A repeated request gets the same answer."""
        error = self._check(producer)
        if error is None and self._change is not None:
            error = ErrorCode.concurrent_transactions
        if error is None and self.state is not TxnState.ONGOING:
            wanted = TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT
            error = ErrorCode.none if self.state is wanted else ErrorCode.invalid_txn_state
        if error is not None:
            return [Reply(partial(answer, error))]
        return self._decide(is_commit, lambda error: [Reply(partial(answer, error))], now_ms)

    def _check(self, producer: Producer) -> ErrorCode | None:
        if producer.producer_id != self.kept.producer.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        return ErrorCode.producer_fenced if producer.epoch != self.kept.producer.epoch else None

    # Time

    def is_overdue(self, now_ms: int) -> bool:
        kept = self.kept
        return kept.state is TxnState.ONGOING and self._change is None and kept.start_ms + kept.timeout_ms < now_ms

    def time_out(self, now_ms: int) -> list[Effect]:
        """Abort a transaction that has timed out, and fence its producer."""
        return self._fence(lambda error: [], now_ms) if self.is_overdue(now_ms) else []

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

    def _fence(self, then: Callable[[ErrorCode], list[Effect]], now_ms: int) -> list[Effect]:
        kept = self.kept
        if not self._fence_failed:
            # In effect at once: even if the log refuses it, the fenced producer must not write any more.
            producer = kept.producer._replace(epoch=kept.producer.epoch + 1)
            self.kept = kept._replace(producer=producer, last=NO_PRODUCER)

        def decided(error: ErrorCode) -> list[Effect]:
            self._fence_failed = bool(error)
            return then(error)

        return self._decide(False, decided, now_ms)

    def _decide(self, is_commit: bool, then: Callable[[ErrorCode], list[Effect]], now_ms: int) -> list[Effect]:
        state = TxnState.PREPARE_COMMIT if is_commit else TxnState.PREPARE_ABORT

        def decided(error: ErrorCode) -> list[Effect]:
            return then(error) if error else [*then(error), *self.complete(now_ms)]

        return self._begin(self.kept._replace(state=state, last_update_ms=now_ms), decided)

    def complete(self, now_ms: int) -> list[Effect]:
        """Complete a decision: write the markers, then store the Complete state. Also used after a restart."""
        if self.state not in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT):
            return []
        state = TxnState.COMPLETE_COMMIT if self.state is TxnState.PREPARE_COMMIT else TxnState.COMPLETE_ABORT
        completed = self.kept._replace(state=state, partitions=frozenset(), last_update_ms=now_ms)
        self._set_out(completed, lambda error: [])
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
        return [Mark(tuple(sorted(kept.partitions)), kept.producer, self.state is TxnState.PREPARE_COMMIT)]

    def marked(self, partition: TopicPartition, error: ErrorCode) -> list[Effect]:
        """Note the outcome of writing a marker.

        A deleted partition needs no marker, and a partition that knows a newer epoch of the producer refuses it. Other
        errors are temporary, for example while a leader is elected, and lead to a retry.
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
        self._set_out(to, then)
        return [StoreTransaction(to)]

    def _set_out(self, to: StoredTransaction, then: Callable[[ErrorCode], list[Effect]]) -> None:
        if self._change is not None or self.state not in _PREVIOUS[to.state]:
            raise RuntimeError(f"{self.state.kafka_name} cannot become {to.state.kafka_name}")
        self._change = _Change(to, then)

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


_DONE_WITH: Final = frozenset((ErrorCode.none, ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_producer_epoch))
_LEADER_MOVES: Final = frozenset(
    (ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available, ErrorCode.network_exception)
)
EXPECTED_MARKER_ERRORS: Final = _LEADER_MOVES | {ErrorCode.unknown_topic_or_partition}
"""These errors are normal and are not logged."""
