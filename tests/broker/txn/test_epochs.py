"""The epochs of a transactional id near their end, for clients of both versions of transactions and at each level."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from highwater.broker.txn.schemas import decode_transaction, encode_transaction
from highwater.broker.txn.transaction import (
    LAST_EPOCH,
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
from highwater.kafka.records.record import HIGHEST_EPOCH, TRANSACTIONS_2

PARTITION = ("t", 0)
STEPS = st.tuples(
    st.sampled_from(("init", "continue", "add", "commit", "abort", "time out", "restart", "refuse")),
    st.integers(0, TRANSACTIONS_2),
)


class Life:
    """One transactional id, with a log that may refuse the next state."""

    def __init__(self, epoch: int) -> None:
        kept = StoredTransaction(Producer(70, epoch), 1, TxnState.EMPTY, frozenset(), 0)
        self.ids = count(71)
        self.transaction = Transaction(kept)
        self.log = encode_transaction(kept, level=1)
        self.now_ms = 0
        self.refuses = False
        self.answers: list[Producer] = [kept.producer]
        self.marks: list[tuple[Producer, Mark]] = []
        """The producer whose records each marker ends."""
        self.writer = kept.producer

    def step(self, event: str, level: int) -> None:
        transaction, self.now_ms = self.transaction, self.now_ms + 10
        next_id = self.ids.__next__
        producer = self.answers[-1]
        if event == "refuse":
            self.refuses = True
        elif event == "restart":
            self.transaction = Transaction(decode_transaction(self.log))
            self.apply(self.transaction.complete(self.now_ms))
        elif event in ("init", "continue"):
            expected = producer if event == "continue" else None
            self.apply(transaction.init_producer(1, expected, next_id, self.answer, self.now_ms, level=level))
        elif event == "add":
            was_open = transaction.state is TxnState.ONGOING
            version = TRANSACTIONS_2 if level == TRANSACTIONS_2 else 0
            self.apply(transaction.add_partitions(producer, [PARTITION], _ignore, self.now_ms, client_version=version))
            if transaction.state is TxnState.ONGOING and not was_open:
                self.writer = producer
        elif event == "time out":
            self.apply(transaction.time_out(next_id, self.now_ms, level=level))
        elif level == TRANSACTIONS_2:
            self.apply(transaction.end_raising(producer, event == "commit", next_id, self.answer, self.now_ms))
        else:
            self.apply(transaction.end(producer, event == "commit", self.answer, self.now_ms))

    def answer(self, value: ProducerAnswer) -> None:
        if value.error_code is ErrorCode.none and value.producer.producer_id >= 0:
            self.answers.append(value.producer)

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                effect.deliver()
            elif isinstance(effect, StoreTransaction):
                assert effect.transaction is not None
                error = ErrorCode.none
                if self.refuses and effect.transaction.state not in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT):
                    error, self.refuses = ErrorCode.coordinator_not_available, False
                else:
                    self.log = encode_transaction(effect.transaction, level=1)
                self.apply(self.transaction.stored(error))
            elif isinstance(effect, Mark):
                self.marks.append((self.writer, effect))
                for partition in effect.partitions:
                    self.apply(self.transaction.marked(partition, ErrorCode.none))


def _ignore(error: ErrorCode) -> None:
    pass


@given(st.integers(32760, HIGHEST_EPOCH), st.lists(STEPS, max_size=40))
def test_epochs_only_grow_and_end_in_a_new_id(epoch: int, steps: list[tuple[str, int]]) -> None:
    life = Life(epoch)
    for event, level in steps:
        life.step(event, level)
    assert life.answers == sorted(life.answers)
    for producer in life.answers[1:]:
        assert 0 <= producer.epoch <= LAST_EPOCH
    for writer, mark in life.marks:
        assert mark.producer.producer_id == writer.producer_id
        assert writer.epoch <= mark.producer.epoch <= HIGHEST_EPOCH
        if mark.version >= TRANSACTIONS_2 and writer.epoch < HIGHEST_EPOCH:
            assert mark.producer.epoch > writer.epoch


@given(st.integers(32760, HIGHEST_EPOCH), st.lists(STEPS, max_size=40))
def test_what_a_version_2_end_answers_begins_the_next_transaction(epoch: int, steps: list[tuple[str, int]]) -> None:
    life = Life(epoch)
    for event, level in steps:
        life.step(event, level)
    life.refuses = False
    for event in ("init", "init", "add", "commit", "add", "abort", "abort", "add"):
        life.step(event, TRANSACTIONS_2)
    assert life.transaction.state is TxnState.ONGOING
    assert life.transaction.kept.producer == life.answers[-1]
