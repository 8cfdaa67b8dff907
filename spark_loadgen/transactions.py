"""The transactions of one producer: when each ends and how, commit times, aborted records.

Ending a transaction blocks the sender, as it does in an application; records that become due meanwhile are sent late,
and their response latency includes that. Which transactions are aborted is a pure function of (seed, worker, number).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer
from numpy.typing import NDArray

from highwater.spark_loadgen import counter_rng
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.model import TransactionPlan, TransactionReport

_INITIALISATION_TIMEOUT_S: Final = 30
_ENDING_TIMEOUT_S: Final = 30
_TRIES: Final = 5


class Transactions:
    """Call `begin_if_none` before sending records, and `end` when `due`. All instants are of CLOCK_MONOTONIC."""

    def __init__(self, plan: TransactionPlan, client: Producer, seed: int, worker: int) -> None:
        self._plan = plan
        self._client = client
        self._seed = seed
        self._worker = worker
        self._first: int | None = None
        self._began_ns = 0
        self._number = 0
        self._committed = self._aborted = self._failed = 0
        self._aborted_ranges: list[tuple[int, int]] = []

    def initialise(self) -> None:
        """Raises LoadSetupError when the cluster does not start transactions."""
        try:
            self._client.init_transactions(_INITIALISATION_TIMEOUT_S)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            raise LoadSetupError(f"the cluster does not start transactions: {reason.str()}") from error

    @property
    def open(self) -> bool:
        return self._first is not None

    def begin_if_none(self, sequence: int) -> None:
        """Begin a transaction whose first record is `sequence`, unless one is open. Raises LoadFailed."""
        if self._first is None:
            try:
                self._client.begin_transaction()
            except KafkaException as error:
                raise self._given_up("begin", error) from error
            self._first, self._began_ns = sequence, time.monotonic_ns()

    def room_end(self, sequence: int) -> int:
        """The first sequence that the open transaction has no room for; without a record limit, a huge number."""
        assert self._first is not None
        return sequence + (1 << 62) if self._plan.records is None else self._first + self._plan.records

    def due(self, sequence: int) -> bool:
        """Whether to end the open transaction now. sequence: of the next record."""
        if self._first is None or sequence == self._first:
            return False
        if self._plan.every_ns is not None:
            return time.monotonic_ns() - self._began_ns >= self._plan.every_ns
        return sequence >= self.room_end(sequence)

    def end(self, sequence: int) -> tuple[int, int] | None:
        """Commit or abort the open transaction, whose records end before `sequence`. Raises LoadFailed.

        Returns start and end of a commit; None after an abort.
        """
        assert self._first is not None, "no transaction is open"
        first, self._first = self._first, None
        aborts = float(counter_rng.uniforms(self._seed, counter_rng.ABORTS, self._worker, np.array([self._number]))[0])
        self._number += 1
        if aborts < self._plan.abort_ratio:
            self._client.flush(_ENDING_TIMEOUT_S)  # so that the aborted records are in the log
            self._abort(first, sequence)
            self._aborted += 1
            return None
        started_ns = time.monotonic_ns()
        try:
            self._retry(self._client.commit_transaction)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if not reason.txn_requires_abort():
                raise self._given_up("be committed", error) from error
            self._abort(first, sequence)
            self._failed += 1
            return None
        self._committed += 1
        return started_ns, time.monotonic_ns()

    def _abort(self, first: int, end: int) -> None:
        try:
            self._retry(self._client.abort_transaction)
        except KafkaException as error:
            raise self._given_up("be aborted", error) from error
        self._aborted_ranges.append((first, end))

    def _retry(self, ending: Callable[[float], None]) -> None:
        """Repeat the call while librdkafka reports a retriable error."""
        for left in reversed(range(_TRIES)):
            try:
                return ending(_ENDING_TIMEOUT_S)
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if not (reason.retriable() and left):
                    raise
        return None

    def _given_up(self, what: str, error: KafkaException) -> LoadFailed:
        return LoadFailed(f"a transaction of producer {self._worker} cannot {what}: {error.args[0].str()}")

    @property
    def aborted_records(self) -> int:
        return sum(end - first for first, end in self._aborted_ranges)

    def aborted_sequences(self) -> NDArray[np.int64]:
        """All sequences of aborted records, ascending."""
        ranges = [np.arange(first, end, dtype=np.int64) for first, end in self._aborted_ranges]
        return np.concatenate([np.zeros(0, dtype=np.int64), *ranges])

    def report(self) -> TransactionReport:
        return TransactionReport(self._committed, self._aborted, self._failed)
