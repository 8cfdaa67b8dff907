"""An actor that reads as a group of two: whatever is killed in between, nothing is left out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from tests.drills.actors import Actor, Lost, client
from tests.drills.reading import Place, Seen, end_offsets

_CATCH_UP_S: Final = 60.0


class Members(Actor):
    """Two members of a group that commit after they have read; what they read is counted by offset."""

    interval_s = 0.01

    def __init__(self, name: str, bootstrap_servers: str, admin: AdminClient, topic: str, partitions: int) -> None:
        super().__init__(name)
        self._admin = admin
        self._places = [(topic, partition) for partition in range(partitions)]
        self._seen: dict[int, set[int]] = defaultdict(set)
        settings = client(
            bootstrap_servers,
            group_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
            fetch_wait_max_ms=50,
        )
        self._members = [Consumer(settings) for _ in range(2)]
        for member in self._members:
            member.subscribe([topic])

    def step(self) -> None:
        for member in self._members:
            messages = [message for message in member.consume(500, 0.01) if message.error() is None]
            for message in messages:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self._seen[partition].add(offset)
            self.acknowledged += len(messages)
            if messages:
                try:
                    member.commit(asynchronous=True)
                except KafkaException:
                    continue  # the next one tells more

    def finish(self) -> None:
        """Read on to the end; called when nobody writes any more."""
        super().finish()
        ends = end_offsets(self._admin, self._places)
        deadline = time.monotonic() + _CATCH_UP_S
        while lacking := self._lacking(ends):
            if time.monotonic() > deadline:
                raise Lost(f"{self.name}: members of the group never got {lacking}")
            self.step()
        for member in self._members:
            member.close()
        self.verified += sum(map(len, self._seen.values()))

    def _lacking(self, ends: Mapping[Place, int]) -> str:
        """The first offset that nobody got, and how many there are; empty when there is none."""
        for (topic, partition), end in ends.items():
            if lacking := set(range(end)) - self._seen[partition]:
                return f"offset {min(lacking)} of {topic}-{partition} and {len(lacking) - 1} more below {end}"
        return ""

    def note_kill(self) -> None:
        pass  # it asks for nothing that it would not ask for again

    def check_promises(self, seen: Mapping[Place, Seen]) -> None:
        pass  # what it gets may come late; all of it is looked for at the end
