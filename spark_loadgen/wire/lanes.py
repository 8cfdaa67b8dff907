"""One partition as the driver sees it: what is on its way, what must be sent again, and in which order. Pure."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.wire.departures import Departure

RETRY_BACKOFF_NS: Final = 100_000_000
# After the largest, a partition's sequence begins at 0 again.
SEQUENCE_NUMBERS: Final = 1 << 31


@dataclass(slots=True)
class Batch:
    """One batch on its way. Instants are ns since T0; timed_ns: when those of its records that are timed were due.

    epoch, base_sequence: its place in the sequence of an idempotent producer; epoch is -1 before it has one.
    """

    departure: Departure
    first_sent_ns: int
    timed_ns: NDArray[np.int64]
    epoch: int = -1
    base_sequence: int = -1
    is_sent_again: bool = False

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

    An idempotent producer numbers a partition's records. The broker takes what follows on what it has and nothing else,
    so what is behind a failed batch waits in good order, and what is sent again is there once.
    """

    topic: str
    partition: int
    leader: int = -1
    in_flight: int = 0
    retries: list[Batch] = field(default_factory=list)
    not_before_ns: int = 0
    epoch: int = 0
    next_sequence: int = 0

    @property
    def takes_new(self) -> bool:
        return not self.retries

    def again(self, elapsed_ns: int) -> Batch | None:
        """What is to be sent again now, if anything; the caller sends it."""
        if not self.retries or self.in_flight or elapsed_ns < self.not_before_ns:
            return None
        batch = self.retries.pop(0)
        batch.is_sent_again = True
        return batch

    def number(self, batch: Batch) -> None:
        """Give it its place in the sequence, which it keeps within the epoch, however often it is sent."""
        if batch.epoch != self.epoch:
            batch.epoch, batch.base_sequence = self.epoch, self.next_sequence
            self.next_sequence = (self.next_sequence + batch.departure.count) % SEQUENCE_NUMBERS

    def out_of_sequence(self, batch: Batch, elapsed_ns: int) -> None:
        """The broker lacks what is before it.

        When it was sent again, all that was before it had been settled: some of that has failed for good. Then neither
        it nor what follows it is in the log, and they begin a sequence anew, in the next epoch. (KIP-360: a producer
        without transactions raises its epoch by itself.)
        """
        if batch.is_sent_again and batch.epoch == self.epoch:
            self.epoch += 1
            self.next_sequence = 0
        self.failed(batch, elapsed_ns)

    def failed(self, batch: Batch, elapsed_ns: int) -> None:
        insort(self.retries, batch, key=lambda waiting: waiting.departure.first)
        self.not_before_ns = elapsed_ns + RETRY_BACKOFF_NS

    def give_up(self, sent_before_ns: int) -> list[Batch]:
        """Take out what was first sent before an instant and still waits to be sent again."""
        too_old = [batch for batch in self.retries if batch.first_sent_ns < sent_before_ns]
        self.retries = [batch for batch in self.retries if batch.first_sent_ns >= sent_before_ns]
        return too_old
