"""Records that are read, and written on in transactions, while brokers are killed at random: each arrives exactly once,
and nobody stands still for long.

    python -m tests.drills.cluster.transactions --system highwater|kafka [--version 2] [--kills N] [--seed N]

A writer numbers records; a worker takes them from one topic to another, with its offsets in the same transactions; a
reader in a group of its own follows what was committed. Exit status: 0 every record is there once, 1 not, or a stall
was longer than --longest-gap-s. librdkafka is a client of version 1 of transactions: with --version 2 the worker is a
producer of the tests.

With --debug, what clients do is in clients.log in --directory. librdkafka 2.10 to 2.16 itself may stand still in
send_offsets_to_transaction over a coordinator that it dropped, as Metadata named it no longer
(https://github.com/confluentinc/librdkafka/issues/5511): the log has an answer to AddOffsetsToTxn then, nothing for
long, and "Coordinator connection is still down". Brokers name one that is gone for a while, so that this is rare.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from highwater.kafka.records.record import TRANSACTIONS_2
from tests.broker.txn.wire_producer import RefusedError, WireProducer
from tests.drills.cluster.network import Loopback
from tests.drills.cluster.systems import SYSTEMS, BrokerServer, Cluster
from tests.drills.reading import DEADLINE_S, read
from tests.waiting import wait_until

_PARTITIONS: Final = 3
_SOURCE: Final = "source"
_TARGET: Final = "target"
_GROUP: Final = "workers"
_ANSWER_S: Final = 60.0
_SLOW_S: Final = 5.0
_DRAINED_WITHIN_S: Final = 180.0


class Journal:
    """What took long, and the longest time without progress of each."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.longest_gap_s: Counter[str] = Counter()
        self._progressed_s: dict[str, float] = {}
        self._began_s = time.time()

    def note(self, text: str) -> None:
        now_s = time.time()
        self.lines.append(f"{now_s:.3f} ({now_s - self._began_s:6.1f} s) {text}")
        print(self.lines[-1], flush=True)

    def progressed(self, who: str) -> None:
        now_s = time.time()
        gap_s = now_s - self._progressed_s.get(who, now_s)
        self._progressed_s[who] = now_s
        if gap_s > _SLOW_S:
            self.note(f"{who}: {gap_s:.1f} s without progress")
        self.longest_gap_s[who] = max(self.longest_gap_s[who], gap_s)  # type: ignore[assignment]

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        began_s = time.time()
        try:
            yield
        except KafkaException as failure:
            self.note(f"{what}: {failure.args[0]} after {time.time() - began_s:.1f} s")
            raise
        finally:
            if (took_s := time.time() - began_s) > _SLOW_S:
                self.note(f"{what} took {took_s:.1f} s")


class _Client:
    """A thread that does one step after another."""

    def __init__(self, name: str, journal: Journal) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._journal = journal
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.step()
        except BaseException as error:
            self.failure = error
            self._journal.note(f"{self.name} ends: {error!r}")

    def step(self) -> None:
        raise NotImplementedError


class Writer(_Client):
    def __init__(self, settings: dict[str, Any], records_per_s: int, journal: Journal) -> None:
        self.written = 0
        self.delivered = 0
        self._interval_s = 1 / records_per_s
        self._producer = Producer(settings | {"client.id": "writer", "enable.idempotence": True, "linger.ms": 5})
        super().__init__("writer", journal)

    def step(self) -> None:
        self._producer.produce(
            _SOURCE, str(self.written).encode(), partition=self.written % _PARTITIONS, on_delivery=self._delivered
        )
        self.written += 1
        self._producer.poll(self._interval_s)
        self._stopping.wait(self._interval_s)

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            raise KafkaException(error)
        self.delivered += 1
        self._journal.progressed("writer")

    def finish(self) -> None:
        super().finish()
        self._producer.flush(_DRAINED_WITHIN_S)


class Producer2:
    """A producer of version 2 of transactions that the worker uses as it does librdkafka's."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._wire = WireProducer(settings["bootstrap.servers"], settings["transactional.id"], within_s=_ANSWER_S)
        self._timeout_ms = settings["transaction.timeout.ms"]
        self._values: dict[tuple[str, int], list[bytes]] = {}

    def init_transactions(self, _: float) -> None:
        with _as_librdkafka_tells():
            self._wire.init(self._timeout_ms)

    def begin_transaction(self) -> None:
        self._values.clear()

    def produce(self, topic: str, value: bytes, partition: int) -> None:
        self._values.setdefault((topic, partition), []).append(value)

    def send_offsets_to_transaction(self, offsets: Sequence[TopicPartition], _: object, __: float) -> None:
        with _as_librdkafka_tells():
            for (topic, partition), values in self._values.items():
                self._wire.write(topic, partition, *values)
            self._wire.commit_offsets(_GROUP, {(at.topic, at.partition): at.offset for at in offsets})

    def commit_transaction(self, _: float) -> None:
        with _as_librdkafka_tells():
            self._wire.end()


@contextmanager
def _as_librdkafka_tells() -> Iterator[None]:
    try:
        yield
    except (RefusedError, TimeoutError) as error:
        raise KafkaException(KafkaError(KafkaError._FATAL, str(error), True)) from error


class Worker(_Client):
    def __init__(
        self,
        make: Callable[[dict[str, Any]], Any],
        settings: dict[str, Any],
        group: dict[str, Any],
        timeout_s: float,
        journal: Journal,
    ) -> None:
        self.committed = 0
        self._make = make
        self._settings = settings | {
            "client.id": "worker",
            "transactional.id": "worker",
            "transaction.timeout.ms": round(timeout_s * 1000),
        }
        self._producer: Any = None
        self._consumer = Consumer(group | {"client.id": "worker", "group.id": _GROUP})
        self._consumer.subscribe([_SOURCE])
        super().__init__("worker", journal)

    def step(self) -> None:
        try:
            if self._producer is None:
                self._producer = self._make(self._settings)
                with self._journal.timed("init_transactions"):
                    self._producer.init_transactions(_ANSWER_S)
            messages = [message for message in self._consumer.consume(50, 0.2) if message.error() is None]
            if messages:
                self._carry(self._producer, messages)
                self.committed += len(messages)
                self._journal.progressed("worker")
        except KafkaException as failure:
            self._recover(failure.args[0])

    def _carry(self, producer: Any, messages: Sequence[Any]) -> None:
        producer.begin_transaction()
        ends: dict[int, int] = {}
        for message in messages:
            producer.produce(_TARGET, message.value(), partition=message.partition())
            ends[message.partition()] = message.offset() + 1
        offsets = [TopicPartition(_SOURCE, partition, end) for partition, end in ends.items()]
        with self._journal.timed("send_offsets_to_transaction"):
            producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), _ANSWER_S)
        with self._journal.timed("commit_transaction"):
            while True:
                try:
                    producer.commit_transaction(_ANSWER_S)
                except KafkaException as failure:
                    if failure.args[0].retriable():
                        continue
                    raise
                return

    def _recover(self, error: KafkaError) -> None:
        producer, self._producer = self._producer, None
        if producer is not None and error.txn_requires_abort():
            try:
                with self._journal.timed("abort_transaction"):
                    producer.abort_transaction(_ANSWER_S)
                self._producer = producer
            except KafkaException:
                pass  # told; the next producer fences this one
        self._rewind()

    def _rewind(self) -> None:
        """Go on from what is committed."""
        while not self._stopping.is_set():
            try:
                with self._journal.timed("committed"):
                    for at in self._consumer.committed(self._consumer.assignment(), _ANSWER_S):
                        self._consumer.seek(TopicPartition(at.topic, at.partition, max(at.offset, 0)))
                return
            except KafkaException:
                self._stopping.wait(0.5)

    def finish(self) -> None:
        super().finish()
        self._consumer.close()


class Reader(_Client):
    def __init__(self, group: dict[str, Any], journal: Journal) -> None:
        self.seen: Counter[bytes] = Counter()
        options = {"client.id": "reader", "group.id": "readers", "isolation.level": "read_committed"}
        self._consumer = Consumer(group | options | {"enable.auto.commit": True, "auto.commit.interval.ms": 500})
        self._consumer.subscribe([_TARGET])
        super().__init__("reader", journal)

    def step(self) -> None:
        for message in self._consumer.consume(500, 0.2):
            if message.error() is None:
                self.seen[message.value() or b""] += 1
                self._journal.progressed("reader")

    def finish(self) -> None:
        super().finish()
        self._consumer.close()


def coordinator_of(cluster: Cluster, group: str) -> BrokerServer:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})  # an older one would go to the last one
    described = admin.describe_consumer_groups([group])[group].result(DEADLINE_S)
    return cluster.brokers[described.coordinator.id]


def kill_again_and_again(cluster: Cluster, options: argparse.Namespace, journal: Journal) -> None:
    chance = random.Random(options.seed)
    for _ in range(options.kills):
        anybody = chance.choice(list(cluster.brokers.values()))
        victim = coordinator_of(cluster, _GROUP) if options.coordinator else anybody
        journal.note(f"kill -9 of {victim.name}, the controller is {cluster.controller_id()}")
        victim.kill()
        time.sleep(chance.uniform(0, options.longest_s))
        journal.note(f"{victim.name} is started")
        cluster.start(victim)
        time.sleep(chance.uniform(0, options.longest_s))


def run(cluster: Cluster, options: argparse.Namespace, journal: Journal) -> list[str]:
    """What is wrong in the end."""
    settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers}
    if options.recovery:
        settings["metadata.recovery.strategy"] = options.recovery
    if options.debug:
        settings["debug"] = options.debug
    group = settings | {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 1000,
    }
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topics = [NewTopic(topic, _PARTITIONS, 3) for topic in (_SOURCE, _TARGET)]
    for future in admin.create_topics(topics).values():
        future.result(DEADLINE_S)
    writer = Writer(settings, options.records_per_s, journal)
    make = Producer2 if options.version == TRANSACTIONS_2 else Producer
    worker = Worker(make, settings, group, options.transaction_timeout_s, journal)
    reader = Reader(group, journal)
    wait_until(lambda: len(reader.seen) > 0, "the first records arrive", DEADLINE_S)
    kill_again_and_again(cluster, options, journal)
    writer.finish()

    def drained() -> bool:
        return len(reader.seen) >= writer.delivered or worker.failure is not None

    wrong = []
    try:
        wait_until(drained, "all records arrive", _DRAINED_WITHIN_S)
    except TimeoutError as error:
        wrong.append(str(error))
    worker.finish()
    reader.finish()
    places = [(_TARGET, partition) for partition in range(_PARTITIONS)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    seen = read(admin, cluster.bootstrap_servers, places, {}, is_committed=True)
    there = Counter(record.value for found in seen.values() for record in found.records)
    missing = [number for number in range(writer.written) if str(number).encode() not in there]
    twice = [value for value, count in there.items() if count > 1]
    if missing:
        wrong.append(f"{len(missing)} records are missing, as {missing[:5]}")
    if twice:
        wrong.append(f"{len(twice)} records are there more than once, as {twice[:5]}")
    wrong += [f"{client.name}: {client.failure!r}" for client in (writer, worker, reader) if client.failure is not None]
    for who, gap_s in journal.longest_gap_s.items():
        journal.note(f"{who}: longest time without progress {gap_s:.1f} s")
        if gap_s > options.longest_gap_s:
            wrong.append(f"{who} stood still for {gap_s:.1f} s")
    journal.note(f"{writer.written} records, {options.kills} kills")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="transactions", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--system", choices=SYSTEMS, default="highwater")
    parser.add_argument("--version", type=int, choices=(1, TRANSACTIONS_2), default=1, help="of transactions")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--longest-s", type=float, default=8, help="that a broker is down, and up again")
    parser.add_argument("--coordinator", action="store_true", help="kill the one of the worker's group each time")
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    parser.add_argument("--records-per-s", type=int, default=100)
    parser.add_argument("--transaction-timeout-s", type=float, default=60)
    parser.add_argument("--longest-gap-s", type=float, default=30)
    parser.add_argument("--recovery", choices=("none", "rebootstrap"), help="metadata.recovery.strategy of the clients")
    parser.add_argument("--debug", default="", help="of librdkafka, as cgrp,eos,metadata")
    parser.add_argument("--directory", type=Path, help="where the cluster lives (default: a temporary one)")
    options = parser.parse_args(arguments)
    directory: Path = options.directory or Path(tempfile.mkdtemp(prefix="transactions-drill-"))
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "clients.log").open("wb") as log:
        os.dup2(log.fileno(), 2)
    journal = Journal()
    journal.note(f"{options.system}, seed {options.seed}, in {directory}")
    with Cluster([options.system] * 3, directory, Loopback()) as cluster:
        wrong = run(cluster, options, journal)
    for line in wrong:
        print(f"BROKEN: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
