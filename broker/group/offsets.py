"""The committed offsets of one group: (event, time) in, changed offsets out; no I/O, no clock.

    offset of a partition   event                                                      next
    unknown                 a commit is passed to the log                              pending
    committed               a commit is passed to the log                              committed and pending
    pending                 the log has appended it                                    committed
    pending                 the log refused it                                         as before
    unknown, committed      a producer's transaction writes one (TxnOffsetCommit)      as before, and undecided
    undecided               the transaction commits                                    committed
    undecided               the transaction aborts, or the log refused it              as before
    undecided               a later offset of the partition is committed               committed: the later one
    any                     group or topic deleted, OffsetDelete, expiry               unknown; the log has a tombstone

Of two offsets the later one in the log wins, as when the log is read back. A pending or undecided offset is not
returned and does not expire. Offsets expire (KIP-211)
- in an empty group: when the group has been empty for the retention time;
- in a stable consumer group: when no member reads the topic and the last commit is older than the retention time;
- in a group that never had members: when the last commit is older than the retention time.
A commit with its own retention time (OffsetCommit up to v4) expires after that time instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

from highwater.broker.group.protocol import GroupProtocol
from highwater.common.topic_partition import TopicPartition


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    """-1 if the client did not send it."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Only if the client requested its own retention time."""
    topic_id: UUID | None = None
    """The id of the topic when the offset was committed; None if it was stored in an older format."""

    def is_of(self, topic_id: UUID | None) -> bool:
        """Whether it is of the topic with this id, as far as both are known. (OffsetMetadataManager)"""
        return self.topic_id is None or topic_id is None or self.topic_id == topic_id


class _Undecided(NamedTuple):
    order: int
    offset: CommittedOffset


End: TypeAlias = Callable[[bool], None]
"""Is to be called with whether the log has what was passed to it, in the order in which that was."""


class GroupOffsets:
    __slots__ = ("_committed", "_order", "_pending", "_undecided")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._pending: dict[TopicPartition, set[int]] = {}
        """The orders of the commits of each partition that the log has not answered yet."""
        self._undecided: dict[TopicPartition, dict[int, list[_Undecided]]] = {}
        """The offsets of each partition in open transactions, by producer id: the last one counts, unless the log
        refuses it.
        """
        self._order = 0

    def __len__(self) -> int:
        return len(self._committed)

    @property
    def is_empty(self) -> bool:
        return not self._committed and not self._pending and not self._undecided

    def all(self) -> Mapping[TopicPartition, CommittedOffset]:
        return self._committed

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        return self._committed.get(partition)

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether a commit or a transaction may soon change the committed offset."""
        return partition in self._pending or partition in self._undecided

    def restore(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        self._committed[partition] = offset

    def begin_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> End:
        """Note a commit that is passed to the log."""
        order = self._next_order()
        for partition in offsets:
            self._pending.setdefault(partition, set()).add(order)

        def end(is_written: bool) -> None:
            for partition, offset in offsets.items():
                orders = self._pending.get(partition, set())
                if order not in orders:
                    continue  # The offset was removed during the append.
                orders.remove(order)
                if not orders:
                    del self._pending[partition]
                if is_written:
                    self._commit(partition, offset, order)

        return end

    def begin_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> End:
        """Note offsets of the producer's open transaction that are passed to the log, or were found there.

        If the log refuses them, earlier offsets of this transaction count again: the log refuses those of a fenced
        instance, while the current instance may have written some.
        """
        order = self._next_order()
        for partition, offset in offsets.items():
            entries = self._undecided.setdefault(partition, {}).setdefault(producer_id, [])
            entries.append(_Undecided(order, offset))

        def end(is_written: bool) -> None:
            for partition in offsets:
                entries = self._undecided.get(partition, {}).get(producer_id, [])
                left = [entry for entry in entries if (entry.order >= order if is_written else entry.order != order)]
                self._set_undecided(partition, producer_id, left)

        return end

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        for partition, of_producers in tuple(self._undecided.items()):
            if (ended := of_producers.get(producer_id)) is not None:
                self._set_undecided(partition, producer_id, [])
                if is_commit:
                    self._commit(partition, ended[-1].offset, ended[-1].order)

    def _commit(self, partition: TopicPartition, offset: CommittedOffset, order: int) -> None:
        self._committed[partition] = offset
        for producer_id, entries in tuple(self._undecided.get(partition, {}).items()):
            self._set_undecided(partition, producer_id, [entry for entry in entries if entry.order >= order])

    def _set_undecided(self, partition: TopicPartition, producer_id: int, entries: list[_Undecided]) -> None:
        of_producers = self._undecided.setdefault(partition, {})
        of_producers.pop(producer_id, None)
        if entries:
            of_producers[producer_id] = entries
        elif not of_producers:
            del self._undecided[partition]

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove offsets. Returns the partitions with an offset in the log, or soon in the log."""
        removed = []
        for partition in partitions:
            was_known = self._committed.pop(partition, None) is not None
            was_known |= self._pending.pop(partition, None) is not None
            was_known |= self._undecided.pop(partition, None) is not None
            if was_known:
                removed.append(partition)
        return removed

    def remove_topic(self, topic: str) -> list[TopicPartition]:
        return self.remove([partition for partition in self._known() if partition[0] == topic])

    def remove_all(self) -> list[TopicPartition]:
        return self.remove(self._known())

    def _known(self) -> set[TopicPartition]:
        return {*self._committed, *self._pending, *self._undecided}

    def expire(self, members: GroupProtocol, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Remove the offsets that have expired at `now_ms`. Returns their partitions."""

        def is_expired(partition: TopicPartition, offset: CommittedOffset) -> bool:
            since_ms = members.retained_since(partition[0], offset.commit_timestamp_ms)
            if since_ms is None or self.is_pending(partition):
                return False
            expires_ms = offset.expire_timestamp_ms
            return now_ms - since_ms >= retention_ms if expires_ms is None else now_ms >= expires_ms

        return self.remove(
            [partition for partition, offset in self._committed.items() if is_expired(partition, offset)]
        )
