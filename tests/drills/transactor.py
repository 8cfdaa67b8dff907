"""An actor that writes in transactions, with a group's offset in each: all of it is there in the end, or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.drills.actors import Actor, Lost, client, committed_offsets
from tests.drills.reading import Place, Seen, read
from tests.drills.writers import author_of, value_of
from tests.waiting import wait_until

RECORDS: Final = 6
_ANSWER_S: Final = 3.0
_SETTLE_S: Final = 20.0
"""A start that finds a decided transaction writes its markers while it serves already."""


class Transactor(Actor):
    """Transaction n writes the values RECORDS * n + 0, 1, … to the partitions by turns, and n as a group's offset."""

    interval_s = 0.01

    def __init__(self, name: str, bootstrap_servers: str, admin: AdminClient, topic: str, partitions: int) -> None:
        super().__init__(name)
        self.topic = topic
        self._bootstrap_servers = bootstrap_servers
        self._admin = admin
        self._partitions = partitions
        self._number = 0
        self._producer: Producer | None = None
        self._group = Consumer(client(bootstrap_servers, group_id=name))
        self._committed: set[int] = set()
        self._aborted: set[int] = set()
        self._promised: set[int] = set()
        self._found: dict[int, set[int]] = defaultdict(set)
        """Which values of each transaction readers of committed records got to see."""
        self._read_up_to: dict[Place, int] = {}
        self._last_seen: dict[Place, int] = {}

    def step(self) -> None:
        self._number += 1
        number = self._number
        try:
            if self._producer is None:
                options = {"transactional_id": self.name, "linger_ms": 1, "transaction_timeout_ms": 60_000}
                self._producer = Producer(client(self._bootstrap_servers, **options))
                self._producer.init_transactions(_ANSWER_S)
            self._transaction(self._producer, number)
        except KafkaException as failure:
            self._give_up(failure, number)

    def _transaction(self, producer: Producer, number: int) -> None:
        producer.begin_transaction()
        for i in range(RECORDS):
            value = value_of(self.name, RECORDS * number + i)
            producer.produce(self.topic, value, partition=i % self._partitions)
            producer.poll(0)
        offsets = [TopicPartition(self.topic, 0, number)]
        producer.send_offsets_to_transaction(offsets, self._group.consumer_group_metadata(), _ANSWER_S)
        if number % 5 == 0:
            producer.abort_transaction(_ANSWER_S)
            self._aborted.add(number)
        else:
            producer.commit_transaction(_ANSWER_S)
            self._committed.add(number)
        self.acknowledged += 1

    def _give_up(self, failure: KafkaException, number: int) -> None:
        """Abort if the client says so; otherwise nobody knows, and the next producer of this name will find out."""
        producer, self._producer = self._producer, None
        if producer is not None and failure.args[0].txn_requires_abort():
            try:
                producer.abort_transaction(_ANSWER_S)
            except KafkaException:
                return
            self._aborted.add(number)
            self._producer = producer

    def finish(self) -> None:
        super().finish()
        while self._number not in self._committed:
            self.step()  # so that none is left open
        self.note_kill()
        self._group.close()

    def note_kill(self) -> None:
        self._promised = set(self._committed)

    def check_promises(self, seen: Mapping[Place, Seen]) -> None:
        try:
            wait_until(lambda: self._trouble() is None, lambda: f"{self.name}: {self._trouble()}", _SETTLE_S)
        except TimeoutError as error:
            raise Lost(str(error)) from None
        self.verified += len(self._found)

    def _trouble(self) -> str | None:
        """What is not as it should be once all that was decided is carried out."""
        self._read()
        whole = set(range(RECORDS))
        for number, found in self._found.items():
            if found != whole:
                return f"of transaction {number} only {sorted(found)} are there"
        if missing := self._promised - set(self._found):
            return f"transactions {sorted(missing)} were committed, and are not there"
        if wrong := self._aborted & set(self._found):
            raise Lost(f"{self.name}: transactions {sorted(wrong)} were aborted, and are there")
        offset = committed_offsets(self._admin, self.name).get((self.topic, 0), -1)
        if offset != max(self._found, default=-1):
            return f"offset {offset} is committed, and the last transaction there is {max(self._found, default=-1)}"
        return None

    def _read(self) -> None:
        places = [(self.topic, partition) for partition in range(self._partitions)]
        seen = read(self._admin, self._bootstrap_servers, places, self._read_up_to, is_committed=True)
        for place, found in seen.items():
            for record in found.records:
                where = f"{place[0]}-{place[1]} at {record.offset}"
                author, value = author_of(record.value, where)
                self._read_up_to[place] = record.offset + 1
                if author != self.name:
                    continue
                number, i = divmod(value, RECORDS)
                if value <= self._last_seen.get(place, -1):
                    raise Lost(f"{where}: {value} of {author} comes after {self._last_seen[place]}")
                self._last_seen[place] = value
                if i in self._found[number]:
                    raise Lost(f"{where}: {value} of {author} is there twice")
                self._found[number].add(i)
