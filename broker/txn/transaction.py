"""One transactional id: who its producer is, and how far its transaction has come. Events and the time in, effects out.

    state                comes from                             and then
    Empty                Empty, CompleteCommit, CompleteAbort   a producer has its id; it may begin
    Ongoing              Ongoing, Empty, CompleteCommit,        partitions are in the transaction; its end, its time-out
                         CompleteAbort                          or a newer producer ends it
    PrepareCommit        Ongoing                                decided: markers are written to every partition
    PrepareAbort         Ongoing, PrepareEpochFence             likewise
    CompleteCommit       PrepareCommit                          every partition has its marker
    CompleteAbort        PrepareAbort                           likewise
    Dead                 Empty, CompleteCommit, CompleteAbort   not used for long: a tombstone is written
    PrepareEpochFence    Ongoing                                a newer producer's epoch is on its way into
                                                                PrepareAbort; here that is one step, so nothing is
                                                                ever in this state

(Apache Kafka, TransactionMetadata.scala and TransactionCoordinator.scala; KIP-98, and KIP-360 for a producer that
asks for a new epoch itself.) Every state is written down before it is true. While a change is on its way, and from a
decision until its last marker, other requests are told CONCURRENT_TRANSACTIONS and come again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
LAST_EPOCH: Final = 32767 - 1
"""A producer gets no higher one, so that there is always one left to fence it with."""

_FIRST_RETRY_MS: Final = 100
_LONGEST_RETRY_MS: Final = 1000
"""Who has too few replicas in sync for a while has enough at any moment again, and the producer waits for this."""

TopicPartition: TypeAlias = tuple[str, int]


class State(IntEnum):
    """Numbered as the log has them."""

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


_ENDED: Final = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
_PREVIOUS: Final = {
    State.EMPTY: _ENDED,
    State.ONGOING: _ENDED | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset((State.ONGOING,)),
    State.PREPARE_ABORT: frozenset((State.ONGOING, State.PREPARE_EPOCH_FENCE)),
    State.COMPLETE_COMMIT: frozenset((State.PREPARE_COMMIT,)),
    State.COMPLETE_ABORT: frozenset((State.PREPARE_ABORT,)),
    State.DEAD: _ENDED,
    State.PREPARE_EPOCH_FENCE: frozenset((State.ONGOING,)),
}


class Producer(NamedTuple):
    """An instance of a producer: a newer one with the same transactional id has a higher epoch, or another id."""

    producer_id: int
    epoch: int


NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_EPOCH)


class StoredTransaction(NamedTuple):
    """What is written down of a transactional id."""

    producer: Producer
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    last: Producer = NO_PRODUCER
    """Who continued as the present producer: a retry is told by it. It is lost with the broker's run."""


class InitAnswer(NamedTuple):
    error_code: ErrorCode
    producer: Producer = NO_PRODUCER


class Answer(NamedTuple):
    """Effect: a request gets its answer."""

    deliver: Callable[[], None]


class Store(NamedTuple):
    """Effect: write this down, or a tombstone, then tell the transaction with `stored` how it went."""

    transaction: StoredTransaction | None


class Mark(NamedTuple):
    """Effect: write to each of the partitions how the transaction ended, then tell with `marked` how each went."""

    partitions: tuple[TopicPartition, ...]
    producer: Producer
    is_commit: bool


class Retry(NamedTuple):
    """Effect: call `retry` after so long."""

    delay_ms: int


Effect: TypeAlias = Answer | Store | Mark | Retry
AnswerError: TypeAlias = Callable[[ErrorCode], None]
AnswerInit: TypeAlias = Callable[[InitAnswer], None]


class _Change(NamedTuple):
    """A state on its way into the log."""

    to: StoredTransaction
    then: Callable[[ErrorCode], list[Effect]]


class Transaction:
    def __init__(self, kept: StoredTransaction) -> None:
        self.kept = kept
        """What is true. From a decision on, the partitions are those that have no marker yet."""
        self._change: _Change | None = None
        self._fence_failed = False
        """The epoch was raised to fence a producer, and the log did not take it: it need not be raised once more."""
        self._being_marked: set[TopicPartition] = set()
        self._retry_ms = _FIRST_RETRY_MS

    @classmethod
    def new(cls, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
        """One that nobody has asked for before; it is in no log yet."""
        return cls(StoredTransaction(Producer(producer_id, NO_EPOCH), timeout_ms, State.EMPTY, frozenset(), now_ms))

    @property
    def is_new(self) -> bool:
        """Whether the log has never had it."""
        return self.kept.producer.epoch == NO_EPOCH

    @property
    def state(self) -> State:
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
        """A producer begins, or (KIP-360) the `expected` one begins anew after an error."""

        def refuse(error: ErrorCode) -> list[Effect]:
            return [Answer(partial(answer, InitAnswer(error)))]

        if self._change is not None:
            return refuse(ErrorCode.concurrent_transactions)
        kept = self.kept
        is_present = expected is None or self.is_new or expected == kept.producer
        is_repeated = expected == kept.last and self.state is not State.ONGOING
        if not is_present and not is_repeated:
            return refuse(ErrorCode.producer_fenced)
        if self.state is State.ONGOING:
            # The present producer is fenced first. Its raised epoch is nobody's; who asks will come again for the next.
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
        # Otherwise the request was carried out, and the answer lost: it is the same again.
        initialised = StoredTransaction(producer, timeout_ms, State.EMPTY, frozenset(), now_ms, last=last)
        answered = InitAnswer(ErrorCode.none, producer)
        return self._begin(initialised, lambda error: refuse(error) if error else [Answer(partial(answer, answered))])

    def add_partitions(
        self, producer: Producer, partitions: Iterable[TopicPartition], answer: AnswerError, now_ms: int
    ) -> list[Effect]:
        kept = self.kept
        error = self._check(producer)
        if error is None and self._change is not None:
            error = ErrorCode.concurrent_transactions
        added = kept.partitions.union(partitions)
        if error is None and self.state is State.ONGOING and added == kept.partitions:
            error = ErrorCode.none
        if error is not None:
            return [Answer(partial(answer, error))]
        start_ms = kept.start_ms if self.state is State.ONGOING else now_ms
        grown = kept._replace(state=State.ONGOING, partitions=added, start_ms=start_ms, last_update_ms=now_ms)
        return self._begin(grown, lambda error: [Answer(partial(answer, error))])

    def verify(self, producer: Producer, partition: TopicPartition) -> ErrorCode:
        """Whether the producer may write to the partition as part of its transaction (KIP-890)."""
        if (error := self._check(producer)) is not None:
            return error
        if self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
            return ErrorCode.concurrent_transactions
        return ErrorCode.none if partition in self.kept.partitions else ErrorCode.transaction_abortable

    def end(self, producer: Producer, is_commit: bool, answer: AnswerError, now_ms: int) -> list[Effect]:
        """Answered when the decision is in the log. A repeated request is answered as the first one was."""
        error = self._check(producer)
        if error is None and self._change is not None:
            error = ErrorCode.concurrent_transactions
        if error is None and self.state is not State.ONGOING:
            wanted = State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT
            error = ErrorCode.none if self.state is wanted else ErrorCode.invalid_txn_state
        if error is not None:
            return [Answer(partial(answer, error))]
        return self._decide(is_commit, lambda error: [Answer(partial(answer, error))], now_ms)

    def _check(self, producer: Producer) -> ErrorCode | None:
        if producer.producer_id != self.kept.producer.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        return ErrorCode.producer_fenced if producer.epoch != self.kept.producer.epoch else None

    # Time

    def is_overdue(self, now_ms: int) -> bool:
        kept = self.kept
        return kept.state is State.ONGOING and self._change is None and kept.start_ms + kept.timeout_ms < now_ms

    def time_out(self, now_ms: int) -> list[Effect]:
        """Abort a transaction that takes too long, and fence its producer."""
        return self._fence(lambda error: [], now_ms) if self.is_overdue(now_ms) else []

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        kept = self.kept
        return kept.state in _ENDED and self._change is None and kept.last_update_ms <= now_ms - expiration_ms

    def expire(self) -> list[Effect]:
        """Have a tombstone written; `is_dead` when that is done."""
        self._change = _Change(self.kept._replace(state=State.DEAD, partitions=frozenset()), lambda error: [])
        return [Store(None)]

    @property
    def is_dead(self) -> bool:
        return self.state is State.DEAD

    # Ending

    def _fence(self, then: Callable[[ErrorCode], list[Effect]], now_ms: int) -> list[Effect]:
        kept = self.kept
        if not self._fence_failed:
            # True at once: whatever the log says, the fenced producer writes no more.
            producer = kept.producer._replace(epoch=kept.producer.epoch + 1)
            self.kept = kept._replace(producer=producer, last=NO_PRODUCER)

        def decided(error: ErrorCode) -> list[Effect]:
            self._fence_failed = bool(error)
            return then(error)

        return self._decide(False, decided, now_ms)

    def _decide(self, is_commit: bool, then: Callable[[ErrorCode], list[Effect]], now_ms: int) -> list[Effect]:
        state = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT

        def decided(error: ErrorCode) -> list[Effect]:
            return then(error) if error else [*then(error), *self.complete(now_ms)]

        return self._begin(self.kept._replace(state=state, last_update_ms=now_ms), decided)

    def complete(self, now_ms: int) -> list[Effect]:
        """Write what follows from a decision: markers, then that they are there. Also after a restart."""
        if self.state not in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
            return []
        state = State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
        completed = self.kept._replace(state=state, partitions=frozenset(), last_update_ms=now_ms)
        self._set_out(completed, lambda error: [])
        self._retry_ms = _FIRST_RETRY_MS
        return self.retry()

    def retry(self) -> list[Effect]:
        """Do what is left of the completion."""
        change, kept = self._change, self.kept
        if change is None:
            return []
        if not kept.partitions:
            return [Store(change.to)]
        self._being_marked = set(kept.partitions)
        return [Mark(tuple(sorted(kept.partitions)), kept.producer, self.state is State.PREPARE_COMMIT)]

    def marked(self, partition: TopicPartition, error: ErrorCode) -> list[Effect]:
        """How writing a marker went.

        A partition that is gone needs none, and one that heard of a newer epoch of the producer takes none. Any other
        error may pass; leaders move soon.
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
        return [Store(to)]

    def _set_out(self, to: StoredTransaction, then: Callable[[ErrorCode], list[Effect]]) -> None:
        if self._change is not None or self.state not in _PREVIOUS[to.state]:
            raise RuntimeError(f"{self.state.kafka_name} cannot become {to.state.kafka_name}")
        self._change = _Change(to, then)

    def stored(self, error: ErrorCode) -> list[Effect]:
        """How writing down the last `Store` went."""
        change = self._change
        if change is None:
            raise RuntimeError("nothing was to be stored")
        if error and change.to.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
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
"""Nobody need be told of these."""
