"""Writes dead letters back, each exactly once: a replay that was killed goes on where it was.

What a replay has passed is the committed offset of a group of its own, in the transaction that writes the records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.errors import MessagingError, NotCommittedError
from highwater.pipeline.messaging.exchange import Exchange
from highwater.pipeline.messaging.filter import Predicate, parse_filter
from highwater.pipeline.messaging.reading import read_range
from highwater.pipeline.messaging.record import Outgoing, Record, parse_place
from highwater.pipeline.messaging.topics import Topics

GROUP_PREFIX: Final = "highwater-replay."
_BATCH: Final = 500
_TRIES: Final = 5


def replay_name(where: str | None, to: str | None) -> str:
    """The same for the same filter and target, so that the same command goes on and does nothing twice."""
    if where is None and to is None:
        return "all"
    return hashlib.sha256(f"{where or ''}\0{to or ''}".encode()).hexdigest()[:12]


class Replay:
    """Dead letters of one topic that are there now, and which of them this replay has yet to write."""

    def __init__(
        self,
        client: Mapping[str, Any],
        dead_topic: str,
        *,
        where: str | None = None,
        to: str | None = None,
        name: str | None = None,
    ) -> None:
        """Fence a running replay of the same name. Raises SettingsError, FilterError, ClientError, MessagingError."""
        self._client = client
        self._where: Predicate = (lambda _: True) if where is None else parse_filter(where)
        self._to = to
        self._topics = Topics(client)
        count = self._topics.need(dead_topic)
        if to is not None:
            self._topics.need(to)
        self.group = f"{GROUP_PREFIX}{dead_topic}.{name or replay_name(where, to)}"
        partitions = [(dead_topic, number) for number in range(count)]
        self._exchange = Exchange(client, self.group, "only", joins=False)
        self._ends = self._topics.ends(partitions)
        starts = self._topics.starts(partitions)
        committed = self._exchange.committed(partitions)
        self.has_begun = any(offset >= 0 for offset in committed.values())
        self._starts = {each: max(starts[each], committed[each]) for each in partitions}

    def close(self) -> None:
        self._exchange.close()

    def records(self) -> Iterator[Record]:
        """The dead letters that are still to write."""
        return (record for record in read_range(self._client, self._starts, self._ends) if self._where(record))

    def check(self, records: Iterator[Record]) -> Iterator[tuple[Record, str]]:
        """Each with its target. Raises MessagingError for one without, before anything is written."""
        for record in records:
            yield record, self._target(record)[0]

    def _target(self, record: Record) -> tuple[str, int | None]:
        if self._to is not None:
            return self._to, None
        target = record.text(headers.TARGET)
        origin = parse_place(record.text(headers.ORIGIN) or "")
        topic = target or (origin.topic if origin else None)
        if topic is None:
            raise MessagingError(f"{record.place} does not say where it comes from: replay it with --to TOPIC")
        count = self._topics.partitions(topic)
        if count is None:
            raise MessagingError(f"{record.place} comes from {topic}, which does not exist: replay it with --to TOPIC")
        # Where it was, whatever partitioner its producer had.
        return topic, origin.partition if origin and origin.topic == topic and origin.partition < count else None

    def _outgoing(self, record: Record) -> Outgoing:
        topic, partition = self._target(record)
        again = headers.replayed(record)
        # With its old timestamp the target's retention could delete it before anybody reads it.
        return Outgoing(topic, record.key, record.value, again, now_ms(), partition)

    def run(self, done: Callable[[int], None]) -> int:
        """Write them, and return how many these were; `done` gets the count after each transaction.

        Raises MessagingError, after which nothing is lost or written twice: the same replay goes on.
        """
        count = 0
        outgoing: list[Outgoing] = []
        offsets: dict[TopicPartition, int] = {}
        for record in read_range(self._client, self._starts, self._ends):
            offsets[record.topic, record.partition] = record.offset + 1
            if self._where(record):
                outgoing.append(self._outgoing(record))
            if len(outgoing) >= _BATCH:
                self._commit(outgoing, offsets)
                count += len(outgoing)
                done(count)
                outgoing, offsets = [], {}
        self._commit(outgoing, self._ends)
        count += len(outgoing)
        done(count)
        return count

    def _commit(self, outgoing: list[Outgoing], offsets: Mapping[TopicPartition, int]) -> None:
        for left in range(_TRIES - 1, -1, -1):
            try:
                self._exchange.commit(outgoing, offsets)
                return
            except NotCommittedError:
                if not left:
                    raise
