"""When batches leave, and what is in them. Pure.

Open loop: a batch leaves as soon as it is full or `linger_ns` after its first record was due, with whatever is due by
then; so its records wait for one another as they do in any client, and that waiting counts in their latency. Closed
loop: full batches, always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.schedule import Schedule

_NEVER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class Departure:
    """Records `first` to `first + count − 1` of a worker in one batch. Instants are ns since T0.

    due_ns: when the batch was to leave by its schedule; of a closed loop, when it left.
    """

    first: int
    count: int
    due_ns: int


class Departures(Protocol):
    """next_ns: when the next batch is to leave; _NEVER_NS when there is none left."""

    next_ns: int

    def end_at(self, end_ns: int) -> None:
        """Nothing is due from `end_ns` on."""

    def take(self, elapsed_ns: int) -> Departure | None:
        """The next batch if it is to leave by now."""

    def intended_ns(self, departure: Departure) -> NDArray[np.int64]:
        """When each of its records was meant to be sent."""


class ScheduledDepartures:
    """The open loop."""

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

    def take(self, elapsed_ns: int) -> Departure | None:
        if elapsed_ns < self.next_ns:
            return None
        due = self._schedule.count_before(min(elapsed_ns + 1, self._end_ns), self._worker) - self._next
        taken = Departure(self._next, min(due, self._records_max), self.next_ns)
        self._next += taken.count
        self._look_ahead()
        return taken

    def intended_ns(self, departure: Departure) -> NDArray[np.int64]:
        return self._instants(departure.first, departure.first + departure.count)


class ClosedDepartures:
    """The closed loop: a batch is due whenever it is asked for, and its records are meant to be sent when it leaves."""

    def __init__(self, end_ns: int, records_max: int) -> None:
        self._records_max = records_max
        self._next = 0
        self._end_ns = end_ns
        self.next_ns = 0

    def end_at(self, end_ns: int) -> None:
        self._end_ns = end_ns

    def take(self, elapsed_ns: int) -> Departure | None:
        if elapsed_ns >= self._end_ns:
            self.next_ns = _NEVER_NS
            return None
        taken = Departure(self._next, self._records_max, elapsed_ns)
        self._next += taken.count
        return taken

    def intended_ns(self, departure: Departure) -> NDArray[np.int64]:
        return np.full(departure.count, departure.due_ns, dtype=np.int64)
