"""Fetch sessions (KIP-227): requests and answers name only the partitions that changed.

    request                                 answer
    id 0, epoch -1                          a fetch without a session
    id s, epoch -1                          the same; session s ends
    id s, epoch 0                           a full fetch that begins a new session, if there is room; session s ends
    id s, epoch e > 0, known, e is next     an incremental fetch: changed partitions only, and e + 1 is next
    id s, epoch e > 0, known, e is not      INVALID_FETCH_SESSION_EPOCH
    id s, epoch e > 0, not known            FETCH_SESSION_ID_NOT_FOUND; the client begins a new one with a full fetch
    id s, and names where ids were          FETCH_SESSION_TOPIC_ID_ERROR (or the other way round)

A partition has changed for a session when it has records, an error or a diverging epoch, or when its high watermark or
log start offset differs from the last answer. Partitions with records go to the end of the order, so that the limits of
size starve none of them.

The number of slots is limited. A new session takes a slot that was not used for two minutes, or that of a smaller
session which had it for two minutes. If there is none, the client continues without a session. A follower's session may
take the slot of any consumer's session, and never loses its own to one.
(Apache Kafka, FetchSession.scala.)
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.replica.settled import SessionPartition, fetched_again
from highwater.kafka.pacing import each
from highwater.kafka.protocol.fetch import FetchPartition, FetchTopic, PartitionFetched

NO_SESSION: Final = 0
FULL_FETCH_EPOCH: Final = 0
NO_SESSION_EPOCH: Final = -1
EVICTION_MS: Final = 120_000

_MAX_EPOCH: Final = 2**31 - 1
_MAX_SESSION_ID: Final = 2**31 - 1

TopicKey: TypeAlias = str | UUID
PartitionKey: TypeAlias = tuple[TopicKey, int]
Fetched: TypeAlias = list[tuple[TopicKey, list[PartitionFetched]]]
FindPartition: TypeAlias = Callable[[TopicKey, int], SessionPartition | None]


class SessionAnswer(NamedTuple):
    error_code: ErrorCode
    session_id: int
    fetched: Fetched


class FetchContext(Protocol):
    """One fetch in its session: what to read for it, and what of that to put into the answer."""

    @property
    def topics(self) -> Sequence[FetchTopic]: ...

    @property
    def has_partitions(self) -> bool: ...

    def due(self, replica_id: int, find: FindPartition, now_ms: int) -> Sequence[FetchTopic]:
        """Note a follower's fetch in the partitions that are settled, and return the others."""

    def settle(self, key: PartitionKey) -> None:
        """The follower has all of a partition, and its log does not diverge, until a request names it again."""

    def answer(self, fetched: Fetched, now_ms: int) -> SessionAnswer: ...

    def answer_nothing(self) -> SessionAnswer:
        """The answer to a client that is throttled: it has no data, and the client will ask for the same again."""


class _Whole:
    """A fetch that names all of its partitions, so that none is settled."""

    __slots__ = ("topics",)

    def __init__(self, topics: Sequence[FetchTopic]) -> None:
        self.topics = topics

    @property
    def has_partitions(self) -> bool:
        return bool(self.topics)

    def due(self, replica_id: int, find: FindPartition, now_ms: int) -> Sequence[FetchTopic]:
        return self.topics

    def settle(self, key: PartitionKey) -> None:
        """No session keeps it for the next fetch."""

    def answer_nothing(self) -> SessionAnswer:
        return SessionAnswer(ErrorCode.none, NO_SESSION, [])


class Sessionless(_Whole):
    __slots__ = ()

    def answer(self, fetched: Fetched, now_ms: int) -> SessionAnswer:
        return SessionAnswer(ErrorCode.none, NO_SESSION, fetched)


class _FullFetch(_Whole):
    __slots__ = ("_is_follower", "_sessions", "_uses_topic_ids")

    def __init__(
        self, sessions: FetchSessions, topics: Sequence[FetchTopic], uses_topic_ids: bool, is_follower: bool
    ) -> None:
        super().__init__(topics)
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids
        self._is_follower = is_follower

    def answer(self, fetched: Fetched, now_ms: int) -> SessionAnswer:
        session_id = self._sessions.create(
            self.topics, fetched, self._uses_topic_ids, now_ms, is_follower=self._is_follower
        )
        return SessionAnswer(ErrorCode.none, session_id, fetched)


class _IncrementalFetch:
    __slots__ = ("_next_epoch", "_session", "_topics")

    def __init__(self, session: FetchSession, next_epoch: int) -> None:
        self._session = session
        self._next_epoch = next_epoch
        self._topics: Sequence[FetchTopic] | None = None

    @property
    def topics(self) -> Sequence[FetchTopic]:
        """Those of the first call: a fetch that waits reads the same partitions again."""
        if self._topics is None:
            self._topics = self._session.topics()
        return self._topics

    @property
    def has_partitions(self) -> bool:
        return True

    def due(self, replica_id: int, find: FindPartition, now_ms: int) -> Sequence[FetchTopic]:
        return self._session.due(replica_id, find, now_ms)

    def settle(self, key: PartitionKey) -> None:
        self._session.settle(key)

    def answer(self, fetched: Fetched, now_ms: int) -> SessionAnswer:
        if self._session.next_epoch != self._next_epoch:
            # While this fetch waited, another one continued the session.
            return SessionAnswer(ErrorCode.invalid_fetch_session_epoch, NO_SESSION, [])
        return SessionAnswer(ErrorCode.none, self._session.session_id, self._session.changes(fetched))

    def answer_nothing(self) -> SessionAnswer:
        return self.answer([], 0)


class _Followed:
    """A partition of a session: what the client wants of it, and what the last answer said of it."""

    __slots__ = ("high_watermark", "is_settled", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchPartition, high_watermark: int = -1, log_start_offset: int = -1) -> None:
        self.wanted = wanted
        self.is_settled = False
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset

    def is_changed_by(self, fetched: PartitionFetched) -> bool:
        is_changed = bool(
            len(fetched.records)
            or fetched.high_watermark != self.high_watermark
            or fetched.log_start_offset != self.log_start_offset
            or fetched.error_code
            or fetched.diverging_epoch is not None
        )
        # After an error the next answer names the partition, even if it is as before the error.
        self.high_watermark = -1 if fetched.error_code else fetched.high_watermark
        self.log_start_offset = fetched.log_start_offset
        return is_changed


def _by_topic(partitions: Iterable[tuple[PartitionKey, _Followed]]) -> list[FetchTopic]:
    return [
        FetchTopic(topic, [followed.wanted for _, followed in group])
        for topic, group in groupby(partitions, lambda item: item[0][0])
    ]


class FetchSession:
    __slots__ = (
        "_partitions",
        "created_ms",
        "is_follower",
        "last_used_ms",
        "next_epoch",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        topics: Sequence[FetchTopic],
        fetched: Fetched,
        uses_topic_ids: bool,
        now_ms: int,
        *,
        is_follower: bool = False,
    ) -> None:
        self.session_id = session_id
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.next_epoch = 1
        told = {(topic, answer.partition): answer for topic, answers in each(fetched) for answer in each(answers)}
        self._partitions: dict[PartitionKey, _Followed] = {
            key: _Followed(wanted, told[key].high_watermark, told[key].log_start_offset)
            for key, wanted in _flat(topics)
        }

    def __len__(self) -> int:
        return len(self._partitions)

    def update(self, topics: Sequence[FetchTopic], forgotten: Iterable[PartitionKey]) -> None:
        """Take over from an incremental fetch which partitions are new, changed, or forgotten."""
        for key, wanted in _flat(topics):
            followed = self._partitions.get(key)
            if followed is None:
                self._partitions[key] = _Followed(wanted)
            else:
                if self.is_follower or wanted.fetch_offset <= followed.wanted.fetch_offset:
                    # The client may have ignored the last answer, for a new epoch or a truncation: repeat it.
                    followed.high_watermark = -1
                followed.wanted = wanted
                followed.is_settled = False
        for key in forgotten:
            self._partitions.pop(key, None)

    def topics(self) -> list[FetchTopic]:
        return _by_topic(self._partitions.items())

    def due(self, replica_id: int, find: FindPartition, now_ms: int) -> list[FetchTopic]:
        """The partitions that may have news for the follower; in the others the fetch is noted."""
        return _by_topic(
            (key, followed)
            for key, followed in self._partitions.items()
            if not followed.is_settled
            or (partition := find(*key)) is None
            or not fetched_again(
                partition,
                replica_id,
                followed.wanted.fetch_offset,
                followed.high_watermark,
                followed.log_start_offset,
                now_ms,
            )
        )

    def settle(self, key: PartitionKey) -> None:
        followed = self._partitions.get(key)
        if followed is not None:
            followed.is_settled = True

    def changes(self, fetched: Fetched) -> Fetched:
        """The part of `fetched` that the client does not know yet."""
        changed: Fetched = []
        for topic, answers in each(fetched):
            kept = []
            for answer in each(answers):
                key = topic, answer.partition
                followed = self._partitions.get(key)
                if followed is None or not followed.is_changed_by(answer):
                    continue
                kept.append(answer)
                if answer.records:
                    del self._partitions[key]
                    self._partitions[key] = followed
            if kept:
                changed.append((topic, kept))
        return changed


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, slots: int, seed: int | None = None) -> None:
        self._slots = slots
        # Ids are no secret. They should not repeat, so that no client continues the session of another by mistake.
        self._random = random.Random(seed)
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """The least recently used session is the first."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(map(len, self._sessions.values()))

    def open(
        self,
        session_id: int,
        epoch: int,
        topics: Sequence[FetchTopic],
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
        now_ms: int,
        is_follower: bool = False,
    ) -> FetchContext | ErrorCode:
        """Begin to answer a fetch request."""
        if epoch in (FULL_FETCH_EPOCH, NO_SESSION_EPOCH):
            self._sessions.pop(session_id, None)
            if epoch == NO_SESSION_EPOCH:
                return Sessionless(topics)
            return _FullFetch(self, topics, uses_topic_ids, is_follower)
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.next_epoch != epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.fetch_session_topic_id_error
        session.update(topics, forgotten)
        if not len(session):
            del self._sessions[session_id]
            return Sessionless(())
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        session.next_epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        return _IncrementalFetch(session, session.next_epoch)

    def create(
        self,
        topics: Sequence[FetchTopic],
        fetched: Fetched,
        uses_topic_ids: bool,
        now_ms: int,
        *,
        is_follower: bool = False,
    ) -> int:
        """Keep a session that begins with this answer; returns its id, or NO_SESSION if there is no room."""
        partition_count = sum(len(answers) for _, answers in fetched)
        if len(self._sessions) >= self._slots and not self._evict(partition_count, now_ms, is_follower):
            return NO_SESSION
        session_id = self._random.randint(1, _MAX_SESSION_ID)
        while session_id in self._sessions:
            session_id = self._random.randint(1, _MAX_SESSION_ID)
        self._sessions[session_id] = FetchSession(
            session_id, topics, fetched, uses_topic_ids, now_ms, is_follower=is_follower
        )
        return session_id

    def _evict(self, partition_count: int, now_ms: int, is_follower: bool) -> bool:
        """End a session to make room for one of so many partitions; returns whether that was possible."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            del self._sessions[oldest.session_id]
            return True
        evictable = (
            session
            for session in self._sessions.values()
            if not session.is_follower and (is_follower or now_ms - session.created_ms > EVICTION_MS)
        )
        smallest = min(evictable, key=len, default=None)
        if smallest is None or (len(smallest) >= partition_count and not is_follower):
            return False
        del self._sessions[smallest.session_id]
        return True


def _flat(topics: Sequence[FetchTopic]) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    for topic, partitions in each(topics):
        for wanted in each(partitions):
            yield (topic, wanted.partition), wanted
