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
from highwater.kafka.requests.metadata import PartitionRow
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
NEWEST_SEARCHED: Final = 50_000
"""So many offsets of each partition are searched for a key from the newest on."""


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


class WantedRecords(NamedTuple):
    """most: of one partition."""

    topic: str
    partition: int | None
    """None, of records with a key: all partitions."""
    start: Start
    most: int
    is_committed: bool
    key: bytes | None = None
    """Only records with this key are read; None for all."""


@dataclass(frozen=True, slots=True)
class Page:
    """What was found in one partition."""

    partition: int
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

    def read(self, user: User, wanted: WantedRecords) -> list[Page]:
        """A page for each partition that was read."""
        if user.role < Role.OPERATOR:
            raise ActionError(f"This needs the role operator, and {user.name} has the role {user.role.title}.")
        if not self._turns.acquire(timeout=1):
            raise ActionError(f"{_READERS} reads are under way already. Try again.")
        cluster = ActionCluster(self._client)
        try:
            until_s = time.monotonic() + _TIME_S
            numbers = [] if wanted.partition is None else [wanted.partition]
            rows = cluster.partitions(wanted.topic, numbers)
            return [_read_or_say(cluster, row, wanted, until_s, alone=len(numbers) == 1) for row in rows]
        finally:
            cluster.close()
            self._turns.release()


def _read_or_say(
    cluster: ActionCluster, row: PartitionRow, wanted: WantedRecords, until_s: float, *, alone: bool
) -> Page:
    """One partition without a leader does not end the search over several."""
    try:
        return _read(cluster, row, wanted, until_s)
    except ActionError as error:
        if alone:
            raise
        return Page(row.partition, (), 0, 0, 0, 1, (str(error),))


def _read(cluster: ActionCluster, row: PartitionRow, wanted: WantedRecords, until_s: float) -> Page:
    topic, partition = key = (wanted.topic, row.partition)
    start, most = wanted.start, min(max(wanted.most, 1), MOST_MESSAGES)
    low, high = cluster.offsets([key], EARLIEST)[key], cluster.offsets([key], LATEST)[key]
    newest = start.number if wanted.key is None else NEWEST_SEARCHED
    begin = {BEGINNING: low, NEWEST: high - newest, OFFSET: start.number}.get(start.kind)
    if begin is None:
        later = cluster.offsets([key], start.number)[key]
        begin = later if later >= 0 else high
    first = min(max(begin, low), high)
    notes = (
        []
        if first == begin or start.kind == NEWEST
        else [f"{begin} is not between {low} and {high}, where the log begins and ends: the nearer one is taken."]
    )
    messages: list[Message] = []
    at, end, hidden, decompressed = first, high, 0, 0
    for _ in range(_MOST_FETCHES):
        if len(messages) >= most or at >= end or decompressed >= _MOST_DECOMPRESSED_BYTES:
            break
        if time.monotonic() > until_s:
            notes.append(f"The time of {_TIME_S:g} s was over.")
            break
        part = cluster.ask(row.leader, fetch_records(Fetch(topic, partition, at, wanted.is_committed, _FETCH_BYTES)))
        if isinstance(part, BrokerError):
            raise ActionError(f"The broker refused: {refusal(part.code.value)}.")
        end = part.last_stable_offset if wanted.is_committed and part.last_stable_offset >= 0 else part.high_watermark
        aborted = None if part.aborted is None else [Aborted(*each) for each in part.aborted]
        left_bytes = _MOST_DECOMPRESSED_BYTES - decompressed
        found = read(part.records, at, most - len(messages), aborted, left_bytes, wanted.key)
        messages += found.messages
        notes += found.notes
        hidden += found.aborted_records
        decompressed += found.decompressed_bytes
        if found.next_offset <= at:
            break
        at = found.next_offset
    if hidden:
        notes.append(f"{hidden} records of aborted transactions are left out.")
    return Page(partition, tuple(messages), first, at, low, end, tuple(notes))
