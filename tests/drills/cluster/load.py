"""Load on a cluster while it is broken, and what must be true of it afterwards.

A producer writes numbered values that show any wrong bit (`value_of`) to the partitions of its own topic by turns, at a
steady rate whatever the cluster does. A reader follows all topics meanwhile. Afterwards two clients read everything
from the beginning, one of them not librdkafka, and the files of the replicas are compared.
"""

from __future__ import annotations

import hashlib
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from tests.drills import actors
from tests.drills.actors import Lost
from tests.drills.reading import DEADLINE_S, Found, Place, Seen, read
from tests.drills.writers import author_of, value_of

# What is sent to a broker that neither answers nor hangs up is asked of another soon.
_IMPATIENT: Final = {
    "request_timeout_ms": 3000,
    "socket_timeout_ms": 4000,
    "socket_connection_setup_timeout_ms": 2000,
    "topic_metadata_refresh_interval_ms": 1000,
    "message_timeout_ms": 300_000,
}
# A broker that has just come back tells of fewer brokers than there are, and librdkafka forgets the others.
_FORGETFUL: Final = {"metadata_recovery_strategy": "rebootstrap"}
_TICK_S: Final = 0.01
_BATCH_HEADER: Final = struct.Struct(">qi11xi16xqh8x")
"""Of it: base offset, length, last offset delta, producer id, producer epoch."""
_FLUSH_S: Final = 120.0
_UNSAFE_FLUSH_S: Final = 20.0
_MOST_WAITING: Final = 50_000


def client(bootstrap_servers: str, /, **options: Any) -> dict[str, Any]:
    """The settings of a client, with `_` for `.` in their names."""
    return actors.client(bootstrap_servers, **_FORGETFUL, **options)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a producer asks for acknowledgements, and what it may therefore rely on."""

    name: str
    options: Mapping[str, Any]
    is_safe: bool = False
    """What was acknowledged is never lost."""
    is_exact: bool = False
    """Each value is there once and in order."""


_IN_ORDER: Final = {"max_in_flight_requests_per_connection": 1, "enable_idempotence": False}
KINDS: Final = (
    Kind("acks-0", {"acks": "0", **_IN_ORDER}),
    Kind("acks-1", {"acks": "1", **_IN_ORDER}),
    Kind("acks-all", {"acks": "all", **_IN_ORDER}, is_safe=True),
    Kind("idempotent", {"acks": "all", "enable_idempotence": True}, is_safe=True, is_exact=True),
)


class LoadProducer:
    """A thread that writes at a steady rate until it is stopped."""

    def __init__(self, kind: Kind, topic: str, partitions: int, bootstrap_servers: str, records_per_s: int) -> None:
        self.kind = kind
        self.topic = topic
        self.asked = 0
        self.refused: Counter[str] = Counter()
        self.left = 0
        """Neither delivered nor refused in the end, though the cluster was whole again."""
        self.answers: dict[int, tuple[int, int]] = {}
        """Partition and offset by number, as acknowledged; the offset is negative where the client was not told."""
        self.answer_times_s: dict[int, list[float]] = defaultdict(list)
        """By partition, when acknowledgements came: one a tick is enough."""
        self.failure: BaseException | None = None
        self.partitions = partitions
        self._per_tick = max(1, round(records_per_s * _TICK_S))
        self._stopping = threading.Event()
        options = {"linger_ms": 5, **_IMPATIENT, **kind.options}
        self._producer = Producer(client(bootstrap_servers, **options))
        self._thread = threading.Thread(target=self._run, name=topic, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Write no more; returns when every value is delivered or refused, or will not be."""
        self._stopping.set()
        self._thread.join()
        self.left = self._producer.flush(_FLUSH_S if self.kind.is_safe else _UNSAFE_FLUSH_S)

    def abandon(self) -> None:
        self._stopping.set()
        self._producer.purge()

    def longest_gap(self, start_s: float, end_s: float) -> float:
        """The longest time between two acknowledgements of one partition, in seconds."""
        longest = 0.0
        for times_s in self.answer_times_s.values():
            inside = [start_s, *(t for t in times_s if start_s <= t <= end_s)]
            longest = max(
                longest, *(later - earlier for earlier, later in zip(inside, [*inside[1:], end_s], strict=True))
            )
        return longest

    def _run(self) -> None:
        try:
            next_s = time.monotonic()
            while not self._stopping.is_set():
                if len(self._producer) < _MOST_WAITING:
                    for _ in range(self._per_tick):
                        self._produce()
                next_s = max(next_s + _TICK_S, time.monotonic() - 1.0)
                self._producer.poll(0)
                while (left_s := next_s - time.monotonic()) > 0:
                    self._producer.poll(left_s)
        except BaseException as error:  # told by `verify`, in the main thread
            self.failure = error

    def _produce(self) -> None:
        number = self.asked
        self._producer.produce(
            self.topic,
            value_of(self.topic, number),
            partition=number % self.partitions,
            on_delivery=lambda error, message: self._delivered(number, error, message),
        )
        self.asked += 1

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is not None:
            self.refused[str(error.name())] += 1
            return
        partition, offset = message.partition(), message.offset()
        self.answers[number] = (partition, -1 if offset is None else offset)
        times_s, now_s = self.answer_times_s[partition], time.monotonic()
        if not times_s or now_s - times_s[-1] > _TICK_S:
            times_s.append(now_s)


class LiveReader:
    """Follows all partitions while the cluster is broken: what a consumer was given must stay."""

    def __init__(self, bootstrap_servers: str, places: Iterable[Place]) -> None:
        self.seen: dict[Place, dict[int, bytes]] = defaultdict(dict)
        """A digest of the value by offset."""
        self.violations: list[str] = []
        self._stopping = threading.Event()
        patience = {name: value for name, value in _IMPATIENT.items() if name.startswith(("socket", "topic"))}
        options = {"group_id": "unused", "enable_auto_commit": False, "auto_offset_reset": "earliest", **patience}
        self._consumer = Consumer(client(bootstrap_servers, **options))
        self._consumer.assign([TopicPartition(*place, 0) for place in places])
        self._thread = threading.Thread(target=self._run, name="live reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, 0.1):
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                if message.error() is not None or topic is None or partition is None or offset is None:
                    continue
                digest = _digest(message.value())
                if self.seen[topic, partition].setdefault(offset, digest) != digest:
                    self.violations.append(f"{topic}-{partition}: a consumer was given two values at offset {offset}")


@dataclass(slots=True)
class Outcome:
    """What became of what one producer wrote."""

    kind: Kind
    written: int = 0
    acknowledged: int = 0
    refused: int = 0
    """Or never answered."""
    lost: int = 0
    """Acknowledged, and not there."""
    duplicates: int = 0
    excused: int = 0
    """Those of the duplicates that the client wrote under another epoch of its producer id: no broker can know them
    for the same. librdkafka begins a new epoch when a broker refused one of several batches under way, and writes what
    timed out again (rd_kafka_idemp_drain_epoch_bump)."""
    reordered: int = 0
    longest_gap_s: float = 0.0
    violations: list[str] = field(default_factory=list)


def verify(
    producers: Sequence[LoadProducer],
    reader: LiveReader,
    bootstrap_servers: str,
    interval_s: tuple[float, float],
    log_dir: Path,
) -> list[Outcome]:
    """Read everything twice and hold it to what was acknowledged; the producers and the reader have finished.

    `log_dir`: of one replica of every partition.
    """
    partitions = {producer.topic: producer.partitions for producer in producers}
    places = [(topic, partition) for topic, count in partitions.items() for partition in range(count)]
    seen = _read_with_librdkafka(bootstrap_servers, places)
    by_other = _read_with_kafka_python(bootstrap_servers, seen)
    outcomes = []
    for producer in producers:
        outcome = hold(producer, seen, log_dir)
        outcome.longest_gap_s = producer.longest_gap(*interval_s)
        own = [place for place in places if place[0] == producer.topic]
        for place in own:
            outcome.violations += compare_reads(place, seen[place], by_other[place], reader.seen[place])
        outcomes.append(outcome)
    outcomes[0].violations += reader.violations
    return outcomes


def _read_with_librdkafka(bootstrap_servers: str, places: Sequence[Place]) -> dict[Place, Seen]:
    """Asked again when a broker that has just come back refuses, as clients do."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            return read(AdminClient(client(bootstrap_servers)), bootstrap_servers, places, {})
        except KafkaException:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.5)


def hold(producer: LoadProducer, seen: Mapping[Place, Seen], log_dir: Path) -> Outcome:
    kind = producer.kind
    outcome = Outcome(kind, producer.asked, len(producer.answers), producer.refused.total() + producer.left)
    if kind.is_safe and producer.left:
        outcome.violations.append(f"{kind.name}: {producer.left} values were never delivered, and never refused")
    if producer.failure is not None:
        outcome.violations.append(f"{kind.name}: the producer ended: {producer.failure!r}")
    there: dict[int, int] = {}
    at: dict[tuple[int, int], int] = {}
    for (topic, partition), found in seen.items():
        if topic != producer.topic:
            continue
        newest = -1
        epochs = _producer_epochs(log_dir / f"{topic}-{partition}") if kind.is_exact else {}
        for record in found.records:
            try:
                author, number = author_of(record.value, f"{topic}-{partition} at {record.offset}")
            except Lost as error:
                outcome.violations.append(str(error))
                continue
            if author != topic or number >= producer.asked or number % producer.partitions != partition:
                outcome.violations.append(f"{topic}-{partition} at {record.offset}: {author} {number} is not of here")
            at[partition, record.offset] = number
            if number in there:
                outcome.duplicates += 1
                outcome.excused += epochs.get(record.offset) != epochs.get(there[number])
            elif number < newest:
                outcome.reordered += 1
            newest = max(newest, number)
            there.setdefault(number, record.offset)
    moved = 0
    for number, (partition, offset) in producer.answers.items():
        if number not in there:
            outcome.lost += 1
        elif offset >= 0 and at.get((partition, offset)) != number:
            moved += 1
    if kind.is_safe and outcome.lost:
        outcome.violations.append(f"{kind.name}: {outcome.lost} acknowledged values are lost")
    if kind.is_safe and moved:
        outcome.violations.append(f"{kind.name}: {moved} values are elsewhere than acknowledged")
    if kind.is_exact and outcome.duplicates > outcome.excused:
        twice = outcome.duplicates - outcome.excused
        outcome.violations.append(f"{kind.name}: {twice} values are there twice, of one epoch of the producer")
    if kind.is_exact and outcome.reordered:
        outcome.violations.append(f"{kind.name}: {outcome.reordered} values are out of order")
    return outcome


def compare_reads(
    place: Place, found: Seen, other: Sequence[tuple[int, bytes]], live: Mapping[int, bytes]
) -> list[str]:
    name = f"{place[0]}-{place[1]}"
    violations = []
    if [record.offset for record in found.records] != list(range(found.high)):
        violations.append(f"{name}: the offsets have gaps")
    records = digests(found.records)
    if records != other:
        violations.append(f"{name}: two clients read different things")
    there = dict(records)
    gone = sum(there.get(offset) != digest for offset, digest in live.items())
    if gone:
        violations.append(f"{name}: {gone} values that a consumer was given are gone or changed")
    return violations


def _digest(value: bytes | None) -> bytes:
    return hashlib.blake2b(value or b"", digest_size=8).digest()


def digests(records: Iterable[Found]) -> list[tuple[int, bytes]]:
    return [(record.offset, _digest(record.value)) for record in records]


def _read_with_kafka_python(bootstrap_servers: str, seen: Mapping[Place, Seen]) -> dict[Place, list[tuple[int, bytes]]]:
    """As far as the first client read, in another's words."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers.split(","), enable_auto_commit=False, group_id=None)
    values: dict[Place, list[tuple[int, bytes]]] = {place: [] for place in seen}
    try:
        consumer.assign([KafkaPythonPartition(*place) for place in seen])
        consumer.seek_to_beginning()
        left = {place for place, found in seen.items() if found.high > 0}
        deadline_s = time.monotonic() + DEADLINE_S
        while left:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"kafka-python could not read {sorted(left)} to their ends")
            for batch in consumer.poll(timeout_ms=200, max_records=5000).values():
                for record in batch:
                    place = record.topic, record.partition
                    if record.offset < seen[place].high:
                        values[place].append((record.offset, _digest(record.value)))
                    if record.offset >= seen[place].high - 1:
                        left.discard(place)
    finally:
        consumer.close()
    return values


def _producer_epochs(directory: Path) -> dict[int, tuple[int, int]]:
    """By offset, the producer id and epoch of the batch, as the files of a replica have them."""
    epochs = {}
    for segment in sorted(directory.glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at + _BATCH_HEADER.size <= len(data):
            base_offset, length, last_delta, producer_id, epoch = _BATCH_HEADER.unpack_from(data, at)
            epochs.update(dict.fromkeys(range(base_offset, base_offset + last_delta + 1), (producer_id, epoch)))
            at += 12 + length
    return epochs


def differing_replicas(log_dirs: Mapping[int, Path], places: Iterable[Place]) -> list[str]:
    """The partitions whose files are not the same, byte for byte, on all brokers that have them."""
    return [
        f"{topic}-{partition}"
        for topic, partition in places
        if len({_log_digest(log_dir / f"{topic}-{partition}") for log_dir in log_dirs.values()}) != 1
    ]


def _log_digest(directory: Path) -> bytes:
    digest = hashlib.blake2b()
    for segment in sorted(directory.glob("*.log")):
        digest.update(segment.read_bytes())
    return digest.digest()
