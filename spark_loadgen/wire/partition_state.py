"""The state of one partition in the wire driver: requests in flight, retries and their order. Pure."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.wire.batching import DueRecords

RETRY_BACKOFF_NS: Final = 100_000_000
# After the largest sequence number, a partition starts at 0 again.
SEQUENCE_NUMBERS: Final = 1 << 31


@dataclass(slots=True)
class Batch:
    """A batch from its first send to its acknowledgement. Instants are ns since T0.

    timed_ns: due times of the timed records. epoch, base_sequence: of an idempotent producer; epoch is -1 before the
    batch has a sequence.
    """

    records: DueRecords
    first_sent_ns: int
    timed_ns: NDArray[np.int64]
    epoch: int = -1
    base_sequence: int = -1
    is_retry: bool = False

    @property
    def lateness_ns(self) -> int:
        """How late the batch was when it was first sent."""
        return max(0, self.first_sent_ns - self.records.due_ns)


@dataclass(slots=True)
class PartitionState:
    """The state of one partition. New batches never overtake failed ones.

    After a retriable error the driver sends no new batch to the partition. When all requests in flight are answered, it
    resends the failed batches in order, one at a time. The broker may have appended a batch that followed a failed one:
    then the partition is out of order, as with any client that has several requests in flight and no idempotence, and
    consumers see it.

    An idempotent producer numbers a partition's records. The broker appends only the batch that continues the sequence,
    so order is kept and a resent batch is in the log once.
    """

    topic: str
    partition: int
    leader: int = -1
    in_flight: int = 0
    retries: list[Batch] = field(default_factory=list)
    retry_at_ns: int = 0
    epoch: int = 0
    next_sequence: int = 0

    @property
    def accepts_new(self) -> bool:
        return not self.retries

    def next_retry(self, elapsed_ns: int) -> Batch | None:
        """The batch to resend now, if any; the caller sends it."""
        if not self.retries or self.in_flight or elapsed_ns < self.retry_at_ns:
            return None
        batch = self.retries.pop(0)
        batch.is_retry = True
        return batch

    def assign_sequence(self, batch: Batch) -> None:
        """Assign a sequence to the batch, once per epoch: a resent batch keeps its sequence."""
        if batch.epoch != self.epoch:
            batch.epoch, batch.base_sequence = self.epoch, self.next_sequence
            self.next_sequence = (self.next_sequence + batch.records.count) % SEQUENCE_NUMBERS

    def on_out_of_sequence(self, batch: Batch, elapsed_ns: int) -> None:
        """Handle OUT_OF_ORDER_SEQUENCE_NUMBER: the log lacks a batch before this one.

        If this batch was a retry, all batches before it were settled, so one of them has failed for good. Neither this
        batch nor a later one is in the log, so they start a new sequence in the next epoch. (KIP-360: a producer
        without transactions raises its epoch itself.)
        """
        if batch.is_retry and batch.epoch == self.epoch:
            self.epoch += 1
            self.next_sequence = 0
        self.add_retry(batch, elapsed_ns)

    def add_retry(self, batch: Batch, elapsed_ns: int) -> None:
        insort(self.retries, batch, key=lambda waiting: waiting.records.first)
        self.retry_at_ns = elapsed_ns + RETRY_BACKOFF_NS

    def expire(self, sent_before_ns: int) -> list[Batch]:
        """Remove and return the batches that wait for a retry and were first sent before `sent_before_ns`."""
        too_old = [batch for batch in self.retries if batch.first_sent_ns < sent_before_ns]
        self.retries = [batch for batch in self.retries if batch.first_sent_ns >= sent_before_ns]
        return too_old
