"""Actors that write records, and know from each record's bytes who wrote it and when."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from confluent_kafka import Producer

from tests.drills.actors import Actor, Lost, client
from tests.drills.reading import DEADLINE_S, Found, Place, Seen


def value_of(writer: str, sequence: int) -> bytes:
    """A value that tells its writer and number, and shows any wrong bit: size and content follow from the two."""
    digest = hashlib.blake2b(f"{writer} {sequence}".encode(), digest_size=32).digest()
    size = 20 + digest[0] * (1 if digest[1] < 240 else 20)
    return b"%s %d %s" % (writer.encode(), sequence, (digest * (size // 32 + 1))[:size])


def author_of(value: bytes | None, place: str) -> tuple[str, int]:
    """Who wrote a value, and its number; Lost if nobody did."""
    try:
        writer, number, _ = (value or b"").split(b" ", 2)
        author = writer.decode(), int(number)
    except ValueError:
        raise Lost(f"{place}: nobody wrote the value {(value or b'')[:80]!r}") from None
    if value_of(*author) != value:
        raise Lost(f"{place}: the value of {author} is changed")
    return author


class Writer(Actor):
    """Writes numbered values to the partitions of a topic by turns.

    An idempotent one must find each value once, in order and without a gap. One that only retries may find some again.
    One that does not wait for answers (acks=0) may miss some.
    """

    interval_s = 0.01

    def __init__(self, name: str, bootstrap_servers: str, topic: str, partitions: int, **options: Any) -> None:
        super().__init__(name)
        self.topic = topic
        self.repeats = 0
        self._partitions = partitions
        self._is_idempotent = bool(options.get("enable_idempotence"))
        self._is_deaf = str(options.get("acks")) == "0"
        self._number = 0
        self._failed: list[str] = []
        self._lock = threading.Lock()
        self._answered: list[tuple[int, int, int]] = []
        """(number, partition, offset), since the last kill."""
        self._promised: list[tuple[int, int, int]] = []
        self._places: dict[tuple[int, int], int] = {}
        """The numbers found at (partition, offset) of which no acknowledgement was checked yet."""
        self._read_up_to: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._producer = Producer(client(bootstrap_servers, linger_ms=1, batch_num_messages=40, **options))

    def step(self) -> None:
        for _ in range(20 if len(self._producer) < 500 else 0):
            partition = self._number % self._partitions
            value = value_of(self.name, self._number)
            self._producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            self._number += 1
        self._producer.poll(0)

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        if left := self._producer.flush(DEADLINE_S):
            raise Lost(f"{self.name}: {left} values are neither delivered nor refused")
        super().finish()

    def _delivered(self, error: Any, message: Any) -> None:
        number = int(message.value().split(b" ", 2)[1])
        if error is not None:
            self._failed.append(f"{number}: {error}")
        elif not self._is_deaf:
            with self._lock:
                self._answered.append((number, message.partition(), message.offset()))
                self.acknowledged += 1

    def note_kill(self) -> None:
        with self._lock:
            self._promised += self._answered
            self._answered = []

    def check_promises(self, seen: Mapping[Place, Seen]) -> None:
        if self._failed:
            raise Lost(f"{self.name}: {len(self._failed)} values were given up, at first {self._failed[0]}")
        for partition in range(self._partitions):
            for record in seen[self.topic, partition].records:
                place = f"{self.topic}-{partition} at {record.offset}"
                author, number = author_of(record.value, place)
                if author == self.name:
                    self._check_order(partition, record.offset, number, place)
                    self._places[partition, record.offset] = number
                self._read_up_to[partition] = record.offset + 1
        for number, partition, offset in self._promised:
            found = self._places.pop((partition, offset), None)
            log = seen[self.topic, partition]
            # A client that is told of a duplicate is not told where it is. All before the next in order were seen.
            is_known = offset < 0 and number < self._next.get(partition, 0)
            is_deleted = 0 <= offset < max(log.low, log.low_at_end)
            if found != number and not is_known and not (found is None and is_deleted):
                raise Lost(
                    f"{self.name}: {number} was acknowledged at {self.topic}-{partition}, offset {offset}, where there "
                    f"is {found}; the log is {log.low}..{log.high}"
                )
        self.verified += len(self._promised)
        self._promised = []

    def _check_order(self, partition: int, offset: int, number: int, place: str) -> None:
        expected = self._next.get(partition, partition)
        self._next[partition] = max(expected, number + self._partitions)
        has_gap_before = offset > self._read_up_to.get(partition, 0)  # deleted before it could be read
        if number == expected or (number > expected and (self._is_deaf or has_gap_before)):
            return
        if number > expected:
            raise Lost(f"{place}: {self.name} goes on with {number}; {expected} is missing")
        if self._is_idempotent or self._is_deaf:
            raise Lost(f"{place}: {self.name} wrote {number} again, after {expected - self._partitions}")
        self.repeats += 1


class KeyedWriter(Actor):
    """Writes newer and newer values, and tombstones, for a few keys of a compacted topic."""

    KEYS: Final = 40

    def __init__(self, name: str, bootstrap_servers: str, topic: str, partitions: int) -> None:
        super().__init__(name)
        self._topic = topic
        self._partitions = partitions
        self._number = 0
        self._failed: list[str] = []
        self._lock = threading.Lock()
        self._answered: dict[bytes, int] = {}
        self._promised: dict[bytes, int] = {}
        self._producer = Producer(
            client(
                bootstrap_servers,
                linger_ms=1,
                batch_num_messages=20,
                enable_idempotence=True,
                compression_type="zstd",
            )
        )

    def _is_tombstone(self, number: int) -> bool:
        return number // self.KEYS % 9 == 4

    def step(self) -> None:
        for _ in range(10 if len(self._producer) < 200 else 0):
            number = self._number
            self._producer.produce(
                self._topic,
                None if self._is_tombstone(number) else value_of(self.name, number),
                b"key %d" % (number % self.KEYS),
                partition=number % self.KEYS % self._partitions,
                headers={"number": b"%d" % number},
                on_delivery=partial(self._delivered, number),
            )
            self._number += 1
        self._producer.poll(0)

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        if left := self._producer.flush(DEADLINE_S):
            raise Lost(f"{self.name}: {left} values are neither delivered nor refused")
        super().finish()

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(f"{number}: {error}")
            return
        with self._lock:
            self._answered[message.key()] = number
            self.acknowledged += 1

    def note_kill(self) -> None:
        with self._lock:
            self._promised = dict(self._answered)

    def check_promises(self, seen: Mapping[Place, Seen]) -> None:
        if self._failed:
            raise Lost(f"{self.name}: {len(self._failed)} values were given up, at first {self._failed[0]}")
        newest: dict[bytes, int] = {}
        for partition in range(self._partitions):
            last_offset = -1
            for record in seen[self._topic, partition].records:
                place = f"{self._topic}-{partition} at {record.offset}"
                if record.offset <= last_offset:
                    raise Lost(f"{place}: it comes after offset {last_offset}")
                last_offset = record.offset
                self._take(record, newest, place)
        for key, number in self._promised.items():
            last = newest.get(key)
            if last is None:
                # Compaction takes tombstones too; then none but a tombstone can have been the last.
                if not any(map(self._is_tombstone, range(number, self._number, self.KEYS))):
                    raise Lost(f"{self._topic}: nothing is left of {key!r}, of which {number} was acknowledged")
            elif last < number:
                raise Lost(f"{self._topic}: {key!r} is at {last}, and {number} was acknowledged")
        self.verified += len(self._promised)

    def _take(self, record: Found, newest: dict[bytes, int], place: str) -> None:
        number = int(record.headers["number"] or -1)
        key = record.key or b""
        if key != b"key %d" % (number % self.KEYS):
            raise Lost(f"{place}: {key!r} has the value {number} of another key")
        if record.value is None:
            if not self._is_tombstone(number):
                raise Lost(f"{place}: the value {number} of {key!r} is gone")
        elif author_of(record.value, place) != (self.name, number):
            raise Lost(f"{place}: the value of {key!r} is not that of {number}")
        if number <= newest.get(key, -1):
            raise Lost(f"{place}: {key!r} goes from {newest[key]} to {number}")
        newest[key] = number
