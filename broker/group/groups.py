"""The groups that this broker coordinates, and the log `__consumer_offsets` that stores them.

Executes the effects of a group's state machine: sends answers, appends records, sets timers. After the start the groups
are read from the log in slices while the broker already serves; until its partition is read, a group answers
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

from highwater.broker.clock import ClockGuard, Timer
from highwater.broker.cluster.state import ClusterView
from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.consumer.event_queue import Successor, World
from highwater.broker.group.consumer.events import ConsumerSettings, HeartbeatAnswer, HeartbeatRequest, KnownTopic
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.membership import ConsumerMembership
from highwater.broker.group.consumer.migration import MigrationPolicy
from highwater.broker.group.consumer.parts import MOST_BYTES, size_of
from highwater.broker.group.consumer.settings import consumer_settings
from highwater.broker.group.counters import GroupCounters
from highwater.broker.group.events import Answer, Effect, Now, Store, Work
from highwater.broker.group.kept import KeptGroups, kept_groups
from highwater.broker.group.offsets import GroupOffsets
from highwater.broker.group.rebalance import GroupSettings
from highwater.broker.group.schemas import OffsetKey, encode_offset_key
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.slices import SLICE_NS, in_slices
from highwater.broker.topics.internal_topic import APPEND_ERRORS, OFFSETS_TOPIC, InternalTopic, KeyValue, fits
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.settled_records import SettledRecords
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.records.batch import Codec

_logger = logging.getLogger(__name__)


class Group:
    """A group with its members, offsets and timer."""

    __slots__ = ("members", "offsets", "partition_index", "timer", "timer_ms")

    def __init__(self, members: ClassicGroup | ConsumerMembership, partition_index: int) -> None:
        self.members = members
        self.partition_index = partition_index
        """The partition of `__consumer_offsets` that stores the group."""
        self.offsets = GroupOffsets()
        self.timer: Timer | None = None
        self.timer_ms = 0


class Groups:
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
        self.by_id: dict[str, Group] = {}
        self.undecided: dict[int, set[str]] = {}
        """The groups with offsets in the open transaction of each producer id."""
        self.counters = GroupCounters()
        self._settings = GroupSettings(
            config.integer("group.initial.rebalance.delay.ms"),
            config.integer("group.max.size"),
            lambda: str(uuid4()),
            self.counters,
        )
        self._common_settings = consumer_settings(config)
        self._own_settings: Mapping[str, ConsumerSettings] = {}
        self._cluster = cluster
        self._known_topics: dict[str, KnownTopic] = {}
        """Topics of groups, as they are in this version: a heartbeat that writes asks for each of its topics."""
        self._known_topics_version = -1
        self.world = World(
            lambda group_id: self._own_settings.get(group_id, self._common_settings),
            config.integer("group.consumer.regex.refresh.interval.ms"),
            self._known_topic,
            lambda: (topic.name for topic in cluster.topics()),
            lambda: cluster.topics_version,
            self._name_of_topic,
            self._settings,
            MigrationPolicy(str(config.value("group.consumer.migration.policy"))),
        )
        self._append_timeout_ms = config.integer("offsets.commit.timeout.ms")
        self._retention_ms = config.integer("offsets.retention.minutes") * 60_000
        self._expiry_timer: Timer | None = None
        self._clock_guard = ClockGuard(runtime.clock)
        self.is_closed = False

    def refusal(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode | None:
        """Return why this broker cannot answer for the group now, or None."""
        if not (group_id or may_be_empty) or not fits(group_id):
            return ErrorCode.invalid_group_id
        if self.is_closed:
            return ErrorCode.coordinator_not_available
        return self.topic.refusal(group_id)

    def take_up_settings(self, own: Mapping[str, Mapping[str, str]]) -> None:
        """Use these settings of groups from the next heartbeat of each on."""
        self._own_settings = {group_id: consumer_settings(self._config, settings) for group_id, settings in own.items()}

    def now(self) -> Now:
        clock = self._clock
        return Now(clock.monotonic_ns() // 1_000_000, clock.now_ms())

    # Groups that come, change their kind, and go

    def _known_topic(self, name: str) -> KnownTopic | None:
        """Topics without an id are of clusters older than 2.8, and unknown to consumer groups."""
        version = self._cluster.topics_version
        if version != self._known_topics_version:
            self._known_topics_version = version
            self._known_topics.clear()
        known = self._known_topics.get(name)
        if known is None:
            found = self._cluster.topic(name)
            if found is None or not found.topic_id.int:
                return None
            # Partitions that never had a leader may be left out.
            known = KnownTopic(found.topic_id, max(found.partitions, default=-1) + 1)
            self._known_topics[name] = known
        return known

    def _name_of_topic(self, topic_id: UUID) -> str | None:
        found = self._cluster.topic(topic_id)
        return None if found is None else found.name

    def become_consumers(self, group_id: str, request: HeartbeatRequest) -> ConsumerMembership | HeartbeatAnswer:
        """Make a consumer group, in place of a classic one if there is one, or return why `request` cannot begin it."""
        group = self.by_id.get(group_id) or self.add(group_id)
        classic = group.members
        if isinstance(classic, ClassicGroup) and not classic.is_empty:
            members = ConsumerMembership.upgraded(classic, self.world, self.now())
            if isinstance(members, str):
                message = f"The classic group {group_id} cannot become a consumer group: {members}."
                _logger.info("%s", message)
                return HeartbeatAnswer(ErrorCode.group_id_not_found, message)
            if (refusal := members.refusal(request)) is not None:
                return refusal
            _logger.info("group %s: becomes a consumer group with %d members", group_id, len(classic.members))
            self._replace(group, members, ErrorCode.rebalance_in_progress)
        else:
            members = ConsumerMembership(ConsumerGroup(group_id), self.world, classic.tombstones())
            self._replace(group, members)
        return members

    def become_classic(self, group: Group) -> ClassicGroup:
        """Make a classic group in place of a consumer group without members."""
        if tombstones := group.members.tombstones():
            self.append(group.members.group_id, tombstones, lambda _: None)
        members = ClassicGroup(group.members.group_id, self._settings)
        self._replace(group, members)
        return members

    def _succeed(self, group: Group, successor: Successor) -> None:
        """Go on with a classic group in place of a consumer group that has none but classic members left."""
        classic = successor.group
        _logger.info("group %s: becomes a classic group with %d members", classic.group_id, len(classic.members))
        self._replace(group, classic)
        self.apply(group, classic.begin(self.now()))
        if successor.join is not None:
            self.apply(group, classic.join(*successor.join, self.now()))

    def _replace(
        self,
        group: Group,
        members: ClassicGroup | ConsumerMembership,
        error: ErrorCode = ErrorCode.coordinator_not_available,
    ) -> None:
        """`error`: for those who wait for an answer."""
        before, group.members = group.members, members
        self.apply(group, before.die(error))

    def add(self, group_id: str, index: int | None = None) -> Group:
        """`index`: the partition of the topic, if that is known otherwise than by the topic."""
        if index is None:
            index = self.topic.index_of(group_id)
            assert index is not None, "a group without a topic"
        group = self.by_id[group_id] = Group(ClassicGroup(group_id, self._settings), index)
        self._schedule_expiry()
        return group

    def bury(
        self,
        group_id: str,
        group: Group,
        removed: Sequence[TopicPartition],
        then: Callable[[ErrorCode], None] = lambda _: None,
        *,
        is_deletion: bool = False,
    ) -> None:
        """Append tombstones for removed offsets, and for the group if it is of no more use, or deleted."""
        self.counters.offsets_removed += len(removed)
        tombstones: list[KeyValue] = [(encode_offset_key(OffsetKey(group_id, *key)), None) for key in removed]
        members = group.members
        if (is_deletion or members.is_unused) and group.offsets.is_empty:
            del self.by_id[group_id]
            tombstones += members.tombstones()
            self.apply(group, members.die(ErrorCode.coordinator_not_available))
        batches = list(_in_batches(tombstones))
        errors: list[ErrorCode] = []

        def written(error: ErrorCode) -> None:
            errors.append(error)
            if len(errors) >= len(batches):
                then(next(filter(None, errors), ErrorCode.none))

        for batch in batches:
            self.append(group_id, batch, written)
        if not batches:
            then(ErrorCode.none)

    # Offsets that go without a request

    def topic_deleted(self, name: str) -> None:
        """Remove the offsets of a deleted topic; when it is `__consumer_offsets`, remove all groups."""
        if name != OFFSETS_TOPIC:
            for group_id, group in tuple(self.by_id.items()):
                self.bury(group_id, group, group.offsets.remove_topic(name))
            return
        self.topic.forget()

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the offsets of partitions that the cluster deleted."""
        for group_id, group in tuple(self.by_id.items()):
            self.bury(group_id, group, group.offsets.remove(partitions))
        self.topic.forget_if_gone()

    def _expire_offsets(self) -> None:
        self._expiry_timer = None
        now_ms = self._clock_guard.now_ms()
        if now_ms is not None:
            for group_id, group in tuple(self.by_id.items()):
                expired = group.offsets.expire(group.members, now_ms, self._retention_ms)
                self.counters.offsets_expired += len(expired)
                self.bury(group_id, group, expired)
        self._schedule_expiry()

    def _schedule_expiry(self) -> None:
        if self._expiry_timer is None and self.by_id and not self.is_closed:
            interval_ms = self._config.integer("offsets.retention.check.interval.ms")
            self._expiry_timer = self._scheduler.call_later(interval_ms, self._expire_offsets)

    # Executing effects

    def apply(self, group: Group, effects: Sequence[Effect] = ()) -> None:
        left = deque(effects)
        ends_ns = self._clock.monotonic_ns() + SLICE_NS
        while left:
            if isinstance(left[0], Work) and self._clock.monotonic_ns() >= ends_ns:
                # Many events have waited: others have their turn before the next one begins.
                self._scheduler.call_soon(partial(self.apply, group, left))
                break
            effect = left.popleft()
            if isinstance(effect, Answer):
                effect.deliver()
            else:
                left.extendleft(reversed(self._begin(group, effect)))
        self.schedule(group)

    def _begin(self, group: Group, effect: Store | Work) -> list[Effect]:
        """Return the effects that follow, if they are known at once: a long queue of events must not nest."""
        at_once: list[Effect] = []
        is_at_once = True

        def follow(effects: Sequence[Effect]) -> None:
            if is_at_once:
                at_once.extend(effects)
            else:
                self.apply(group, effects)

        if isinstance(effect, Store):
            members = group.members

            def stored(error: ErrorCode) -> None:
                follow(members.stored(effect, STORE_ERRORS.get(error, error), self.now()))
                if isinstance(members, ConsumerMembership) and members.successor and group.members is members:
                    self._succeed(group, members.successor)

            self.append(members.group_id, effect.records, stored, is_patient=effect.is_patient)
        else:
            in_slices(_following(effect.steps, follow), self._clock, self._scheduler)
        is_at_once = False
        return at_once

    def append(
        self,
        group_id: str,
        records: Sequence[KeyValue],
        then: Callable[[ErrorCode], None],
        producer: tuple[int, int] | None = None,
        *,
        by_version_2: bool = False,
        is_patient: bool = False,
        however_late: Callable[[ErrorCode], None] = lambda _: None,
    ) -> None:
        """`is_patient`: wait for replicas as long as it takes, not for `offsets.commit.timeout.ms`; only `however_late`
        hears what comes of the records after that.
        """
        self.topic.append(
            group_id,
            records,
            self._clock.now_ms(),
            then,
            producer,
            by_version_2=by_version_2,
            timeout_ms=None if is_patient else self._append_timeout_ms,
            however_late=however_late,
        )

    def schedule(self, group: Group) -> None:
        """Schedule the group's `tick`. An early timer does no harm, so heartbeats do not move the timer."""
        wake_ms = group.members.wake_ms
        if group.timer is not None:
            if wake_ms is not None and group.timer_ms <= wake_ms:
                return
            group.timer.cancel()
            group.timer = None
        if wake_ms is not None:
            group.timer_ms = wake_ms
            delay_ms = max(wake_ms - self.now().monotonic_ms, 0)
            group.timer = self._scheduler.call_later(delay_ms, partial(self._tick, group))

    def _tick(self, group: Group) -> None:
        group.timer = None
        self.apply(group, group.members.tick(self.now()))

    # The partitions of the topic

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
        now = self.now()
        for group_id in {**kept.members, **kept.consumers, **kept.committed, **kept.undecided}:
            group = self.add(group_id, index)
            if (records := kept.consumers.get(group_id)) is not None:
                group.members = ConsumerMembership.restored(group_id, self.world, records, now)
            elif (members := kept.members.get(group_id)) is not None:
                group.members = ClassicGroup.restored(group_id, self._settings, members, now)
            for partition, offset in kept.committed.get(group_id, {}).items():
                group.offsets.restore(partition, offset)
            for undecided in kept.undecided.get(group_id, ()):
                group.offsets.begin_in_transaction(undecided.producer_id, {undecided.partition: undecided.offset})
                self.undecided.setdefault(undecided.producer_id, set()).add(group_id)
            self.apply(group)
            removed = [key for topic in self._deleted_topics for key in group.offsets.remove_topic(topic)]
            if removed:
                self.bury(group_id, group, removed)

    def _unload(self, index: int) -> None:
        gone = [(group_id, group) for group_id, group in self.by_id.items() if group.partition_index == index]
        for group_id, _ in gone:
            del self.by_id[group_id]
        names = {group_id for group_id, _ in gone}
        self.undecided = {id_: kept for id_, groups in self.undecided.items() if (kept := groups - names)}
        for _, group in gone:
            self.apply(group, group.members.die(ErrorCode.not_coordinator))

    def close(self) -> None:
        """Answer every waiting request and refuse new ones, because the broker stops."""
        self.is_closed = True
        for group in self.by_id.values():
            self.apply(group, group.members.die(ErrorCode.not_coordinator))
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()


def _following(
    steps: Generator[None, None, Sequence[Effect]], follow: Callable[[Sequence[Effect]], None]
) -> Generator[None, None, None]:
    follow((yield from steps))


def _in_batches(tombstones: Iterable[KeyValue]) -> Iterator[list[KeyValue]]:
    """Thousands of offsets are more than one batch holds; each may be removed alone."""
    batch: list[KeyValue] = []
    left_bytes = MOST_BYTES
    for tombstone in tombstones:
        batch.append(tombstone)
        left_bytes -= size_of([tombstone])
        if left_bytes < 0:
            yield batch
            batch, left_bytes = [], MOST_BYTES
    if batch:
        yield batch


STORE_ERRORS: Final = APPEND_ERRORS | {ErrorCode.request_timed_out: ErrorCode.rebalance_in_progress}
"""The errors that members get when the log refuses their group (GroupMetadataManager.storeGroup)."""
