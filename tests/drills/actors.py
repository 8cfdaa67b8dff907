"""Those who use the broker while it is killed, each with its own idea of what must be there afterwards.

An actor works in a thread of its own through all kills and restarts. `note_kill` tells it that the broker is gone:
what was acknowledged to it until then must be there at the next start, where `check` looks. Whatever was asked for and
not answered may be there or not, but whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.drills.reading import DEADLINE_S, Place, Seen

# A broker that is killed is back within a second; clients should notice soon. When all brokers are away, librdkafka
# forgets them (from 2.10 on), and what was bound to one, as an admin client is to its coordinator, tries for ever.
_PATIENT: Final = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}
ANSWER_S: Final = 1.0


class Lost(AssertionError):  # noqa: N818 - it says what happened to the data
    """Something that was promised is not so."""


def client(bootstrap_servers: str, /, **options: Any) -> dict[str, Any]:
    """The settings of a client, with `_` for `.` in their names."""
    settings = {name.replace("_", "."): value for name, value in options.items()}
    return {"bootstrap.servers": bootstrap_servers} | _PATIENT | settings


class Actor:
    """A thread that does one step after another until it is told to stop."""

    interval_s = 0.005

    def __init__(self, name: str) -> None:
        self.name = name
        self.acknowledged = 0
        self.verified = 0
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        """Held for each step, and by whoever wants quiet."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def abandon(self) -> None:
        """Begin nothing more; what is under way is nobody's business."""
        self._stopping.set()

    def pause(self) -> None:
        self._turn.acquire()

    def resume(self) -> None:
        self._turn.release()

    def finish(self) -> None:
        """Bring to its end what is under way; the broker runs."""
        self._stopping.set()
        self._thread.join()
        self.note_kill()

    def _run(self) -> None:
        while not self._stopping.wait(self.interval_s):
            with self._turn:
                try:
                    self.step()
                except BaseException as error:  # told by `check`, in the main thread
                    self._failure = error
                    return

    def check(self, seen: Mapping[Place, Seen]) -> None:
        """The broker is back, and the actor is paused: raises Lost when a promise is broken."""
        if self._failure is not None:
            raise Lost(f"{self.name} cannot go on: {self._failure!r}") from self._failure
        self.check_promises(seen)

    def step(self) -> None:
        """A little work."""
        raise NotImplementedError

    def note_kill(self) -> None:
        """The broker is dead: take down what was promised."""
        raise NotImplementedError

    def check_promises(self, seen: Mapping[Place, Seen]) -> None:
        """Hold what was found to what was promised."""
        raise NotImplementedError


class Committer(Actor):
    """Commits rising offsets of a few groups."""

    GROUPS: Final = 3

    def __init__(self, name: str, bootstrap_servers: str, admin: AdminClient, topic: str, partitions: int) -> None:
        super().__init__(name)
        self._admin = admin
        self._topic = topic
        self._partitions = partitions
        self._number = 0
        self._asked: dict[tuple[int, int], int] = {}
        self._answered: dict[tuple[int, int], int] = {}
        self._promised: dict[tuple[int, int], int] = {}
        self._consumers = [
            Consumer(client(bootstrap_servers, group_id=f"{name}-{group}", enable_auto_commit=False))
            for group in range(self.GROUPS)
        ]

    def step(self) -> None:
        self._number += 1
        group, partition = self._number % self.GROUPS, self._number // self.GROUPS % self._partitions
        self._asked[group, partition] = self._number
        place = TopicPartition(self._topic, partition, self._number)
        try:
            (answer,) = self._consumers[group].commit(offsets=[place], asynchronous=False) or [place]
        except KafkaException:
            return
        if answer.error is None:
            self._answered[group, partition] = self._number
            self.acknowledged += 1

    def finish(self) -> None:
        super().finish()
        for consumer in self._consumers:
            consumer.close()

    def note_kill(self) -> None:
        self._promised = dict(self._answered)

    def check_promises(self, seen: Mapping[Place, Seen]) -> None:
        for group in range(self.GROUPS):
            committed = committed_offsets(self._admin, f"{self.name}-{group}")
            for partition in range(self._partitions):
                offset = committed.get((self._topic, partition), -1)
                least, most = self._promised.get((group, partition), -1), self._asked.get((group, partition), -1)
                if not least <= offset <= most:
                    raise Lost(
                        f"group {self.name}-{group}: the offset of {self._topic}-{partition} is {offset}; {least} was "
                        f"acknowledged, {most} asked for"
                    )
                self.verified += 1


def committed_offsets(admin: AdminClient, group: str) -> dict[Place, int]:
    (future,) = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=DEADLINE_S
    ).values()
    return {(place.topic, place.partition): place.offset for place in future.result(DEADLINE_S).topic_partitions or []}


class Trimmer(Actor):
    """Deletes the oldest records of a topic, which also loses some to retention."""

    interval_s = 0.1

    def __init__(self, name: str, bootstrap_servers: str, topic: str, partitions: int) -> None:
        super().__init__(name)
        self.topic = topic
        self._partitions = partitions
        self._admin = AdminClient(client(bootstrap_servers))
        self._reader = Consumer(client(bootstrap_servers, group_id=name))
        self._starts: dict[int, int] = {}
        self._promised: dict[int, int] = {}
        self.asked: dict[int, int] = {}
        """Where the partitions may begin because of it."""

    def step(self) -> None:
        try:
            places = []
            for partition in range(self._partitions):
                place = TopicPartition(self.topic, partition)
                low, high = self._reader.get_watermark_offsets(place, ANSWER_S, cached=False)
                self.asked[partition] = place.offset = low + (high - low) // 5
                places.append(place)
            for place, future in self._admin.delete_records(places, request_timeout=ANSWER_S).items():
                start = future.result(ANSWER_S).low_watermark
                self._starts[place.partition] = max(start, self._starts.get(place.partition, 0))
                self.acknowledged += 1
        except (KafkaException, TimeoutError):
            return

    def finish(self) -> None:
        super().finish()
        self._reader.close()

    def note_kill(self) -> None:
        self._promised = dict(self._starts)

    def check_promises(self, seen: Mapping[Place, Seen]) -> None:
        for partition, start in self._promised.items():
            found = seen[self.topic, partition]
            if not start <= found.low <= found.high:
                raise Lost(
                    f"{self.topic}-{partition}: records before {start} were deleted; it is {found.low}..{found.high}"
                )
            self.verified += 1


class Churner(Actor):
    """Makes topics, writes a value to each, and deletes them, over and over under the same names."""

    interval_s = 0.02
    NAMES: Final = 4
    PARTITIONS: Final = 2

    def __init__(self, name: str, bootstrap_servers: str, value_of: Callable[[str, int], bytes]) -> None:
        super().__init__(name)
        self._value_of = value_of
        self._admin = AdminClient(client(bootstrap_servers))
        self._producer = Producer(client(bootstrap_servers, message_timeout_ms=1000, acks="all", linger_ms=0))
        self._incarnation = 0
        self._exists: dict[str, bool | None] = {}
        """None where a request was not answered."""
        self._kills = 0
        self._unanswered: dict[str, int] = {}
        """Topic -> how many kills there had been when a request for it was given up: the broker of that time may still
        do what it was asked for."""
        self._values: dict[str, tuple[list[bytes], list[bytes]]] = {}
        """Of the topics that exist: (acknowledged, asked for)."""

    def step(self) -> None:
        self._incarnation += 1
        topic = f"{self.name}-{self._incarnation % self.NAMES}"
        if (exists := self._exists.get(topic, False)) is None:
            return
        try:
            # Nothing is asked while the broker is away, for it would be asked after the restart. What was asked is
            # waited for: a check begins when no request is under way.
            self._admin.list_topics(timeout=0.2)
            if exists:
                self._delete(topic)
            else:
                self._create(topic)
        except (KafkaException, TimeoutError):
            self._unanswered[topic] = self._kills

    def _create(self, topic: str) -> None:
        self._exists[topic] = None
        acknowledged, asked = self._values[topic] = [], []
        (future,) = self._admin.create_topics(
            [NewTopic(topic, self.PARTITIONS, 1)], request_timeout=DEADLINE_S
        ).values()
        future.result(DEADLINE_S + 1)
        self._exists[topic] = True
        self.acknowledged += 1
        value = self._value_of(topic, self._incarnation)
        asked.append(value)
        self._producer.produce(
            topic, value, partition=1, on_delivery=lambda e, _: None if e else acknowledged.append(value)
        )
        self._producer.flush(ANSWER_S)

    def _delete(self, topic: str) -> None:
        self._exists[topic] = None
        (future,) = self._admin.delete_topics([topic], request_timeout=DEADLINE_S).values()
        future.result(DEADLINE_S + 1)
        self._exists[topic] = False
        self.acknowledged += 1

    def finish(self) -> None:
        """As no kill ends it, the broker may still do what it was asked for."""
        self._stopping.set()
        self._thread.join()

    def note_kill(self) -> None:
        self._kills += 1

    def check_promises(self, seen: Mapping[Place, Seen]) -> None:
        there = {topic for topic, _ in seen}
        for topic, exists in self._exists.items():
            if exists is None and self._unanswered.get(topic, 0) == self._kills:
                continue
            if exists is not None and exists != (topic in there):
                raise Lost(f"topic {topic} should{'' if exists else ' not'} be there")
            self._exists[topic] = topic in there
            if topic in there:
                acknowledged, asked = self._values[topic]
                values = [r.value for partition in range(self.PARTITIONS) for r in seen[topic, partition].records]
                if values not in (acknowledged, asked):
                    raise Lost(f"topic {topic} holds {values}; acknowledged is {acknowledged}, written {asked}")
            self.verified += 1
