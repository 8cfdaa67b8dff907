"""Runs scripts against one transactional id: each command, then what was answered, stored, to be marked, and its state.

A script is text for people, as in tests/broker/group/script.py: paragraphs of prose (`#`), and steps of a command line,
`----`, and what comes of it. Write new steps without an outcome and run `REWRITE_SCRIPTS=1 pytest tests/broker/txn`,
then read what it wrote. A producer is written id/epoch.

    init R [timeout=MS] [as=P]               a producer begins, or begins anew
    level N                                  the finalised level of transaction.version
    add R P PARTITION... [version=2]         partitions come into the transaction of a client of that version
    verify P PARTITION                       may it write there?
    end R P commit|abort [version=2]         version 2 is told the next producer
    advance MS                               time passes
    sweep                                    what takes too long is aborted
    expire MS                                ids that were not used for so long are forgotten
    hold | stored ok|ERROR                   from now on storing waits; the oldest one ends
    refuse ERROR | accept                    what storing comes to from now on
    unmarked PARTITION ERROR | markable      a partition that takes no marker; all take them again
    retry                                    the wait is over
    restart                                  the id as the log has it
    reached P                                a producer has come so far, with no transaction open
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.txn.schemas import decode_transaction, encode_transaction
from highwater.broker.txn.transaction import (
    NO_PRODUCER,
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

_WALL_MS: Final = 1_700_000_000_000


class Script:
    def __init__(self) -> None:
        self._now_ms = _WALL_MS
        self._lines: list[str] = []
        self._is_holding = False
        self._stores: deque[StoreTransaction] = deque()
        self._store_outcome = ErrorCode.none
        self._unmarkable: dict[TopicPartition, ErrorCode] = {}
        self._log: bytes | None = None
        self._producer_ids = count(1)
        self._level_now = 0
        self._transaction: Transaction | None = None

    def run(self, line: str) -> list[str]:
        """What comes of one command, in lines."""
        self._lines = []
        name, *words = line.split()
        options = {key.replace("as", "expected"): value for key, _, value in (w.partition("=") for w in words) if value}
        plain = [word for word in words if "=" not in word]
        command: Callable[..., None] = getattr(self, f"_{name.replace('-', '_')}")
        command(*plain, **options)
        return [*self._lines, self._state()]

    def _state(self) -> str:
        if self._transaction is None:
            return "unknown"
        kept = self._transaction.kept
        partitions = " ".join(sorted(f"{topic}-{partition}" for topic, partition in kept.partitions))
        started = f" since {kept.start_ms - _WALL_MS} ms" if kept.start_ms >= 0 else ""
        return f"{kept.state.kafka_name} {_text(kept.producer)}{_next(kept)}{started}: {partitions or 'no partitions'}"

    # Commands

    def _reached(self, producer: str) -> None:
        kept = StoredTransaction(_producer(producer), 60_000, TxnState.EMPTY, frozenset(), self._now_ms)
        self._log = encode_transaction(kept, level=self._level_now)
        self._transaction = Transaction(kept)

    def _level(self, level: str) -> None:
        self._level_now = int(level)

    def _init(self, request: str, timeout: str = "60000", expected: str | None = None) -> None:
        if self._transaction is None:
            self._transaction = Transaction.new(self._next_producer_id(), int(timeout), self._now_ms)

        def answer(value: ProducerAnswer) -> None:
            self._say(f"{request} <- {value.error_code.name if value.error_code else _text(value.producer)}")

        producer = None if expected is None else _producer(expected)
        self._apply(
            self._transaction.init_producer(
                int(timeout), producer, self._next_producer_id, answer, self._now_ms, level=self._level_now
            )
        )

    def _next_producer_id(self) -> int:
        return next(self._producer_ids)

    def _add(self, request: str, producer: str, *partitions: str, version: str = "0") -> None:
        answer = partial(self._answer, request)
        self._apply(
            self._known.add_partitions(
                _producer(producer), map(_partition, partitions), answer, self._now_ms, client_version=int(version)
            )
        )

    def _verify(self, producer: str, partition: str) -> None:
        self._say(self._known.verify(_producer(producer), _partition(partition)).name)

    def _end(self, request: str, producer: str, result: str, version: str = "0") -> None:
        def answer(value: ProducerAnswer) -> None:
            following = "" if value.producer == NO_PRODUCER else f", then {_text(value.producer)}"
            self._say(f"{request} <- {value.error_code.name}{following}")

        is_commit, ended = result == "commit", _producer(producer)
        if version == "2":
            effects = self._known.end_raising(ended, is_commit, self._next_producer_id, answer, self._now_ms)
        else:
            effects = self._known.end(ended, is_commit, answer, self._now_ms)
        self._apply(effects)

    def _advance(self, duration_ms: str) -> None:
        self._now_ms += int(duration_ms)

    def _sweep(self) -> None:
        self._apply(self._known.time_out(self._next_producer_id, self._now_ms, level=self._level_now))

    def _expire(self, expiration_ms: str) -> None:
        if self._known.is_expired(self._now_ms, int(expiration_ms)):
            self._apply(self._known.expire())

    def _hold(self) -> None:
        self._is_holding = True

    def _stored(self, outcome: str) -> None:
        self._log_has(self._stores.popleft(), ErrorCode.none if outcome == "ok" else ErrorCode[outcome])

    def _refuse(self, error: str) -> None:
        self._store_outcome = ErrorCode[error]

    def _accept(self) -> None:
        self._store_outcome = ErrorCode.none

    def _unmarked(self, partition: str, error: str) -> None:
        self._unmarkable[_partition(partition)] = ErrorCode[error]

    def _markable(self) -> None:
        self._unmarkable.clear()

    def _retry(self) -> None:
        self._apply(self._known.retry())

    def _restart(self) -> None:
        self._stores.clear()
        self._transaction = None if self._log is None else Transaction(decode_transaction(self._log))
        if self._transaction is not None:
            self._apply(self._transaction.complete(self._now_ms))

    # Effects

    @property
    def _known(self) -> Transaction:
        assert self._transaction is not None
        return self._transaction

    def _say(self, line: str) -> None:
        self._lines.append(line)

    def _answer(self, request: str, error: ErrorCode) -> None:
        self._say(f"{request} <- {error.name}")

    def _apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                effect.deliver()
            elif isinstance(effect, StoreTransaction):
                self._say(f"store {_stored(effect.transaction)}")
                if self._is_holding:
                    self._stores.append(effect)
                else:
                    self._log_has(effect, self._store_outcome)
            elif isinstance(effect, Mark):
                result = "commit" if effect.is_commit else "abort"
                names = " ".join(f"{topic}-{partition}" for topic, partition in effect.partitions)
                version = f" in version {effect.version}" if effect.version else ""
                self._say(f"mark {names}: {result} of {_text(effect.producer)}{version}")
                for partition in effect.partitions:
                    self._apply(self._known.marked(partition, self._unmarkable.get(partition, ErrorCode.none)))
            else:
                self._say(f"retry in {effect.delay_ms} ms")

    def _log_has(self, store: StoreTransaction, error: ErrorCode) -> None:
        if error:
            self._say(f"not stored: {error.name}")
        else:
            stored = store.transaction
            self._log = None if stored is None else encode_transaction(stored, level=self._level_now)
        self._apply(self._known.stored(error))
        if self._known.is_dead:
            self._transaction = None


def _producer(text: str) -> Producer:
    producer_id, epoch = text.split("/")
    return Producer(int(producer_id), int(epoch))


def _partition(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def _text(producer: Producer) -> str:
    return f"{producer.producer_id}/{producer.epoch}"


def _stored(transaction: StoredTransaction | None) -> str:
    if transaction is None:
        return "a tombstone"
    partitions = " ".join(f"{topic}-{partition}" for topic, partition in sorted(transaction.partitions))
    ended = f"{transaction.state.kafka_name} {_text(transaction.producer)}{_next(transaction)}"
    return f"{ended}{': ' if partitions else ''}{partitions}"


def _next(transaction: StoredTransaction) -> str:
    return "" if transaction.next == NO_PRODUCER else f" then {_text(transaction.completed_by)}"
