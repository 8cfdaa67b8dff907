"""What becomes of a record: done, tried again later, parked behind its key, or dead. Pure.

Every decision returns the records to write. The caller writes these and the offsets of what it took in one transaction,
and after a failed transaction makes this object anew: from the parked records that are in the log.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.headers import Disposition
from highwater.pipeline.messaging.levels import GroupTopics
from highwater.pipeline.messaging.moving import delayed
from highwater.pipeline.messaging.policy import Backoff, Failure
from highwater.pipeline.messaging.record import Headers, Outgoing, Record

_PARKED_KEY: Final = "hw-parked-key"
_PARKED_NULL: Final = "hw-parked-null"


class Work(NamedTuple):
    """A record for the handler."""

    record: Record
    attempt: int
    """How often it failed before."""
    lane: bytes | int | None = None
    """The queue that a parked record is the head of."""


class _Parked(NamedTuple):
    sequence: int
    record: Record
    attempt: int
    due_ms: int


class Retrying:
    """The records of one partition. With `by_key`, those of a failing key wait in order, and other keys flow."""

    def __init__(
        self,
        topics: GroupTopics,
        backoff: Backoff,
        levels_ms: Sequence[int],
        *,
        by_key: bool,
        partition: int,
        parked: Iterable[Record] = (),
    ) -> None:
        """`parked`: all records of the partition of the topic of parked records, tombstones included."""
        self._topics = topics
        self._backoff = backoff
        self._levels_ms = levels_ms
        self._by_key = by_key
        self.partition = partition
        self._lanes: dict[bytes | int, deque[_Parked]] = {}
        self._due: list[tuple[int, int, bytes | int]] = []
        """A heap of (time, sequence, lane), one for each lane."""
        self._next_sequence = 0
        self.parked_count = 0
        self.parked_bytes = 0
        self._restore(parked)

    def _restore(self, parked: Iterable[Record]) -> None:
        latest: dict[int, Record] = {}
        for entry in parked:
            sequence = int(entry.key or b"")
            self._next_sequence = max(self._next_sequence, sequence + 1)
            if entry.value is None:
                latest.pop(sequence, None)
            else:
                latest[sequence] = entry
        for sequence, entry in sorted(latest.items()):
            due_ms = headers.whole_number(entry, headers.DUE_MS) or 0
            self._enqueue(_Parked(sequence, _unparked(entry), headers.attempt_of(entry), due_ms))

    # What comes

    def take(self, record: Record, now_ms: int) -> Work | list[Outgoing]:
        """Return the record for the handler, or what is written in its place."""
        try:
            attempt = headers.attempt_of(record)
        except ValueError as error:
            return [self._dead(Work(record, 0), Failure("ValueError", str(error), Disposition.POISON), now_ms)]
        if self._by_key and record.key is not None and record.key in self._lanes:
            entry = _Parked(self._next_sequence, record, attempt, 0)
            self._next_sequence += 1
            self._enqueue(entry)
            return [self._put(entry, now_ms)]
        return Work(record, attempt)

    def due(self, now_ms: int) -> Work | None:
        """Return a parked record that is due and is the first of its key; `finish` it before the next call."""
        if not self._due or self._due[0][0] > now_ms:
            return None
        _, _, lane = heapq.heappop(self._due)
        head = self._lanes[lane][0]
        return Work(head.record, head.attempt, lane)

    def next_due_ms(self) -> int | None:
        return self._due[0][0] if self._due else None

    # What became of it

    def finish(self, work: Work, failure: Failure | None, now_ms: int) -> list[Outgoing]:
        """Return what is written after the handler has finished or failed."""
        if failure is None:
            return self._leave(work, now_ms)
        attempt = work.attempt + 1
        delay_ms = None
        if failure.is_final is None:
            delay_ms = self._backoff.after(attempt)
            if delay_ms is not None and failure.after_ms is not None:
                delay_ms = failure.after_ms
        if delay_ms is None:
            return [self._dead(work, failure, now_ms), *self._leave(work, now_ms)]
        if not self._by_key:
            return [self._later(work.record, attempt, delay_ms, failure, now_ms)]
        return [self._park(work, attempt, now_ms + delay_ms, failure, now_ms)]

    def _later(self, record: Record, attempt: int, delay_ms: int, failure: Failure, now_ms: int) -> Outgoing:
        error = headers.error_headers(failure.error_class, failure.error)
        due_ms, target = now_ms + delay_ms, self._topics.retry
        if delay_ms not in self._backoff.delays_ms:
            return delayed(record, target, due_ms, now_ms, self._levels_ms, attempt=attempt, **error)
        waiting = headers.waiting(record, due_ms, target, attempt=attempt, **error)
        return Outgoing(self._topics.waiting(delay_ms), record.key, record.value, waiting, now_ms)

    def _dead(self, work: Work, failure: Failure, now_ms: int) -> Outgoing:
        disposition = failure.is_final or Disposition.EXHAUSTED
        record = work.record
        dead = headers.dead(record, disposition, failure.error_class, failure.error, work.attempt + 1)
        return Outgoing(self._topics.dead, record.key, record.value, dead, now_ms)

    # Lanes

    def _park(self, work: Work, attempt: int, due_ms: int, failure: Failure, now_ms: int) -> Outgoing:
        if work.lane is None:
            entry = _Parked(self._next_sequence, work.record, attempt, due_ms)
            self._next_sequence += 1
            self._enqueue(entry)
        else:
            queue = self._lanes[work.lane]
            entry = queue[0] = queue[0]._replace(attempt=attempt, due_ms=due_ms)
            heapq.heappush(self._due, (due_ms, entry.sequence, work.lane))
        return self._put(entry, now_ms, **headers.error_headers(failure.error_class, failure.error))

    def _enqueue(self, entry: _Parked) -> None:
        # Records without a key wait for nobody.
        lane = entry.sequence if entry.record.key is None else entry.record.key
        queue = self._lanes.setdefault(lane, deque())
        queue.append(entry)
        if len(queue) == 1:
            heapq.heappush(self._due, (entry.due_ms, entry.sequence, lane))
        self.parked_count += 1
        self.parked_bytes += len(entry.record.key or b"") + len(entry.record.value or b"")

    def _leave(self, work: Work, now_ms: int) -> list[Outgoing]:
        """The record is done; the next of its key is due at once."""
        if work.lane is None:
            return []
        queue = self._lanes[work.lane]
        left = queue.popleft()
        self.parked_count -= 1
        self.parked_bytes -= len(left.record.key or b"") + len(left.record.value or b"")
        if queue:
            # The head of a queue fails and is due later; those behind it never were.
            heapq.heappush(self._due, (queue[0].due_ms, queue[0].sequence, work.lane))
        else:
            del self._lanes[work.lane]
        return [Outgoing(self._topics.parked, b"%d" % left.sequence, None, (), now_ms, self.partition)]

    def _put(self, entry: _Parked, now_ms: int, **error: str) -> Outgoing:
        record = entry.record
        parked: Headers = ((_PARKED_KEY, record.key), *([(_PARKED_NULL, b"")] if record.value is None else []))
        waiting = headers.waiting(record, entry.due_ms, self._topics.topic, attempt=entry.attempt, **error)
        sequence = b"%d" % entry.sequence
        return Outgoing(self._topics.parked, sequence, record.value or b"", (*waiting, *parked), now_ms, self.partition)


def _unparked(entry: Record) -> Record:
    """The record as it was before it was parked."""
    origin = headers.origin_of(entry)
    inner = (_PARKED_KEY, _PARKED_NULL, headers.TARGET, headers.TIMESTAMP_MS, headers.DUE_MS)
    return Record(
        *origin,
        timestamp_ms=headers.own_timestamp_ms(entry),
        key=entry.header(_PARKED_KEY),
        value=None if any(name == _PARKED_NULL for name, _ in entry.headers) else entry.value,
        headers=headers.with_headers(entry, without=inner),
    )
