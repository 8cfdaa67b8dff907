"""A consumer that retries: calls a handler for each record, and moves those that fail exactly once.

    RetryingConsumer("127.0.0.1:9092", "orders", "billing", handle).run()

The handler returns, or raises Retry, Reject or any other error. Offsets are committed in the transaction that writes
retries, dead letters, parked records and what the handler sends. A handler can see a record again after a kill: what it
does elsewhere must bear that.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from highwater.common.topic_partition import TopicPartition
from highwater.common.units import size_text
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.messaging.brake import WINDOW_MS, FloodBrake
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.delivery import Delivery
from highwater.pipeline.messaging.errors import MessagingError, NotCommittedError, RejectedError
from highwater.pipeline.messaging.exchange import Exchange
from highwater.pipeline.messaging.filter import parse_filter
from highwater.pipeline.messaging.levels import DELAY_PATTERN, ROCKETMQ_LEVELS_MS, GroupTopics, check_levels
from highwater.pipeline.messaging.mover import Mover, Say
from highwater.pipeline.messaging.policy import ROCKETMQ_BACKOFF, Backoff, Reject, Retry, exponential, failure_of
from highwater.pipeline.messaging.reading import read_range
from highwater.pipeline.messaging.record import Outgoing, Place, Record
from highwater.pipeline.messaging.retrying import Retrying, Work
from highwater.pipeline.messaging.stopping import stop_signals
from highwater.pipeline.messaging.topics import Topics, ensure_delay_topics, ensure_group_topics

__all__ = ["Backoff", "Delivery", "Reject", "Retry", "RetryingConsumer", "exponential"]

_LOGGER: Final = logging.getLogger(__name__)
_LONGEST_WAIT_S: Final = 0.25
_RETRY_S: Final = 0.2
_BATCH_S: Final = 0.5
"""A batch ends after so long, although it is not full."""
POISON: Final = (UnicodeError, json.JSONDecodeError)


Handler = Callable[[Delivery], None]


class RetryingConsumer:
    """One member of a group. Several processes with the same arguments share the partitions."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        group: str,
        handle: Handler,
        *,
        ordering: Literal["none", "key"] = "none",
        backoff: str | Backoff = ROCKETMQ_BACKOFF,
        where: str | None = None,
        name: str | None = None,
        client: Mapping[str, Any] | None = None,
        poison: tuple[type[Exception], ...] = POISON,
        flood_brake: FloodBrake | None = None,
        batch_records: int = 100,
        most_parked: int = 100_000,
        most_parked_bytes: int = 256 << 20,
        levels_ms: Sequence[int] = ROCKETMQ_LEVELS_MS,
        mover: bool = True,
        say: Say = _LOGGER.warning,
    ) -> None:
        """Make the topics that are missing. Raises SettingsError, ClientError or MessagingError.

        `ordering`: "key" keeps the order of a key's records also when one of them fails. `backoff`: delays such as
        "10s 1m 10m"; after the last a record is a dead letter. `where`: records for which this filter is not true are
        passed over. `name`: see `Exchange`. `client`: more of librdkafka's properties. `poison`: errors that say that
        the record itself is bad. `mover`: run a mover too, in a thread; without one, another process has to.
        """
        if ordering not in ("none", "key"):
            raise SettingsError(f"ordering={ordering!r}: it is 'none' or 'key'")
        if batch_records < 1:
            raise SettingsError(f"batch_records={batch_records}: it is 1 or more")
        self._client = {**(client or {}), "bootstrap.servers": bootstrap_servers}
        self._names = GroupTopics(topic, group)
        self._handle = handle
        self._by_key = ordering == "key"
        self._backoff = Backoff.parse(backoff) if isinstance(backoff, str) else backoff
        self._where = None if where is None else parse_filter(where)
        self._poison = poison
        self._brake = flood_brake or FloodBrake()
        self._batch_records = batch_records
        self._most_parked = most_parked
        self._most_parked_bytes = most_parked_bytes
        self._levels_ms = check_levels(levels_ms)
        self._say = say
        self._topics = Topics(self._client)
        ensure_group_topics(self._topics, self._names, self._backoff, by_key=self._by_key)
        ensure_delay_topics(self._topics, self._levels_ms)
        self._states: dict[int, Retrying] = {}
        self._pending: deque[Record] = deque()
        self._is_full = False
        self._careful_for = 0
        """How many of the next records go alone, to find those that the broker refuses."""
        self._stopped = threading.Event()
        self.counts: Counter[str] = Counter()
        """handled, retried, parked, dead, passed_over."""
        self._positions: dict[TopicPartition, int] = {}
        self._mover_wanted = mover
        self._name = name
        self._exchange = Exchange(self._client, group, name, on_assign=self._assigned, on_revoke=self._revoked)
        self._exchange.subscribe([self._names.topic, self._names.retry])

    # Life

    def run(self) -> None:
        """Work until `stop` is called, or SIGTERM or Ctrl-C comes; then leave the group. Raises MessagingError."""
        failed: list[Exception] = []
        thread = threading.Thread(target=self._move, args=(failed,), daemon=True)
        try:
            with stop_signals(self._stopped):
                if self._mover_wanted:
                    thread.start()
                while not self._stopped.is_set():
                    self.step()
                    if failed:
                        raise failed[0]
        finally:
            self._stopped.set()
            if thread.ident is not None:
                thread.join()
            self.close()

    def _move(self, failed: list[Exception]) -> None:
        topics = [self._names.waiting(delay_ms) for delay_ms in sorted(set(self._backoff.delays_ms))]
        name = None if self._name is None else f"{self._names.group}-{self._names.topic}-{self._name}"
        try:
            mover = Mover(
                self._client,
                name=name,
                topics=[DELAY_PATTERN, *([] if self._by_key else topics)],
                levels_ms=self._levels_ms,
                say=self._say,
            )
            try:
                mover.run(self._stopped)
            finally:
                mover.close()
        except Exception as error:  # the consumer's thread raises it
            failed.append(error)

    def stop(self) -> None:
        """Let `run` end after its current batch; may be called from a handler or another thread."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def close(self) -> None:
        self._exchange.close()

    # A batch

    def step(self) -> int:
        """Handle what has come or is due, up to a batch of it; return how many records were finished or moved."""
        reason = self._brake.reason(now_ms())
        if reason is not None:
            self._pause(reason)
            return 0
        if not self._pending:
            self._fetch()
        batch = self._work(1 if self._careful_for else self._batch_records)
        if not batch.taken:
            return 0
        try:
            self._check_topics(batch.outgoing)
            self._exchange.commit(batch.outgoing, batch.offsets)
        except RejectedError as error:
            if batch.taken == 1:
                raise MessagingError(f"{batch.last}: its outcome cannot be written: {error}") from None
            self._careful_for = batch.taken
            self._begin_again()
            return 0
        except NotCommittedError as error:
            self._say(f"{error}; the records are read again")
            self._begin_again()
            return 0
        self._careful_for = max(0, self._careful_for - batch.taken)
        self._positions |= batch.offsets
        self.counts.update(batch.counts)
        self._brake.count(now_ms(), batch.counts["handled"] + batch.counts["dead"], batch.counts["dead"])
        return batch.taken

    def _check_topics(self, outgoing: Sequence[Outgoing]) -> None:
        """Raises RejectedError for topics that do not exist: the client would look for them until a time-out."""
        missing = {topic for topic in {each.topic for each in outgoing} if self._topics.partitions(topic) is None}
        if missing:
            raise RejectedError(
                {
                    index: self._topics.absence_of(each.topic)
                    for index, each in enumerate(outgoing)
                    if each.topic in missing
                }
            )

    def _fetch(self) -> None:
        self._heed_the_limit()
        due_ms = [each for state in self._states.values() if (each := state.next_due_ms()) is not None]
        wait_s = min(_LONGEST_WAIT_S, *((each - now_ms()) / 1000 for each in due_ms), _LONGEST_WAIT_S)
        self._pending.extend(self._exchange.read(wait_s, self._batch_records))

    def _work(self, most: int) -> _Batch:
        batch = _Batch()
        deadline_s = time.monotonic() + _BATCH_S
        while batch.taken < most and time.monotonic() < deadline_s and not self._stopped.is_set():
            due = self._due()
            if due is not None:
                # Fenced by the offset of the topic's partition: whoever owns that owns its parked records.
                anchor = (self._names.topic, due[0].partition)
                batch.offsets.setdefault(anchor, self._positions[anchor])
                self._finish(*due, batch)
            elif self._pending:
                self._take(self._pending.popleft(), batch)
            else:
                break
            batch.taken += 1
        return batch

    def _due(self) -> tuple[Retrying, Work] | None:
        now = now_ms()
        found = ((state, state.due(now)) for state in self._states.values())
        return next(((state, work) for state, work in found if work is not None), None)

    def _take(self, record: Record, batch: _Batch) -> None:
        batch.last = record.place
        batch.offsets[record.topic, record.partition] = record.offset + 1
        anchor = (self._names.topic, record.partition)
        batch.offsets.setdefault(anchor, self._positions[anchor])
        if self._where is not None and record.topic == self._names.topic and not self._where(record):
            batch.counts["passed_over"] += 1
            return
        state = self._states[record.partition]
        taken = state.take(record, now_ms())
        if isinstance(taken, Work):
            self._finish(state, taken, batch)
        else:
            batch.outgoing += taken
            batch.counts["dead" if taken[0].topic == self._names.dead else "parked"] += 1

    def _finish(self, state: Retrying, work: Work, batch: _Batch) -> None:
        batch.last = work.record.place
        delivery, failure = Delivery(work), None
        try:
            self._handle(delivery)
        except Exception as error:
            failure = failure_of(error, self._poison)
            if failure.is_final is None and not isinstance(error, Retry):
                _LOGGER.info("%s failed: %s", batch.last, error, exc_info=True)
        written = state.finish(work, failure, now_ms())
        if failure is None:
            batch.counts["handled"] += 1
            batch.outgoing += delivery.sent
        else:
            batch.counts["dead" if any(each.topic == self._names.dead for each in written) else "retried"] += 1
        batch.outgoing += written

    def _heed_the_limit(self) -> None:
        """Stop reading while too much is parked: parked records are in memory."""
        count = sum(state.parked_count for state in self._states.values())
        size_bytes = sum(state.parked_bytes for state in self._states.values())
        is_full = count >= self._most_parked or size_bytes >= self._most_parked_bytes
        if is_full and not self._is_full:
            self._say(
                f"{count} records ({size_text(size_bytes)}) are parked behind failing keys of {self._names.topic}: "
                "no further ones are read until some of these are done"
            )
            self._exchange.pause(self._exchange.assigned())
        elif self._is_full and not is_full:
            self._exchange.resume(self._exchange.assigned())
        self._is_full = is_full

    def _pause(self, reason: str) -> None:
        until_ms = now_ms() + WINDOW_MS
        self._say(f"{self._names.group} pauses for {WINDOW_MS // 1000} s: {reason} ({self._names.dead})")
        while now_ms() < until_ms and not self._stopped.is_set():
            # A rebalance ends a pause of partitions.
            self._exchange.pause(self._exchange.assigned())
            self._pending.extend(self._exchange.read(_LONGEST_WAIT_S, self._batch_records))
        self._exchange.resume(self._exchange.assigned())
        self._brake.release()

    # Partitions

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        numbers = {number for _, number in partitions}
        if set(partitions) != {
            (topic, number) for topic in (self._names.topic, self._names.retry) for number in numbers
        }:
            raise MessagingError(
                f"{self._names.topic} and {self._names.retry} must have equally many partitions, and every member of "
                f"{self._names.group} must read both"
            )
        self._load(partitions)

    def _revoked(self, _: list[TopicPartition]) -> None:
        self._forget()

    def _forget(self) -> None:
        self._pending.clear()
        self._states.clear()
        self._positions.clear()
        self._is_full = False

    def _begin_again(self) -> None:
        """Read on from what is committed, after a transaction that is not."""
        time.sleep(_RETRY_S)
        self._load(self._exchange.assigned())

    def _load(self, partitions: list[TopicPartition]) -> None:
        """Offsets first: when these are stable, no transaction of an earlier owner can still be decided to commit."""
        self._forget()
        self._positions = self._exchange.committed(partitions)
        without = [partition for partition, offset in self._positions.items() if offset < 0]
        self._positions |= self._topics.starts(without)
        numbers = sorted({number for _, number in partitions})
        parked: dict[int, list[Record]] = {}
        if self._by_key:
            ends = self._topics.ends((self._names.parked, number) for number in numbers)
            starts = self._topics.starts(ends)
            for record in read_range(self._client, starts, ends):
                parked.setdefault(record.partition, []).append(record)
        for number in numbers:
            self._states[number] = Retrying(
                self._names,
                self._backoff,
                self._levels_ms,
                by_key=self._by_key,
                partition=number,
                parked=parked.get(number, ()),
            )
        self._exchange.start_at(self._positions)


class _Batch:
    """What one transaction will hold."""

    def __init__(self) -> None:
        self.outgoing: list[Outgoing] = []
        self.offsets: dict[TopicPartition, int] = {}
        self.counts: Counter[str] = Counter()
        self.taken = 0
        self.last: Place | None = None
