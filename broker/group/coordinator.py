"""The group coordinator: passes requests to the groups and executes their effects.

A group's state machine returns effects; the coordinator sends answers, appends records to `__consumer_offsets`, and
sets timers. A change is in the log before a client sees it. After the start the groups are read from that topic in
slices while the broker already serves; until its partition is read, a group answers COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

from kio.schema.errors import ErrorCode

from highwater.broker.clock import ClockGuard, Timer
from highwater.broker.cluster.state import ClusterView
from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.events import (
    NO_MEMBER_ID,
    Answer,
    AnswerJoin,
    AnswerSync,
    Effect,
    JoinAnswer,
    JoinRequest,
    Leaver,
    Now,
    StoreGroup,
    SyncAnswer,
    SyncRequest,
)
from highwater.broker.group.kept import KeptGroups, kept_groups
from highwater.broker.group.members import CONSUMER
from highwater.broker.group.offsets import CommittedOffset, GroupOffsets
from highwater.broker.group.rebalance import GroupSettings, GroupState
from highwater.broker.group.schemas import (
    GroupKey,
    OffsetKey,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from highwater.broker.group.settling import SettledRecords
from highwater.broker.replica.partition import Partition, Verify
from highwater.broker.runtime import Runtime
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC, InternalTopic, KeyValue
from highwater.broker.topics.partitions import Partitions
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.records.batch import Codec

_logger = logging.getLogger(__name__)

_MAX_TEXT_BYTES: Final = 32_000
"""The limit of any name in a request: records and older responses have 15 bits for the length of a text."""

Offsets = Mapping[TopicPartition, CommittedOffset]
Outcomes = Mapping[TopicPartition, ErrorCode]


class Committer(NamedTuple):
    """The member and generation of a commit; the defaults are a simple consumer, which is not a member."""

    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    generation_id: int = -1


class Group:
    """A group with its members, offsets and timer."""

    __slots__ = ("members", "offsets", "partition_index", "timer", "timer_ms")

    def __init__(self, members: ClassicGroup, partition_index: int) -> None:
        self.members = members
        self.partition_index = partition_index
        """The partition of `__consumer_offsets` that stores the group."""
        self.offsets = GroupOffsets()
        self.timer: Timer | None = None
        self.timer_ms = 0


class GroupCoordinator:
    def __init__(
        self, runtime: Runtime, partitions: Partitions, cluster: ClusterView, deleted_topics: Sequence[str] = ()
    ) -> None:
        """`deleted_topics` were deleted since the last run: their offsets are not read back."""
        config = runtime.config
        self._deleted_topics = deleted_topics
        self._config = config
        self._clock = runtime.clock
        self._scheduler = runtime.scheduler
        self.topic = InternalTopic(
            runtime,
            partitions,
            cluster,
            OFFSETS_TOPIC,
            "groups",
            self._load,
            self._unload,
            codec=Codec(config.integer("offsets.topic.compression.codec")),
            read_bytes=config.integer("offsets.load.buffer.size"),
        )
        self._groups: dict[str, Group] = {}
        self._undecided: dict[int, set[str]] = {}
        """The groups with offsets in the open transaction of each producer id."""
        self._settings = GroupSettings(
            config.integer("group.initial.rebalance.delay.ms"), config.integer("group.max.size"), lambda: str(uuid4())
        )
        self._session_timeouts_ms = range(
            config.integer("group.min.session.timeout.ms"), config.integer("group.max.session.timeout.ms") + 1
        )
        self._max_metadata_length = config.integer("offset.metadata.max.bytes")
        self._retention_ms = config.integer("offsets.retention.minutes") * 60_000
        self._append_timeout_ms = config.integer("offsets.commit.timeout.ms")
        self._is_closed = False
        self._expiry_timer: Timer | None = None
        self._clock_guard = ClockGuard(runtime.clock)

    # The topic

    def topic_deleted(self, name: str) -> None:
        """Remove the offsets of a deleted topic; when it is `__consumer_offsets`, remove all groups."""
        if name != OFFSETS_TOPIC:
            for group_id, group in tuple(self._groups.items()):
                self._bury(group_id, group, group.offsets.remove_topic(name))
            return
        self.topic.forget()

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the offsets of partitions that the cluster deleted."""
        for group_id, group in tuple(self._groups.items()):
            self._bury(group_id, group, group.offsets.remove(partitions))
        self.topic.forget_if_gone()

    def _unload(self, index: int) -> None:
        gone = [(group_id, group) for group_id, group in self._groups.items() if group.partition_index == index]
        for group_id, _ in gone:
            del self._groups[group_id]
        names = {group_id for group_id, _ in gone}
        self._undecided = {id_: kept for id_, groups in self._undecided.items() if (kept := groups - names)}
        for _, group in gone:
            self._apply(group, group.members.die(ErrorCode.not_coordinator))

    def close(self) -> None:
        """Answer every waiting request and refuse new ones, because the broker stops."""
        self._is_closed = True
        for group in self._groups.values():
            self._apply(group, group.members.die(ErrorCode.not_coordinator))
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()

    def refusal(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode | None:
        """Return why this broker cannot answer for the group now, or None."""
        if not (group_id or may_be_empty) or not _fits(group_id):
            return ErrorCode.invalid_group_id
        if self._is_closed:
            return ErrorCode.coordinator_not_available
        return self.topic.refusal(group_id)

    def partition_of(self, group_id: str) -> int | None:
        """Return the partition of `__consumer_offsets` for a group; None while there is no such topic."""
        return self.topic.index_of(group_id)

    def partition(self, group_id: str) -> Partition | None:
        """Return the partition of `__consumer_offsets` for a group, if this broker leads it."""
        return self.topic.partition(group_id)

    # Members

    def join(self, group_id: str, request: JoinRequest, answer: AnswerJoin) -> None:
        error = self.refusal(group_id)
        if error is None and request.session_timeout_ms not in self._session_timeouts_ms:
            error = ErrorCode.invalid_session_timeout
        names = (request.group_instance_id or "", request.protocol_type, *(name for name, _ in request.protocols))
        if error is None and not all(map(_fits, names)):
            error = ErrorCode.invalid_request
        group = self._groups.get(group_id)
        if error is None and group is None:
            if request.member_id == NO_MEMBER_ID:
                group = self._add(group_id)
            else:
                error = ErrorCode.unknown_member_id
        if error is not None or group is None:
            answer(JoinAnswer(error or ErrorCode.unknown_member_id, request.member_id))
            return
        self._apply(group, group.members.join(request, answer, self._now()))

    def sync(self, group_id: str, request: SyncRequest, answer: AnswerSync) -> None:
        error = self.refusal(group_id)
        if error is ErrorCode.coordinator_load_in_progress:
            # The rebalance was lost. Older clients do not expect COORDINATOR_LOAD_IN_PROGRESS here.
            error = ErrorCode.rebalance_in_progress
        group = self._groups.get(group_id)
        if error is not None or group is None:
            answer(SyncAnswer(error or ErrorCode.unknown_member_id))
            return
        self._apply(group, group.members.sync(request, answer, self._now()))

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        error = self.refusal(group_id)
        if error is not None:
            return ErrorCode.none if error is ErrorCode.coordinator_load_in_progress else error
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.unknown_member_id
        outcome = group.members.heartbeat(member_id, group_instance_id, generation_id, self._now())
        self._schedule(group)
        return outcome

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> ErrorCode | list[ErrorCode]:
        """Remove members. Returns an error code for each of `leavers`, or one for all."""
        if (error := self.refusal(group_id)) is not None:
            return error
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.unknown_member_id] * len(leavers)
        outcomes, effects = group.members.leave(leavers, self._now())
        self._apply(group, effects)
        return outcomes

    # Offsets

    def commit(self, group_id: str, committer: Committer, offsets: Offsets, answer: Callable[[Outcomes], None]) -> None:
        group = self._groups.get(group_id)
        error = self.refusal(group_id, may_be_empty=True)
        if error is None and group is None:
            if committer.generation_id < 0:
                group = self._add(group_id)
            else:
                error = ErrorCode.group_id_not_found
        if error is None and group is not None:
            error = group.members.check_commit(*committer, self._now())
            self._schedule(group)
        if error is not None or group is None:
            answer(dict.fromkeys(offsets, error or ErrorCode.group_id_not_found))
            return
        accepted = {key: offset for key, offset in offsets.items() if self._is_short(offset.metadata)}
        outcomes = dict.fromkeys(offsets, ErrorCode.offset_metadata_too_large)
        if not accepted:
            answer(outcomes)
            return
        committed = group.offsets
        order = committed.begin_commit(accepted)

        def written(error: ErrorCode) -> None:
            committed.end_commit(order, accepted, is_written=not error)
            answer(outcomes | dict.fromkeys(accepted, _COMMIT_ERRORS.get(error, error)))

        self._append(group_id, _offset_records(group_id, accepted), written)

    def commit_in_transaction(
        self,
        group_id: str,
        committer: Committer,
        producer: tuple[int, int],
        verify: Verify | None,
        offsets: Offsets,
        answer: Callable[[Outcomes], None],
        *,
        by_version_2: bool = False,
    ) -> None:
        """Add offsets to the transaction of the producer (id, epoch), if `verify` allows it.

        `verify` is None if this broker did not coordinate the group when the transaction was verified.
        """
        producer_id, epoch = producer
        group = self._groups.get(group_id)
        partition = self.topic.partition(group_id)
        error = self.refusal(group_id)
        if (
            error is None
            and partition is not None
            and partition.would_begin(producer_id, epoch, by_version_2=by_version_2)
        ):
            refusal = ErrorCode.not_coordinator if verify is None else verify(*producer)
            error = _COMMIT_ERRORS.get(refusal, refusal) or None
        if error is None and group is None:
            if committer.generation_id < 0:
                group = self._add(group_id)
            else:
                error = ErrorCode.group_id_not_found
        if error is None and group is not None:
            error = group.members.check_transactional_commit(*committer)
        if error is not None or group is None:
            answer(dict.fromkeys(offsets, error or ErrorCode.group_id_not_found))
            return
        accepted = {key: offset for key, offset in offsets.items() if self._is_short(offset.metadata)}
        outcomes = dict.fromkeys(offsets, ErrorCode.offset_metadata_too_large)
        if not accepted:
            answer(outcomes)
            return
        take_back = group.offsets.add_undecided(producer_id, accepted)
        self._undecided.setdefault(producer_id, set()).add(group_id)

        def written(error: ErrorCode) -> None:
            if error:
                take_back()
            answer(outcomes | dict.fromkeys(accepted, _COMMIT_ERRORS.get(error, error)))

        self._append(group_id, _offset_records(group_id, accepted), written, producer, by_version_2=by_version_2)

    def transaction_ended(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """Commit or drop the offsets of a transaction whose marker is durable in that partition of the topic.

        A partition that is still being read needs no call: the reading finds the marker.
        """
        groups = self._undecided.get(producer_id, set())
        for group_id in tuple(groups):
            group = self._groups.get(group_id)
            if group is not None and group.partition_index != partition:
                continue
            groups.discard(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, is_commit=is_commit)
                self._bury(group_id, group, [])
        if not groups:
            self._undecided.pop(producer_id, None)

    def _is_short(self, metadata: str) -> bool:
        return len(metadata) <= self._max_metadata_length and _fits(metadata)

    def offsets(self, group_id: str) -> ErrorCode | GroupOffsets:
        """Return the committed offsets of a group; none for an unknown group."""
        if (error := self.refusal(group_id, may_be_empty=True)) is not None:
            return error
        group = self._groups.get(group_id)
        return GroupOffsets() if group is None else group.offsets

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], answer: Callable[[ErrorCode | Outcomes], None]
    ) -> None:
        """Delete committed offsets. Returns an error code for each of `partitions`, or one for all."""
        group = self._groups.get(group_id)
        error = self.refusal(group_id)
        if error is None and group is None:
            error = ErrorCode.group_id_not_found
        if error is not None or group is None:
            answer(error or ErrorCode.group_id_not_found)
            return
        members = group.members
        is_empty = members.state is GroupState.EMPTY
        if not is_empty and members.protocol_type != CONSUMER:
            answer(ErrorCode.non_empty_group)
            return
        read = None if is_empty else members.subscribed_topics
        is_read = {key: not is_empty and (read is None or key[0] in read) for key in partitions}
        outcomes = {
            key: ErrorCode.group_subscribed_to_topic if reads else ErrorCode.none for key, reads in is_read.items()
        }
        removed = group.offsets.remove([key for key, reads in is_read.items() if not reads])

        def written(error: ErrorCode) -> None:
            answer(_COMMIT_ERRORS.get(error, error) if error else outcomes)

        self._bury(group_id, group, removed, written)

    # Administration

    def describe(self, group_id: str) -> ErrorCode | ClassicGroup | None:
        """Return the group, or None for an unknown group."""
        if (error := self.refusal(group_id, may_be_empty=True)) is not None:
            return error
        group = self._groups.get(group_id)
        return None if group is None else group.members

    def all_groups(self) -> tuple[ErrorCode, list[ClassicGroup]]:
        """Return all groups known so far, and an error while some are still being read."""
        error = ErrorCode.none
        if self._is_closed:
            error = ErrorCode.coordinator_not_available
        elif self.topic.is_loading:
            error = ErrorCode.coordinator_load_in_progress
        return error, [group.members for group in self._groups.values()]

    def delete(self, group_id: str, answer: Callable[[ErrorCode], None]) -> None:
        group = self._groups.get(group_id)
        error = self.refusal(group_id, may_be_empty=True)
        if error is None and group is None:
            error = ErrorCode.group_id_not_found
        if error is None and group is not None and group.members.state is not GroupState.EMPTY:
            error = ErrorCode.non_empty_group
        if error is not None or group is None:
            answer(error or ErrorCode.group_id_not_found)
            return
        group.members.pending_members.clear()
        _logger.info("group %s is deleted", group_id)
        self._bury(group_id, group, group.offsets.remove_all(), lambda error: answer(_COMMIT_ERRORS.get(error, error)))

    # Expiry

    def _expire_offsets(self) -> None:
        self._expiry_timer = None
        now_ms = self._clock_guard.now_ms()
        if now_ms is not None:
            for group_id, group in tuple(self._groups.items()):
                self._bury(group_id, group, group.offsets.expire(group.members, now_ms, self._retention_ms))
        self._schedule_expiry()

    def _schedule_expiry(self) -> None:
        if self._expiry_timer is None and self._groups and not self._is_closed:
            interval_ms = self._config.integer("offsets.retention.check.interval.ms")
            self._expiry_timer = self._scheduler.call_later(interval_ms, self._expire_offsets)

    def _bury(
        self,
        group_id: str,
        group: Group,
        removed: Sequence[TopicPartition],
        then: Callable[[ErrorCode], None] = lambda _: None,
    ) -> None:
        """Append tombstones for removed offsets, and for the group if it is empty."""
        tombstones: list[KeyValue] = [(encode_offset_key(OffsetKey(group_id, *key)), None) for key in removed]
        members = group.members
        if members.state is GroupState.EMPTY and group.offsets.is_empty and not members.pending_members:
            del self._groups[group_id]
            # The log has no record of a group that never had a member.
            if members.generation_id > 0:
                tombstones.append((encode_group_key(GroupKey(group_id)), None))
            self._apply(group, members.die(ErrorCode.coordinator_not_available))
        if tombstones:
            self._append(group_id, tombstones, then)
        else:
            then(ErrorCode.none)

    # Executing effects

    def _add(self, group_id: str, index: int | None = None) -> Group:
        if index is None:
            index = self.topic.index_of(group_id)
            assert index is not None, "a group without a topic"
        group = self._groups[group_id] = Group(ClassicGroup(group_id, self._settings), index)
        self._schedule_expiry()
        return group

    def _apply(self, group: Group, effects: Sequence[Effect] = ()) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                effect.deliver()
            else:
                self._store(group, effect)
        self._schedule(group)

    def _store(self, group: Group, store: StoreGroup) -> None:
        group_id = group.members.group_id

        def stored(error: ErrorCode) -> None:
            self._apply(group, group.members.stored(store, _STORE_ERRORS.get(error, error), self._now()))

        self._append(group_id, [(encode_group_key(GroupKey(group_id)), encode_group(store.group))], stored)

    def _append(
        self,
        group_id: str,
        records: Sequence[KeyValue],
        then: Callable[[ErrorCode], None],
        producer: tuple[int, int] | None = None,
        *,
        by_version_2: bool = False,
    ) -> None:
        self.topic.append(
            group_id,
            records,
            self._clock.now_ms(),
            then,
            producer,
            by_version_2=by_version_2,
            timeout_ms=self._append_timeout_ms,
        )

    def _schedule(self, group: Group) -> None:
        """Schedule the group's `tick`. An early timer does no harm, so heartbeats do not move the timer."""
        wake_ms = group.members.wake_ms
        if group.timer is not None:
            if wake_ms is not None and group.timer_ms <= wake_ms:
                return
            group.timer.cancel()
            group.timer = None
        if wake_ms is not None:
            group.timer_ms = wake_ms
            delay_ms = max(wake_ms - self._now().monotonic_ms, 0)
            group.timer = self._scheduler.call_later(delay_ms, partial(self._tick, group))

    def _tick(self, group: Group) -> None:
        group.timer = None
        self._apply(group, group.members.tick(self._now()))

    def _now(self) -> Now:
        clock = self._clock
        return Now(clock.monotonic_ns() // 1_000_000, clock.now_ms())

    # Reading back

    def _load(self, partition: Partition) -> Iterator[None]:
        settled = SettledRecords()
        for header, batch in self.topic.batches(partition):
            settled.take(header, batch)
            yield
        self._restore(kept_groups(settled), partition.index)

    def _restore(self, kept: KeptGroups, index: int) -> None:
        """Load the groups of one partition, all or none.

        The partition count of the topic may still be unknown: LeaderAndIsr can arrive before the metadata.
        """
        if kept.unknown_count:
            _logger.warning(
                "%s: %d records are of other kinds of groups; they stay as they are", OFFSETS_TOPIC, kept.unknown_count
            )
        now = self._now()
        for group_id in {**kept.members, **kept.committed, **kept.undecided}:
            members = kept.members.get(group_id)
            group = self._add(group_id, index)
            if members is not None:
                group.members = ClassicGroup.restored(group_id, self._settings, members, now)
            for partition, offset in kept.committed.get(group_id, {}).items():
                group.offsets.restore(partition, offset)
            for undecided in kept.undecided.get(group_id, ()):
                group.offsets.add_undecided(undecided.producer_id, {undecided.partition: undecided.offset})
                self._undecided.setdefault(undecided.producer_id, set()).add(group_id)
            self._apply(group)
            removed = [key for topic in self._deleted_topics for key in group.offsets.remove_topic(topic)]
            if removed:
                self._bury(group_id, group, removed)


def _offset_records(group_id: str, offsets: Offsets) -> list[KeyValue]:
    return [
        (encode_offset_key(OffsetKey(group_id, topic, partition)), encode_offset(offset))
        for (topic, partition), offset in offsets.items()
    ]


def _fits(text: str) -> bool:
    return len(text) <= _MAX_TEXT_BYTES and (text.isascii() or len(text.encode()) <= _MAX_TEXT_BYTES)


_STORE_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.request_timed_out: ErrorCode.rebalance_in_progress,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}
"""The errors that members get when the log refuses their group (GroupMetadataManager.storeGroup)."""

_COMMIT_ERRORS: Final = _STORE_ERRORS | {
    # The transaction coordinator on another broker could not be reached; clients retry after this error.
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
    ErrorCode.request_timed_out: ErrorCode.request_timed_out,
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.record_list_too_large: ErrorCode.invalid_commit_offset_size,
}
"""The errors of a commit that the log refuses (GroupMetadataManager.maybeConvertOffsetCommitError)."""
