"""One partition as the driver sees it: what is on its way, what must be sent again, and in which order. Pure."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spark_loadgen.wire.departures import Departure

RETRY_BACKOFF_NS = 100_000_000


@dataclass(slots=True)
class Batch:
    """One batch on its way. Instants are ns since T0; timed_ns: when those of its records that are timed were due."""

    departure: Departure
    first_sent_ns: int
    timed_ns: NDArray[np.int64]

    @property
    def lateness_ns(self) -> int:
        """How much later than its schedule it left for the first time."""
        return max(0, self.first_sent_ns - self.departure.due_ns)


@dataclass(slots=True)
class Lane:
    """A partition. New batches may overtake none that failed.

    After a failure that may pass, nothing new leaves; when all that is on its way has come back, what failed is sent
    again in order, one batch after the other. A batch that was behind a failed one may have been taken already: then
    the partition's order is broken, as it is with any client that has several requests in flight and no idempotence,
    and consumers will see it.
    """

    topic: str
    partition: int
    leader: int = -1
    in_flight: int = 0
    retries: list[Batch] = field(default_factory=list)
    not_before_ns: int = 0

    @property
    def takes_new(self) -> bool:
        return not self.retries

    def again(self, elapsed_ns: int) -> Batch | None:
        """What is to be sent again now, if anything; the caller sends it."""
        if not self.retries or self.in_flight or elapsed_ns < self.not_before_ns:
            return None
        return self.retries.pop(0)

    def failed(self, batch: Batch, elapsed_ns: int) -> None:
        insort(self.retries, batch, key=lambda waiting: waiting.departure.first)
        self.not_before_ns = elapsed_ns + RETRY_BACKOFF_NS

    def give_up(self, sent_before_ns: int) -> list[Batch]:
        """Take out what was first sent before an instant and still waits to be sent again."""
        too_old = [batch for batch in self.retries if batch.first_sent_ns < sent_before_ns]
        self.retries = [batch for batch in self.retries if batch.first_sent_ns >= sent_before_ns]
        return too_old
