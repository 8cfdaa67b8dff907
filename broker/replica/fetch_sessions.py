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

A partition of which the reader has all is settled. A fetch reads it again only when its high watermark, last stable
offset, log start offset or leader epoch has moved, so that a large session costs little for each fetch.

The number of slots is limited. A new session takes a slot that was not used for two minutes, or that of a smaller
session which had it for two minutes. If there is none, the client continues without a session. A follower's session may
take the slot of any consumer's session, and never loses its own to one.
(Apache Kafka, FetchSession.scala.)
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.counters import TopicCounters
from highwater.broker.replica.partition import Partition
from highwater.broker.replica.settled import fetched_again
from highwater.kafka.pacing import FEW_ITEMS, each
from highwater.kafka.protocol.fetch import NO_ERROR, FetchPartition, FetchTopic, PartitionFetched

NO_SESSION: Final = 0
FULL_FETCH_EPOCH: Final = 0
NO_SESSION_EPOCH: Final = -1
EVICTION_MS: Final = 120_000

_MAX_EPOCH: Final = 2**31 - 1
_MAX_SESSION_ID: Final = 2**31 - 1

TopicKey: TypeAlias = str | UUID
PartitionKey: TypeAlias = tuple[TopicKey, int]
Fetched: TypeAlias = list[tuple[TopicKey, list[PartitionFetched]]]
FindPartition: TypeAlias = Callable[[TopicKey, int], Partition | None]
SessionAnswer: TypeAlias = tuple[ErrorCode, int, Fetched]
"""(error, id of the session, the part of the answer that is news to the client)"""


class FetchContext:
    """One fetch in its session: what to read for it, and what of that to put into the answer.

    This one has no session: it names all of its partitions, so that none is settled.
    """

    __slots__ = ("_topics", "left_out")

    def __init__(self, topics: Sequence[FetchTopic]) -> None:
        self._topics: Sequence[FetchTopic] | None = topics
        self.left_out: list[TopicCounters] = []
        """The counters of each partition that `due_to_consumer` left out."""

    @property
    def topics(self) -> Sequence[FetchTopic]:
        assert self._topics is not None
        return self._topics

    @property
    def has_partitions(self) -> bool:
        return bool(self._topics)

    @property
    def is_long(self) -> bool:
        topics = self.topics
        return len(topics) > FEW_ITEMS or any(len(partitions) > FEW_ITEMS for _, partitions in topics)

    def partitions(self, find: FindPartition) -> list[tuple[Partition, int]]:
        """Those of the fetch that are here, with the offsets from which it reads."""
        return [
            (partition, wanted.fetch_offset)
            for topic, partitions in each(self.topics)
            for wanted in each(partitions)
            if (partition := find(topic, wanted.partition)) is not None
        ]

    def due(self, replica_id: int, now_ms: int) -> Sequence[FetchTopic]:
        """Note a follower's fetch in the partitions that are settled, and return the others."""
        return self.topics

    def due_to_consumer(self, read_committed: bool) -> Sequence[FetchTopic]:
        """Return the partitions that are not settled, or may have news since."""
        return self.topics

    def settle(self, topic: TopicKey, index: int, partition: Partition) -> None:
        """The reader has all that it may read of a partition, until a request names it again."""

    def answer(self, fetched: Fetched, now_ms: int) -> SessionAnswer:
        return NO_ERROR, NO_SESSION, fetched

    def answer_nothing(self) -> SessionAnswer:
        """The answer to a client that is throttled: it has no data, and the client will ask for the same again."""
        return NO_ERROR, NO_SESSION, []


class _FullFetch(FetchContext):
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
        return NO_ERROR, session_id, fetched


class _IncrementalFetch(FetchContext):
    __slots__ = ("_next_epoch", "_session")

    def __init__(self, session: FetchSession, next_epoch: int) -> None:
        super().__init__(())
        self._topics = None
        self._session = session
        self._next_epoch = next_epoch

    @property
    def topics(self) -> Sequence[FetchTopic]:
        """Those of the first call: a fetch that waits reads the same partitions again."""
        if self._topics is None:
            self._topics = self._session.topics()
        return self._topics

    @property
    def has_partitions(self) -> bool:
        return True

    @property
    def is_long(self) -> bool:
        return len(self._session) > FEW_ITEMS

    def partitions(self, find: FindPartition) -> list[tuple[Partition, int]]:
        return self._session.partitions(find)

    def due(self, replica_id: int, now_ms: int) -> Sequence[FetchTopic]:
        return self._session.due(replica_id, now_ms)

    def due_to_consumer(self, read_committed: bool) -> Sequence[FetchTopic]:
        due, self.left_out = self._session.due_to_consumer(read_committed)
        return due

    def settle(self, topic: TopicKey, index: int, partition: Partition) -> None:
        self._session.settle((topic, index), partition)

    def answer(self, fetched: Fetched, now_ms: int) -> SessionAnswer:
        if self._session.next_epoch != self._next_epoch:
            # While this fetch waited, another one continued the session.
            return ErrorCode.invalid_fetch_session_epoch, NO_SESSION, []
        return NO_ERROR, self._session.session_id, self._session.changes(fetched)

    def answer_nothing(self) -> SessionAnswer:
        return self.answer([], 0)


class _Followed:
    """A partition of a session: what the client wants of it, and what the last answer said of it."""

    __slots__ = ("high_watermark", "leader_epoch", "log_start_offset", "partition", "wanted")

    def __init__(self, wanted: FetchPartition, high_watermark: int = -1, log_start_offset: int = -1) -> None:
        self.wanted = wanted
        self.partition: Partition | None = None
        """The partition, if it is settled and here; `leader_epoch` is the one in which it was settled."""
        self.leader_epoch = -1
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset

    def settled_in(self) -> Partition | None:
        """The partition, if it is settled. One that has ended is let go: its memory is given back."""
        if self.partition is not None and self.partition.has_ended:
            self.partition = None
        return self.partition

    def has_no_news(self, partition: Partition, read_committed: bool) -> bool:
        """Whether a consumer that had all of a settled partition has it still, by a few comparisons."""
        if (
            partition.leader_epoch != self.leader_epoch
            or partition.high_watermark != self.high_watermark
            or partition.log.log_start_offset != self.log_start_offset
        ):
            return False
        end_offset = partition.last_stable_offset if read_committed else self.high_watermark
        return end_offset == self.wanted.fetch_offset

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


class _ByTopic:
    """Partitions, in their order, as the topics of a request."""

    __slots__ = ("_last", "topics")

    def __init__(self) -> None:
        self.topics: list[FetchTopic] = []
        self._last: TopicKey | None = None

    def add(self, topic: TopicKey, wanted: FetchPartition) -> None:
        if topic == self._last:
            self.topics[-1][1].append(wanted)
        else:
            self._last = topic
            self.topics.append((topic, [wanted]))


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
        topics: Sequence[FetchTopic],
        fetched: Fetched,
        uses_topic_ids: bool,
        now_ms: int,
        *,
        is_follower: bool = False,
    ) -> None:
        self.session_id = NO_SESSION
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
                followed.partition = None
        for key in forgotten:
            self._partitions.pop(key, None)

    def topics(self) -> list[FetchTopic]:
        found = _ByTopic()
        for key, followed in self._partitions.items():
            found.add(key[0], followed.wanted)
        return found.topics

    def partitions(self, find: FindPartition) -> list[tuple[Partition, int]]:
        """Those that are here, with the offsets from which the client reads."""
        found: list[tuple[Partition, int]] = []
        for key, followed in self._partitions.items():
            partition = followed.settled_in()
            if partition is None:
                partition = find(key[0], key[1])
            if partition is not None:
                found.append((partition, followed.wanted.fetch_offset))
        return found

    def due(self, replica_id: int, now_ms: int) -> list[FetchTopic]:
        """The partitions that may have news for the follower; in the others the fetch is noted."""
        found = _ByTopic()
        for key, followed in self._partitions.items():
            partition = followed.settled_in()
            if partition is None or not fetched_again(
                partition,
                replica_id,
                followed.wanted.fetch_offset,
                followed.high_watermark,
                followed.log_start_offset,
                now_ms,
            ):
                found.add(key[0], followed.wanted)
        return found.topics

    def due_to_consumer(self, read_committed: bool) -> tuple[list[FetchTopic], list[TopicCounters]]:
        """The partitions that may have news for the consumer, and the counters of each of the others."""
        found = _ByTopic()
        left_out: list[TopicCounters] = []
        for key, followed in self._partitions.items():
            partition = followed.settled_in()
            if partition is not None and followed.has_no_news(partition, read_committed):
                left_out.append(partition.counters)
            else:
                found.add(key[0], followed.wanted)
        return found.topics, left_out

    def settle(self, key: PartitionKey, partition: Partition) -> None:
        followed = self._partitions.get(key)
        if followed is not None:
            followed.partition, followed.leader_epoch = partition, partition.leader_epoch

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
                return FetchContext(topics)
            return _FullFetch(self, topics, uses_topic_ids, is_follower)
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.next_epoch != epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.fetch_session_topic_id_error
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        session.next_epoch = next_epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        # A long request gives way in this, and somebody else may need the slot.
        session.update(topics, forgotten)
        if not len(session):
            self._sessions.pop(session_id, None)
            return FetchContext(())
        return _IncrementalFetch(session, next_epoch)

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
        if not self._make_room(partition_count, now_ms, is_follower):
            return NO_SESSION
        session = FetchSession(topics, fetched, uses_topic_ids, now_ms, is_follower=is_follower)
        # Again, as a long request gave way in this.
        if not self._make_room(partition_count, now_ms, is_follower):
            return NO_SESSION
        while not session.session_id or session.session_id in self._sessions:
            session.session_id = self._random.randint(1, _MAX_SESSION_ID)
        self._sessions[session.session_id] = session
        return session.session_id

    def _make_room(self, partition_count: int, now_ms: int, is_follower: bool) -> bool:
        """Whether a slot is free for a session of so many partitions, maybe as another session ends for it."""
        if len(self._sessions) < self._slots:
            return True
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
