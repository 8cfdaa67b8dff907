"""Batching: when each batch is due to be sent, and which records it has. Pure.

Open loop: a batch is due when it is full, or `linger_ns` after its first record was due; it has all records that are
due by then. So records wait in a batch as in any client, and that time counts in their latency.
Closed loop: every batch is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.schedule import Schedule

_NEVER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class DueRecords:
    """Records `first` to `first + count − 1` of a worker in one batch.

    due_ns: when the batch was due, in ns since T0; in a closed loop, when it was sent.
    """

    first: int
    count: int
    due_ns: int


class BatchSchedule(Protocol):
    """The batches of one worker. next_ns: when the next batch is due; _NEVER_NS when none is left."""

    next_ns: int

    def end_at(self, end_ns: int) -> None:
        """End the schedule: no record is due from `end_ns` on."""

    def take(self, elapsed_ns: int) -> DueRecords | None:
        """The next batch if it is due by now."""

    def intended_ns(self, records: DueRecords) -> NDArray[np.int64]:
        """The intended send time of each record of the batch."""


class OpenLoopBatches:
    """The batches of an open loop."""

    def __init__(self, schedule: Schedule, worker: int, records_max: int, linger_ns: int) -> None:
        self._schedule = schedule
        self._worker = worker
        self._records_max = records_max
        self._linger_ns = linger_ns
        self._next = 0
        self._total = 0
        self.next_ns = 0
        self.end_at(schedule.duration_ns)

    def end_at(self, end_ns: int) -> None:
        self._end_ns = end_ns
        self._total = self._schedule.count_before(end_ns, self._worker)
        self._look_ahead()

    def _look_ahead(self) -> None:
        if self._next >= self._total:
            self.next_ns = _NEVER_NS
            return
        last = min(self._next + self._records_max, self._total) - 1
        intended_ns = self._instants(self._next, last + 1)
        full_ns = int(intended_ns[-1]) if last + 1 < self._total else self._end_ns
        self.next_ns = min(full_ns, int(intended_ns[0]) + self._linger_ns)

    def _instants(self, first: int, end: int) -> NDArray[np.int64]:
        return self._schedule.intended_ns(np.arange(first, end, dtype=np.int64), self._worker)

    def take(self, elapsed_ns: int) -> DueRecords | None:
        if elapsed_ns < self.next_ns:
            return None
        due = self._schedule.count_before(min(elapsed_ns + 1, self._end_ns), self._worker) - self._next
        taken = DueRecords(self._next, min(due, self._records_max), self.next_ns)
        self._next += taken.count
        self._look_ahead()
        return taken

    def intended_ns(self, records: DueRecords) -> NDArray[np.int64]:
        return self._instants(records.first, records.first + records.count)


class ClosedLoopBatches:
    """The batches of a closed loop: the next batch is always due, and its records are intended for that instant."""

    def __init__(self, end_ns: int, records_max: int) -> None:
        self._records_max = records_max
        self._next = 0
        self._end_ns = end_ns
        self.next_ns = 0

    def end_at(self, end_ns: int) -> None:
        self._end_ns = end_ns

    def take(self, elapsed_ns: int) -> DueRecords | None:
        if elapsed_ns >= self._end_ns:
            self.next_ns = _NEVER_NS
            return None
        taken = DueRecords(self._next, self._records_max, elapsed_ns)
        self._next += taken.count
        return taken

    def intended_ns(self, records: DueRecords) -> NDArray[np.int64]:
        return np.full(records.count, records.due_ns, dtype=np.int64)
