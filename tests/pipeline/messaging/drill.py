"""Kills consumers and movers with SIGKILL under load, and counts what came of each record.

    python -m tests.pipeline.messaging.drill --rounds 50

Records of some keys go to consumers that fail, retry, reject and pass them on; others wait for their time. Afterwards
each is in the topic of results or among the dead letters exactly once, those of a key are in order, and none came
early. --bootstrap runs it on any broker.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging import topics as messaging_topics
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.consumer import Delivery, Reject, RetryingConsumer
from highwater.pipeline.messaging.delay import delay
from highwater.pipeline.messaging.exchange import Exchange
from highwater.pipeline.messaging.levels import ROCKETMQ_LEVELS_MS
from highwater.pipeline.messaging.reading import read_range
from highwater.pipeline.messaging.record import Outgoing, Record
from highwater.pipeline.messaging.topics import ensure_delay_topics
from tests.broker.running import running_broker
from tests.pipeline.source.topics import DEADLINE_S, Topics
from tests.waiting import wait_until

GROUP: Final = "worker"
_KEYS: Final = 12
_PARTITIONS: Final = 3
_SETTLE_S: Final = 180.0
_AT_WORK_S: Final = 20.0
_PER_ROUND: Final = 60


class LedgerError(AssertionError):
    """A record is lost, there twice, early or out of order."""


class Outcome(NamedTuple):
    """What a drill found."""

    rounds: int
    records: int
    handled: int
    dead: int
    delayed: int
    kills: int
    at_work: int
    """Kills of processes that had begun to work, and were not still starting."""


# In the consumers' processes


def chance(value: bytes, attempt: int) -> int:
    """From 0 to 99, the same in every process."""
    return zlib.crc32(b"%s/%d" % (value, attempt)) % 100


def handle(record: Delivery) -> None:
    value = record.value or b""
    print(value, flush=True)  # noqa: T201 - the drill sees by it that this process is at work
    found = chance(value, record.attempt)
    if found < 3:
        raise Reject("never")
    if found < 25:
        raise ConnectionError("away")
    due = record.header(headers.DUE_MS)
    if due is not None and now_ms() < int(due):
        raise LedgerError(f"{value!r} is early")
    record.send("results", value, record.key)


def commit_in_two_steps() -> None:
    """Take the promise away, so that the drill can show that it notices."""
    whole = Exchange.commit

    def commit(self: Exchange, outgoing: Sequence[Outgoing], offsets: Mapping[TopicPartition, int]) -> None:
        whole(self, outgoing, {})
        time.sleep(1)
        whole(self, [], offsets)

    Exchange.commit = commit  # type: ignore[method-assign]


def work(bootstrap: str, ordering: Any, name: str) -> None:
    RetryingConsumer(
        *(bootstrap, "ledger", GROUP, handle),
        ordering=ordering,
        backoff="200ms 400ms 800ms",
        name=name,
        batch_records=20,
    ).run()


# In the drill's process


class Victim:
    """A process that is started again after each kill."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self.start()

    def start(self) -> None:
        self._size_bytes = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", *self._command], stdout=log, stderr=log)

    def is_at_work(self) -> bool:
        """Whether it has said anything since its start."""
        return self._log.stat().st_size > self._size_bytes

    def kill(self) -> None:
        if self.process.poll() is not None:
            raise LedgerError(f"{self._command} ended by itself: {self._log.read_text()[-2000:]}")
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def run(
    bootstrap: str, ordering: str, rounds: int, directory: Path, seed: int, *, in_two_steps: bool = False
) -> Outcome:
    """Raises LedgerError."""
    rng = random.Random(seed)
    topics = Topics(bootstrap)
    topics.create("ledger", _PARTITIONS)
    topics.create("results", _PARTITIONS)
    topics.create("on-time", 1, message_timestamp_type="LogAppendTime")
    ensure_delay_topics(messaging_topics.Topics({"bootstrap.servers": bootstrap}), ROCKETMQ_LEVELS_MS)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    worker = ["tests.pipeline.messaging.drill", "--worker", ordering, "--bootstrap", bootstrap]
    worker += [*(["--in-two-steps"] if in_two_steps else []), "--name"]
    mover = ["highwater", "broker", "delay", "run", "-b", bootstrap, "--name"]
    commands = [[*worker, "w1"], [*worker, "w2"], [*mover, "m1"]]
    written, due, kills, at_work = 0, dict[bytes, int](), 0, 0
    with ExitStack() as stack:
        victims = []
        for command in commands:
            victims.append(Victim(command, directory / f"{command[-1]}.log"))
            stack.callback(victims[-1].stop)
        for _ in range(rounds):
            for _ in range(_PER_ROUND):
                producer.produce("ledger", b"%d" % written, b"key %d" % (written % _KEYS))
                written += 1
            for _ in range(_PER_ROUND // 4):
                value, due_ms = b"%d" % len(due), now_ms() + rng.randint(50, 4000)
                producer.produce(**delay("on-time", value, b"k", due_ms=due_ms).arguments())
                due[value] = due_ms
            if producer.flush(DEADLINE_S):
                raise LedgerError("the load could not be written")
            for victim in rng.sample(victims, rng.choice((1, 1, 2))):
                deadline_s = time.monotonic() + _AT_WORK_S
                while not victim.is_at_work() and time.monotonic() < deadline_s:
                    time.sleep(0.01)
                at_work += victim.is_at_work()
                time.sleep(rng.uniform(0, 0.8))
                victim.kill()
                victim.start()
                kills += 1
        wait_until(lambda: _ended(bootstrap) >= written, f"all {written} records", _SETTLE_S)
        wait_until(lambda: len(_read(bootstrap, "on-time")) >= len(due), "the delayed ones", _SETTLE_S)
    handled, dead = _check(bootstrap, written, ordering)
    _check_times(bootstrap, due)
    return Outcome(rounds, written, handled, dead, len(due), kills, at_work)


def _read(bootstrap: str, name: str) -> list[Record]:
    """All committed records of a topic, by partition; none if it is not there yet."""
    client = {"bootstrap.servers": bootstrap}
    topics = messaging_topics.Topics(client)
    partitions = [(name, number) for number in range(topics.partitions(name) or 0)]
    return list(read_range(client, topics.starts(partitions), topics.ends(partitions)))


def _ended(bootstrap: str) -> int:
    time.sleep(0.5)  # reading is work, too
    return sum(len(_read(bootstrap, name)) for name in ("results", f"dlq.ledger.{GROUP}"))


def _check(bootstrap: str, written: int, ordering: str) -> tuple[int, int]:
    results = _read(bootstrap, "results")
    dead = _read(bootstrap, f"dlq.ledger.{GROUP}")
    found = Counter(int(row.value or b"") for row in [*results, *dead])
    if twice := [value for value, count in found.items() if count > 1]:
        raise LedgerError(f"there twice: {sorted(twice)}")
    if lost := set(range(written)) - set(found):
        raise LedgerError(f"lost: {sorted(lost)}")
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for row in results:
        by_key[row.key or b""].append(int(row.value or b""))
    if ordering == "key" and (wrong := [key for key, values in by_key.items() if values != sorted(values)]):
        raise LedgerError(f"out of order: {wrong}")
    return len(results), len(dead)


def _check_times(bootstrap: str, due: dict[bytes, int]) -> None:
    rows = _read(bootstrap, "on-time")
    if Counter(row.value or b"" for row in rows) != Counter(due.keys()):
        counts = Counter(row.value or b"" for row in rows)
        places = sorted(
            (row.value, row.offset, row.text(headers.ORIGIN)) for row in rows if counts[row.value or b""] > 1
        )
        lost = set(due) - set(counts)
        raise LedgerError(f"delayed records are lost ({sorted(lost)}) or there twice ({places})")
    if early := [row.value or b"" for row in rows if row.timestamp_ms < due[row.value or b""]]:
        raise LedgerError(f"early: {early}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ordering", choices=("none", "key"), default="key")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap", help="a broker that runs already, with none of the drill's topics")
    parser.add_argument("--worker", choices=("none", "key"), help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    parser.add_argument("--in-two-steps", action="store_true", help="a control: write records and offsets one by one")
    options = parser.parse_args()
    if options.worker:
        if options.in_two_steps:
            commit_in_two_steps()
        work(options.bootstrap, options.worker, options.name)
        return
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        bootstrap = options.bootstrap
        if bootstrap is None:
            bootstrap = stack.enter_context(running_broker(Path(name, "log"))).address
        outcome = run(
            bootstrap, options.ordering, options.rounds, Path(name), options.seed, in_two_steps=options.in_two_steps
        )
        print(f"{options.ordering}: {outcome}: 0 lost, 0 twice, 0 early")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
