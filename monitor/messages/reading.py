"""Reads one partition on demand, by Fetch alone: it joins no group, commits nothing, and has bounds."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from highwater.kafka.client.settings import ClientSettings
from highwater.kafka.requests.broker_error import BrokerError
from highwater.kafka.requests.fetch import Fetch, fetch_records
from highwater.kafka.requests.list_offsets import EARLIEST, LATEST
from highwater.monitor.actions.cluster import ActionCluster
from highwater.monitor.actions.plan import ActionError
from highwater.monitor.kafka_source.parts import refusal
from highwater.monitor.messages.records import Aborted, Message, read
from highwater.monitor.users import Role, User

MOST_MESSAGES: Final = 100
_FETCH_BYTES: Final = 1 << 20
_MOST_DECOMPRESSED_BYTES: Final = 32 << 20
_MOST_FETCHES: Final = 16
_READERS: Final = 2
_TIME_S: Final = 15.0


class Start(NamedTuple):
    kind: str
    """One of STARTS."""
    number: int = 0
    """An offset, Unix time in ms, or how many of the newest."""


BEGINNING: Final = "the beginning"
NEWEST: Final = "the newest"
OFFSET: Final = "offset"
TIME: Final = "time"
STARTS: Final = (NEWEST, BEGINNING, OFFSET, TIME)


@dataclass(frozen=True, slots=True)
class Page:
    messages: tuple[Message, ...]
    first_offset: int
    """The offset that the page was read from."""
    next_offset: int
    log_start_offset: int
    end_offset: int
    """The high watermark, or the last stable offset if only committed records are read."""
    notes: tuple[str, ...]

    @property
    def is_at_end(self) -> bool:
        return self.next_offset >= self.end_offset


class MessageReader:
    """Every method may be called from any thread, and raises ActionError with a sentence."""

    def __init__(self, client: ClientSettings) -> None:
        self._client = client
        self._turns = threading.BoundedSemaphore(_READERS)

    def read(self, user: User, topic: str, partition: int, start: Start, most: int, *, is_committed: bool) -> Page:
        if user.role < Role.OPERATOR:
            raise ActionError(f"This needs the role operator, and {user.name} has the role {user.role.title}.")
        if not self._turns.acquire(timeout=1):
            raise ActionError(f"{_READERS} reads are under way already. Try again.")
        cluster = ActionCluster(self._client)
        try:
            return _read(cluster, topic, partition, start, min(max(most, 1), MOST_MESSAGES), is_committed=is_committed)
        finally:
            cluster.close()
            self._turns.release()


def _read(cluster: ActionCluster, topic: str, partition: int, start: Start, most: int, *, is_committed: bool) -> Page:
    (row,) = cluster.partitions(topic, [partition])
    key = (topic, partition)
    low, high = cluster.offsets([key], EARLIEST)[key], cluster.offsets([key], LATEST)[key]
    wanted = {BEGINNING: low, NEWEST: high - start.number, OFFSET: start.number}.get(start.kind)
    if wanted is None:
        later = cluster.offsets([key], start.number)[key]
        wanted = later if later >= 0 else high
    first = min(max(wanted, low), high)
    notes = (
        []
        if first == wanted or start.kind == NEWEST
        else [f"{wanted} is not between {low} and {high}, where the log begins and ends: the nearer one is taken."]
    )
    messages: list[Message] = []
    at, end, hidden, decompressed = first, high, 0, 0
    deadline_s = time.monotonic() + _TIME_S
    for _ in range(_MOST_FETCHES):
        if len(messages) >= most or at >= end or decompressed >= _MOST_DECOMPRESSED_BYTES:
            break
        if time.monotonic() > deadline_s:
            notes.append(f"The time of {_TIME_S:g} s was over.")
            break
        part = cluster.ask(row.leader, fetch_records(Fetch(topic, partition, at, is_committed, _FETCH_BYTES)))
        if isinstance(part, BrokerError):
            raise ActionError(f"The broker refused: {refusal(part.code.value)}.")
        end = part.last_stable_offset if is_committed and part.last_stable_offset >= 0 else part.high_watermark
        aborted = None if part.aborted is None else [Aborted(*each) for each in part.aborted]
        found = read(part.records, at, most - len(messages), aborted, _MOST_DECOMPRESSED_BYTES - decompressed)
        messages += found.messages
        notes += found.notes
        hidden += found.aborted_records
        decompressed += found.decompressed_bytes
        if found.next_offset <= at:
            break
        at = found.next_offset
    if hidden:
        notes.append(f"{hidden} records of aborted transactions are left out.")
    return Page(tuple(messages), first, at, low, end, tuple(notes))
