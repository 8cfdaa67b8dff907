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
from typing import NamedTuple
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


class GroupOffsets:
    __slots__ = ("_committed", "_order", "_pending", "_undecided")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._pending: dict[TopicPartition, set[int]] = {}
        """The orders of the commits of each partition that the log has not answered yet."""
        self._undecided: dict[int, dict[TopicPartition, _Undecided]] = {}
        """The offsets in the open transaction of each producer id."""
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
        return partition in self._pending or any(partition in offsets for offsets in self._undecided.values())

    def restore(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        self._committed[partition] = offset

    def begin_commit(self, partitions: Iterable[TopicPartition]) -> int:
        """Note a commit that is passed to the log. Returns the `order` for `end_commit`."""
        self._order += 1
        for partition in partitions:
            self._pending.setdefault(partition, set()).add(self._order)
        return self._order

    def end_commit(self, order: int, offsets: Mapping[TopicPartition, CommittedOffset], *, is_written: bool) -> None:
        """Note whether the log has appended a commit. Commits must end in the order in which they began."""
        for partition, offset in offsets.items():
            orders = self._pending.get(partition, set())
            if order not in orders:
                continue  # The offset was removed during the append.
            orders.remove(order)
            if not orders:
                del self._pending[partition]
            if is_written:
                self._commit(partition, offset, order)

    def add_undecided(self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> Callable[[], None]:
        """Note offsets of the producer's open transaction that are passed to the log, or were found there.

        Returns a function to call if the log refuses them: it restores the earlier offsets of this transaction (the log
        refuses those of a fenced instance, while the current instance may have written some).
        """
        self._order += 1
        undecided = self._undecided.setdefault(producer_id, {})
        before = {partition: undecided[partition] for partition in offsets if partition in undecided}
        added = {partition: _Undecided(self._order, offset) for partition, offset in offsets.items()}
        undecided.update(added)

        def take_back() -> None:
            now = self._undecided.get(producer_id, {})
            refused = {partition for partition, entry in added.items() if now.get(partition) is entry}
            kept = {partition: entry for partition, entry in now.items() if partition not in refused}
            self._keep_undecided(producer_id, kept | {key: before[key] for key in refused if key in before})

        return take_back

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        undecided = self._undecided.pop(producer_id, {})
        if is_commit:
            for partition, (order, offset) in undecided.items():
                self._commit(partition, offset, order)

    def _commit(self, partition: TopicPartition, offset: CommittedOffset, order: int) -> None:
        self._committed[partition] = offset
        if self._undecided:
            self._drop_undecided(partition, before=order)

    def _drop_undecided(self, partition: TopicPartition, *, before: int | None = None) -> bool:
        """Drop undecided offsets of the partition older than order `before`. Returns whether there was one."""
        dropped = False
        for producer_id, undecided in tuple(self._undecided.items()):
            found = undecided.get(partition)
            if found is not None and (before is None or found.order < before):
                dropped = True
                self._keep_undecided(producer_id, {key: entry for key, entry in undecided.items() if key != partition})
        return dropped

    def _keep_undecided(self, producer_id: int, undecided: dict[TopicPartition, _Undecided]) -> None:
        if undecided:
            self._undecided[producer_id] = undecided
        else:
            self._undecided.pop(producer_id, None)

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove offsets. Returns the partitions with an offset in the log, or soon in the log."""
        removed = []
        for partition in partitions:
            was_pending = self._pending.pop(partition, None) is not None
            was_pending |= self._drop_undecided(partition)
            if self._committed.pop(partition, None) is not None or was_pending:
                removed.append(partition)
        return removed

    def remove_topic(self, topic: str) -> list[TopicPartition]:
        return self.remove([partition for partition in self._known() if partition[0] == topic])

    def remove_all(self) -> list[TopicPartition]:
        return self.remove(self._known())

    def _known(self) -> set[TopicPartition]:
        return {*self._committed, *self._pending, *(key for offsets in self._undecided.values() for key in offsets)}

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
