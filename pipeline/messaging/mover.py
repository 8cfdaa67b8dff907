"""The mover: takes records that are due out of the topics in which they wait, each exactly once.

All movers are one group, so that a partition has one mover at a time; one process serves all levels.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.pipeline.errors import PipelineError
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.errors import MessagingError, NotCommittedError, RejectedError
from highwater.pipeline.messaging.exchange import Exchange
from highwater.pipeline.messaging.levels import ROCKETMQ_LEVELS_MS, WAITING_PATTERN, check_levels
from highwater.pipeline.messaging.moving import MOVERS, Move, Waiting, dead_move
from highwater.pipeline.messaging.topics import OF_ALL, Topics, ensure_delay_topics

_LOGGER: Final = logging.getLogger(__name__)
_MOST: Final = 2000
"""Moves of one transaction."""
_GO_ON_AT: Final = 0.5
"""The share of a partition's limit in memory at which fetching resumes."""
_LONGEST_WAIT_S: Final = 0.25
_RETRY_S: Final = 0.2
_TRIM_INTERVAL_S: Final = 60.0
DAY_MS: Final = 86_400_000

Say = Callable[[str], None]


class Mover:
    """The caller calls `run`, or `step` again and again, and then `close`."""

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        name: str | None = None,
        topics: Sequence[str] = (WAITING_PATTERN,),
        levels_ms: Sequence[int] = ROCKETMQ_LEVELS_MS,
        keep_ms: int = DAY_MS,
        say: Say = _LOGGER.warning,
    ) -> None:
        """`client`: librdkafka's properties. `keep_ms`: how long moved records stay readable for traces."""
        self._levels_ms = check_levels(levels_ms)
        self._topics = Topics(client)
        ensure_delay_topics(self._topics, self._levels_ms)
        self._waiting = Waiting(self._levels_ms)
        self._paused: set[TopicPartition] = set()
        self._moved_up_to: dict[TopicPartition, int] = {}
        self._alone_for = 0
        """How many of the next moves go alone, to find those that the broker refuses."""
        self._keep_ms = keep_ms
        self._trimmed_s = time.monotonic()
        self._say = say
        self.moved_count = 0
        self.dead_count = 0
        self._exchange = Exchange(client, MOVERS, name, on_assign=self._assigned, on_revoke=self._revoked)
        self._exchange.subscribe(topics)

    def close(self) -> None:
        self._exchange.close()

    @property
    def has_partitions(self) -> bool:
        return bool(self._exchange.assigned())

    def run(self, stopped: threading.Event) -> None:
        """Move until the event is set. Raises MessagingError."""
        while not stopped.is_set():
            self.step(_LONGEST_WAIT_S)
            if time.monotonic() - self._trimmed_s >= _TRIM_INTERVAL_S:
                self.trim()

    def step(self, longest_wait_s: float) -> int:
        """Wait for records that are due, move them, and return how many they were. Raises MessagingError."""
        self._fetch(longest_wait_s)
        moves = self._waiting.due(now_ms(), 1 if self._alone_for else _MOST)
        if self._alone_for:
            moves = moves[:1]
        if not moves:
            return 0
        try:
            self._commit([self._checked(move) for move in moves])
        except RejectedError as error:
            if len(moves) == 1:
                return self._bury(moves[0], str(error))
            self._alone_for = len(moves)
            return 0
        except NotCommittedError as error:
            self._say(f"{error}; the moves are tried again")
            time.sleep(_RETRY_S)
            return 0
        return len(moves)

    def _fetch(self, longest_wait_s: float) -> None:
        next_ms = self._waiting.next_release_ms()
        wait_s = longest_wait_s if next_ms is None else min(longest_wait_s, (next_ms - now_ms()) / 1000)
        records = self._exchange.read(wait_s, _MOST)
        for record in records:
            self._waiting.add(record)
        came = {(record.topic, record.partition) for record in records}
        full = {each for each in came - self._paused if self._waiting.share(each) >= 1}
        if full:
            self._exchange.pause(full)
            self._paused |= full

    def _checked(self, move: Move) -> Move:
        """A target that does not exist would end every transaction."""
        if self._topics.partitions(move.outgoing.topic) is not None:
            return move
        return self._dead(move, self._topics.absence_of(move.outgoing.topic))

    def _dead(self, move: Move, reason: str) -> Move:
        dead = dead_move(move.record, reason, now_ms())
        self._topics.ensure(dead.outgoing.topic, 1, OF_ALL)
        self._say(f"{move.record.place} cannot be delivered, and goes to {dead.outgoing.topic}: {reason}")
        self.dead_count += 1
        return dead

    def _bury(self, move: Move, reason: str) -> int:
        dead = self._dead(move, reason)
        try:
            self._commit([dead])
        except RejectedError as error:
            raise MessagingError(
                f"{move.record.place} can neither be delivered nor become a dead letter: {error}"
            ) from None
        except NotCommittedError:
            return 0
        return 1

    def _commit(self, moves: Sequence[Move]) -> None:
        offsets = {(record.topic, record.partition): record.offset + 1 for record, _ in moves}
        self._exchange.commit([outgoing for _, outgoing in moves], offsets)
        self._waiting.done(moves)
        self._moved_up_to |= offsets
        self.moved_count += len(moves)
        self._alone_for = max(0, self._alone_for - len(moves))
        ready = {each for each in self._paused if self._waiting.share(each) <= _GO_ON_AT}
        self._exchange.resume(ready)
        self._paused -= ready

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        self._revoked(partitions)

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._waiting.forget(partition)
            self._paused.discard(partition)
            self._moved_up_to.pop(partition, None)

    def trim(self) -> None:
        """Delete what was moved before the time for which it is kept; what cannot be deleted now is deleted later."""
        self._trimmed_s = time.monotonic()
        try:
            old = self._topics.at_time(self._moved_up_to, now_ms() - self._keep_ms)
            starts = self._topics.starts(self._moved_up_to)
            up_to = {each: min(old[each], self._moved_up_to[each]) for each in old}
            self._topics.delete_before({each: offset for each, offset in up_to.items() if offset > starts[each]})
        except PipelineError as error:
            names = ", ".join(sorted({partition_name(*each) for each in self._moved_up_to})[:3])
            self._say(f"moved records of {names}, … stay: {error}")
