"""Random histories of consumers and movers over a simulated log: transactions are atomic, crashes come at any step.

python -m tests.pipeline.messaging.history --histories 10000
python -m tests.pipeline.messaging.history --seed N
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from typing import Final, NamedTuple

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.levels import WHEEL, GroupTopics, level_of
from highwater.pipeline.messaging.moving import Waiting
from highwater.pipeline.messaging.policy import Backoff, Failure
from highwater.pipeline.messaging.record import Outgoing, Record
from highwater.pipeline.messaging.retrying import Retrying, Work

TOPICS: Final = GroupTopics("orders", "billing")
LEVELS_MS: Final = (1000, 3000, 10_000)
BACKOFF: Final = Backoff((1000, 3000, 3000))
_MOST_STEPS: Final = 20_000


class BrokenPromiseError(AssertionError):
    """A promise is broken."""


class Counts(NamedTuple):
    """What happened in a history."""

    records: int
    failures: int
    crashes: int
    moves: int
    parked: int
    dead: int


class Log:
    """Topics and committed offsets. What a transaction wrote appears at once."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, list[Record]] = defaultdict(list)
        self.committed: dict[TopicPartition, int] = defaultdict(int)

    def append(self, outgoing: Outgoing) -> None:
        partition = (outgoing.topic, outgoing.partition or 0)
        records = self.partitions[partition]
        place = (*partition, len(records))
        records.append(Record(*place, outgoing.timestamp_ms, outgoing.key, outgoing.value, outgoing.headers))


class History:
    """One seed decides keys, outcomes, pauses and crashes."""

    def __init__(self, seed: int, *, by_key: bool) -> None:
        self.random = random.Random(seed)
        self.by_key = by_key
        self.now_ms = 1_000_000
        self.log = Log()
        self.counts: dict[str, int] = defaultdict(int)
        self.record_count = self.random.randint(1, 25)
        keys = [b"a", b"b", b"c", None][: self.random.randint(1, 4)]
        self.keys = {number: self.random.choice(keys) for number in range(self.record_count)}
        self.failing = self.random.choice((0.1, 0.5, 0.9))
        self.crashing = self.random.choice((0.0, 0.05, 0.3))
        self.produced = 0
        self.not_before_ms: dict[int, int] = {}
        """By record, as of committed transactions."""
        self.ended: list[int] = []
        """Records that are done or dead, in the order of commits."""
        self._restart_consumer()
        self._restart_mover()

    # The consumer of the group

    def _restart_consumer(self) -> None:
        parked = self.log.partitions[TOPICS.parked, 0]
        self.retrying = Retrying(TOPICS, BACKOFF, LEVELS_MS, by_key=self.by_key, partition=0, parked=parked)
        self.position = {name: self.log.committed[name, 0] for name in (TOPICS.topic, TOPICS.retry)}
        self.open_outgoing: list[Outgoing] = []
        self.open_ended: list[int] = []
        self.open_not_before_ms: dict[int, int] = {}

    def _consume(self) -> None:
        work = self.retrying.due(self.now_ms)
        if work is not None:
            self._handle(work)
            return
        for name in self.random.sample((TOPICS.topic, TOPICS.retry), 2):
            records = self.log.partitions[name, 0]
            if self.position[name] < len(records):
                record = records[self.position[name]]
                self.position[name] += 1
                taken = self.retrying.take(record, self.now_ms)
                if isinstance(taken, Work):
                    self._handle(taken)
                else:
                    self._check_parked(record)
                    self.open_outgoing += taken
                return

    def _check_parked(self, record: Record) -> None:
        number = int(record.value or b"")
        self.counts["parked"] += 1
        before = [other for other in range(number) if self.keys[other] == record.key]
        if not self.by_key or all(other in self.ended or other in self.open_ended for other in before):
            raise BrokenPromiseError(f"{number} waits, and no record of its key is before it")

    def _handle(self, work: Work) -> None:
        number = int(work.record.value or b"")
        if work.record.key != self.keys[number]:
            raise BrokenPromiseError(f"{number} has the key {work.record.key!r}")
        ended = {*self.ended, *self.open_ended}
        if number in ended:
            raise BrokenPromiseError(f"{number} is handled after its end")
        not_before_ms = self.open_not_before_ms.get(number, self.not_before_ms.get(number, 0))
        if self.now_ms < not_before_ms:
            raise BrokenPromiseError(f"{number} is handled at {self.now_ms}, before {not_before_ms}")
        if self.by_key and self.keys[number] is not None:
            waiting = [other for other in range(number) if self.keys[other] == self.keys[number] and other not in ended]
            if waiting:
                raise BrokenPromiseError(f"{number} is handled before {waiting} of its key")
        failure = None
        if self.random.random() < self.failing:
            self.counts["failures"] += 1
            kind = self.random.random()
            after_ms = self.random.choice((None, None, 500, 7_300, 12_345)) if kind < 0.9 else None
            final = headers.Disposition.REJECTED if kind >= 0.9 else None
            failure = Failure("Boom", "it failed", final, after_ms)
        written = self.retrying.finish(work, failure, self.now_ms)
        self.open_outgoing += written
        if failure is None or any(each.topic == TOPICS.dead for each in written):
            self.open_ended.append(number)
        else:
            delay_ms = failure.after_ms or BACKOFF.after(work.attempt + 1)
            assert delay_ms is not None
            self.open_not_before_ms[number] = self.now_ms + delay_ms

    def _commit_consumer(self) -> None:
        for outgoing in self.open_outgoing:
            self.log.append(outgoing)
        self.log.committed |= {(name, 0): offset for name, offset in self.position.items()}
        self.ended += self.open_ended
        self.not_before_ms |= self.open_not_before_ms
        self.open_outgoing, self.open_ended, self.open_not_before_ms = [], [], {}

    # The mover

    def _restart_mover(self) -> None:
        self.waiting = Waiting(LEVELS_MS)
        self.fetched: dict[TopicPartition, int] = {}

    def _move(self) -> None:
        for partition, records in list(self.log.partitions.items()):
            if level_of(partition[0]) is not None:
                start = self.fetched.setdefault(partition, self.log.committed[partition])
                for record in records[start : start + self.random.randint(0, 5)]:
                    self.waiting.add(record)
                    self.fetched[partition] += 1
        moves = self.waiting.due(self.now_ms, self.random.choice((1, 3, 100)))
        if self._crashes():
            self._restart_mover()
            return
        for record, outgoing in moves:
            partition = (record.topic, record.partition)
            if self.log.committed[partition] != record.offset:
                raise BrokenPromiseError(f"{record.place} is moved out of order")
            self.log.append(outgoing)
            self.log.committed[partition] = record.offset + 1
            due_ms = headers.whole_number(record, headers.DUE_MS)
            assert due_ms is not None
            if outgoing.topic == TOPICS.retry and self.now_ms < due_ms:
                raise BrokenPromiseError(f"{record.place} is delivered at {self.now_ms}, before {due_ms}")
            self.counts["moves"] += 1
        if self._crashes():
            self._restart_mover()
        else:
            self.waiting.done(moves)

    # Steps

    def _crashes(self) -> bool:
        if self.random.random() >= self.crashing:
            return False
        self.counts["crashes"] += 1
        return True

    def _produce(self) -> None:
        if self.produced < self.record_count:
            value = b"%d" % self.produced
            self.log.append(Outgoing(TOPICS.topic, self.keys[self.produced], value, (), self.now_ms))
            self.produced += 1

    def _step(self) -> None:
        what = self.random.random()
        if what < 0.15:
            self._produce()
        elif what < 0.6:
            self._consume()
        elif what < 0.75:
            self._commit_consumer()
        elif what < 0.9:
            self._move()
        else:
            self.now_ms += self.random.choice((1, 50, 500, 2000, 20_000))
        if self._crashes():
            self._restart_consumer()

    def run(self) -> Counts:
        """Raises BrokenPromiseError."""
        steps = 0
        while self.produced < self.record_count or len(self.ended) < self.record_count:
            steps += 1
            if steps > _MOST_STEPS:
                raise BrokenPromiseError(f"only {sorted(self.ended)} of {self.record_count} have ended")
            self._step()
        self._check()
        dead = len(self.log.partitions[TOPICS.dead, 0])
        counts = self.counts
        return Counts(self.record_count, counts["failures"], counts["crashes"], counts["moves"], counts["parked"], dead)

    def _check(self) -> None:
        self._commit_consumer()
        if sorted(self.ended) != list(range(self.record_count)):
            raise BrokenPromiseError(f"records end other than once: {self.ended}")
        if self.by_key:
            for key in {key for key in self.keys.values() if key is not None}:
                order = [number for number in self.ended if self.keys[number] == key]
                if order != sorted(order):
                    raise BrokenPromiseError(f"records of {key!r} end in the order {order}")
        dead = [int(record.value or b"") for record in self.log.partitions[TOPICS.dead, 0]]
        if len(set(dead)) < len(dead):
            raise BrokenPromiseError(f"dead letters are there twice: {dead}")
        strangers = [name for name, _ in self.log.partitions if name.startswith("dlq.") and name != TOPICS.dead]
        if strangers:
            raise BrokenPromiseError(f"the mover could not deliver: {strangers}")
        self._restart_consumer()
        if self.retrying.parked_count or self.retrying.parked_bytes:
            raise BrokenPromiseError("records are parked for ever")
        for partition, records in self.log.partitions.items():
            if (level_of(partition[0]) or partition[0] == WHEEL) and self.log.committed[partition] < len(records):
                raise BrokenPromiseError(f"{partition} has records that nobody needs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--histories", type=int, default=1, help="of each kind")
    options = parser.parse_args()
    for by_key in (False, True):
        found = [0] * len(Counts._fields)
        for seed in range(options.seed, options.seed + options.histories):
            try:
                counts = History(seed, by_key=by_key).run()
            except BrokenPromiseError as error:
                sys.exit(f"seed {seed}, by_key={by_key}: {error}")
            found = [had + more for had, more in zip(found, counts, strict=True)]
        print(f"by_key={by_key}: {options.histories} histories, {Counts(*found)}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
