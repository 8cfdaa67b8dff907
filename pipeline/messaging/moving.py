"""Where a record that waits goes next, and when: levels first, then a wheel for the last second. Pure.

A level is a first-in-first-out queue of equal delay, so that its head is the first that is due. A record with any other
due time waits in the greatest level that is not longer than the rest, and again. When less than the least level is
left, it waits in a wheel: a partition for each tenth of a second, in which due times differ by less than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.headers import Disposition
from highwater.pipeline.messaging.levels import (
    WHEEL,
    WHEEL_SLOT_MS,
    WHEEL_SLOTS,
    GroupTopics,
    delay_topic,
    greatest_level_ms,
    level_of,
)
from highwater.pipeline.messaging.record import Outgoing, Record

MOVERS: Final = "highwater-mover"
"""The one group of all movers: each partition in which records wait has one owner."""
UNDELIVERABLE: Final = GroupTopics("hw.delay", MOVERS).dead
"""The dead letters of the movers."""
MOST_HELD: Final = 4000
MOST_HELD_BYTES: Final = 4 << 20
"""The most bytes of a partition's records in memory."""
_LONGEST_WAIT_MS: Final = 100 * 366 * 86_400_000


class Poison(ValueError):  # noqa: N818 - what a record is, not an error of ours
    """The headers of a record do not say where and when it is to be delivered."""


class Move(NamedTuple):
    """A record, and what is written in its place."""

    record: Record
    outgoing: Outgoing


def due_ms(record: Record) -> int:
    """When the record is delivered; without hw-due-ms after the delay of its level. Raises Poison."""
    level_ms = level_of(record.topic)
    if level_ms is None:
        raise Poison(f"{record.topic} is not a topic in which records wait")
    try:
        due = headers.whole_number(record, headers.DUE_MS)
    except ValueError as error:
        raise Poison(str(error)) from None
    if due is None:
        return record.timestamp_ms + level_ms
    if due > record.timestamp_ms + _LONGEST_WAIT_MS:
        raise Poison(f"{headers.DUE_MS} is more than 100 years away")
    return due


def release_ms(record: Record) -> int:
    """When the record leaves the topic in which it waits. Raises Poison."""
    due = due_ms(record)
    return due if record.topic == WHEEL else min(due, record.timestamp_ms + (level_of(record.topic) or 0))


def moved(record: Record, now_ms: int, levels_ms: Sequence[int]) -> Outgoing:
    """What is written for a record that leaves the topic in which it waits. Raises Poison."""
    target = record.text(headers.TARGET)
    if not target:
        raise Poison(f"there is no header {headers.TARGET}")
    due = due_ms(record)
    if due > now_ms:
        attempt = None if record.header(headers.ATTEMPT) is None else headers.attempt_of(record)
        return delayed(record, target, due, now_ms, levels_ms, attempt=attempt)
    timestamp_ms = headers.own_timestamp_ms(record)
    return Outgoing(target, record.key, record.value, headers.delivered(record), timestamp_ms)


def delayed(
    record: Record,
    target: str,
    due: int,
    now_ms: int,
    levels_ms: Sequence[int],
    *,
    attempt: int | None = None,
    **error: str,
) -> Outgoing:
    """What is written so that `target` gets the record at `due`."""
    waiting = headers.waiting(record, due, target, attempt=attempt, **error)
    level_ms = greatest_level_ms(due - now_ms, levels_ms)
    if level_ms is not None:
        return Outgoing(delay_topic(level_ms), record.key, record.value, waiting, now_ms)
    slot = due // WHEEL_SLOT_MS % WHEEL_SLOTS
    return Outgoing(WHEEL, record.key, record.value, waiting, now_ms, slot)


def dead_move(record: Record, reason: str, now_ms: int) -> Move:
    """To the dead letters of the movers, as a record that cannot be delivered must not hold up those behind it."""
    try:
        attempt = headers.attempt_of(record)
    except ValueError:
        attempt = 0
    dead = headers.dead(record, Disposition.POISON, "Undeliverable", reason, attempt)
    # A replay delivers it there.
    target = tuple((name, value) for name, value in record.headers if name == headers.TARGET)
    return Move(
        record,
        Outgoing(UNDELIVERABLE, record.key, record.value, (*dead, *target), now_ms),
    )


class Waiting:
    """The records that wait, by partition, oldest first."""

    def __init__(self, levels_ms: Sequence[int]) -> None:
        self._levels_ms = levels_ms
        self._queues: dict[TopicPartition, deque[Record]] = {}
        self._sizes_bytes: dict[TopicPartition, int] = {}

    def add(self, record: Record) -> None:
        partition = (record.topic, record.partition)
        self._queues.setdefault(partition, deque()).append(record)
        self._sizes_bytes[partition] = self._sizes_bytes.get(partition, 0) + _size_bytes(record)

    def share(self, partition: TopicPartition) -> float:
        """How much of what may be held of a partition is held; from 1 on no more should be fetched."""
        count, size_bytes = len(self._queues.get(partition, ())), self._sizes_bytes.get(partition, 0)
        return max(count / MOST_HELD, size_bytes / MOST_HELD_BYTES)

    def forget(self, partition: TopicPartition) -> None:
        """Another mover has the partition now."""
        self._queues.pop(partition, None)
        self._sizes_bytes.pop(partition, None)

    def due(self, now_ms: int, most: int) -> list[Move]:
        """The moves that are due, at most about `most`; the records stay until `done`."""
        share = max(1, most // max(1, len(self._queues)))
        return [move for queue in self._queues.values() for move in self._due_of(queue, now_ms, share)]

    def _due_of(self, queue: deque[Record], now_ms: int, most: int) -> Iterator[Move]:
        for _, record in zip(range(most), queue, strict=False):
            try:
                if release_ms(record) > now_ms:
                    return
                yield Move(record, moved(record, now_ms, self._levels_ms))
            except Poison as error:
                yield dead_move(record, str(error), now_ms)

    def done(self, moves: Sequence[Move]) -> None:
        """They are committed."""
        for record, _ in moves:
            partition = (record.topic, record.partition)
            head = self._queues[partition].popleft()
            assert head == record
            self._sizes_bytes[partition] -= _size_bytes(record)

    def next_release_ms(self) -> int | None:
        """When the next head is due; None if nothing waits."""
        return min((_release_or_now(queue[0]) for queue in self._queues.values() if queue), default=None)


def _size_bytes(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _release_or_now(record: Record) -> int:
    try:
        return release_ms(record)
    except Poison:
        return 0
