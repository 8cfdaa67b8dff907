"""The replicas of this broker, as the controller orders them: LeaderAndIsr and StopReplica.

    LeaderAndIsr names a partition     in a later leader epoch     it becomes leader or follower; a new one is made
                                       in the current epoch        STALE_CONTROLLER_EPOCH, and nothing changes
                                       in an earlier epoch         STALE_CONTROLLER_EPOCH
                                       with another topic id       INCONSISTENT_TOPIC_ID
                                       without this broker         UNKNOWN_TOPIC_OR_PARTITION
                                       in a failed directory       KAFKA_STORAGE_ERROR
    StopReplica names a partition      in no earlier epoch         it is not fetched any more, or its log is deleted
                                       in an earlier epoch         FENCED_LEADER_EPOCH

Requests are carried out one after another, as the broker may first have to ask for the settings of a new topic.
(Apache Kafka, ReplicaManager.scala.)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Timer
from highwater.broker.cluster.epochs import Epochs
from highwater.broker.cluster.state import EPOCH_DURING_DELETE, NO_LEADER_EPOCH, ClusterView, LeaderAndIsr
from highwater.broker.counters import BrokerCounters
from highwater.broker.replica.fetcher_inputs import FollowerReplica
from highwater.broker.replica.in_sync_changes import InSyncChange
from highwater.broker.replica.leader import Leader
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.slices import in_slices
from highwater.broker.topics.partitions import Partitions
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.primitives import ZERO_UUID

_logger = logging.getLogger(__name__)

_PARTITIONS_OF_A_STEP: Final = 4
"""A new one takes the longest."""

Overrides = Mapping[str, str]
ReadTopicConfigs = Callable[[Sequence[str], Callable[[Mapping[str, Overrides]], None]], None]
"""Reads the settings of topics, and calls back with those of each topic."""
Then = Callable[[Answer], None]


class Fetching(Protocol):
    """The part of `broker.replica.fetchers.Fetchers` that is needed here."""

    def add(self, leader: int, replicas: Iterable[FollowerReplica]) -> None: ...

    def remove(self, replicas: Iterable[FollowerReplica]) -> None: ...

    @property
    def failed_count(self) -> int: ...

    def lags(self) -> Iterator[tuple[int, FollowerReplica, int]]: ...


class InSyncProposals(Protocol):
    """The part of `broker.replica.in_sync_changes.InSyncChanges` that is needed here."""

    def submit(self, change: InSyncChange, then: Callable[[LeaderAndIsr | ErrorCode], None]) -> bool: ...


class _RoleOrder(NamedTuple):
    """One partition in a LeaderAndIsr request."""

    topic: str
    topic_id: UUID
    partition: int
    state: LeaderAndIsr
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    is_new: bool


class _StopOrder(NamedTuple):
    """One partition in a StopReplica request."""

    topic: str
    partition: int
    leader_epoch: int
    deletes: bool


class ReplicaManager:
    """Implements `Replication`."""

    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        cluster: ClusterView,
        epochs: Epochs,
        counters: BrokerCounters,
        fetchers: Fetching,
        in_sync_changes: InSyncProposals,
        *,
        read_topic_configs: ReadTopicConfigs,
        on_leader: Callable[[str, int, int], None],
        on_follower: Callable[[str, int], None],
    ) -> None:
        """`on_leader` is called with (topic, partition, leader epoch) when this broker leads in a new leader epoch,
        `on_follower` with (topic, partition) when it does not lead.
        """
        self.broker_id = runtime.broker_id
        self.lag_time_max_ms = runtime.config.integer("replica.lag.time.max.ms")
        self._clock = runtime.clock
        self._scheduler = runtime.scheduler
        self._partitions = partitions
        self._cluster = cluster
        self._epochs = epochs
        self._counters = counters
        self._fetchers = fetchers
        self._in_sync_changes = in_sync_changes
        self._read_topic_configs = read_topic_configs
        self._on_leader = on_leader
        self._on_follower = on_follower
        self._orders: deque[Callable[[Callable[[], None]], None]] = deque()
        """The requests of the controller, in order; the first one is being carried out."""
        self._timer: Timer | None = None
        self._is_closed = False
        partitions.when_failed.append(self._directory_failed)

    def start(self) -> None:
        """Begin to shrink the ISRs by replicas that lag, every half of `replica.lag.time.max.ms`."""
        self._schedule_shrink()

    def close(self) -> None:
        """The broker stops: it fetches no more, and proposes no ISR."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._fetchers.remove(list(self._partitions.live()))

    def _leaders(self) -> Iterable[Leader]:
        return (partition.role for partition in self._partitions.live() if isinstance(partition.role, Leader))

    # Replication

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000

    def may_be_in_sync(self, broker_id: int) -> bool:
        return self._cluster.broker(broker_id) is not None

    def brokers_are_gone(self) -> None:
        """Replicas of brokers that are gone do not count any more for the high watermark."""
        for leader in self._leaders():
            leader.recompute_high_watermark()

    def submit(self, change: InSyncChange, answered: Callable[[InSyncChange, LeaderAndIsr | ErrorCode], int]) -> None:
        then = partial(self._isr_change_answered, change, answered)
        if not self._in_sync_changes.submit(change, then):
            then(ErrorCode.operation_not_attempted)

    def _isr_change_answered(
        self,
        change: InSyncChange,
        answered: Callable[[InSyncChange, LeaderAndIsr | ErrorCode], int],
        answer: LeaderAndIsr | ErrorCode,
    ) -> None:
        counters = self._counters
        growth = answered(change, answer)
        counters.in_sync_changes_refused += isinstance(answer, ErrorCode)
        counters.in_sync_shrinks += growth < 0
        counters.in_sync_expands += growth > 0

    def replicated(self, size_bytes: int) -> None:
        self._counters.replication_bytes_in += size_bytes

    def fetch_lags(self) -> Iterator[tuple[int, FollowerReplica, int]]:
        """(leader, replica, records that the replica lacks) of all partitions that are fetched."""
        return self._fetchers.lags()

    @property
    def failed_fetch_count(self) -> int:
        return self._fetchers.failed_count

    def log_was_truncated(self, partition: Partition) -> None:
        clean_offsets = self._partitions.log_directories.of(partition.log).clean_offsets
        key = partition.topic, partition.index
        if key in clean_offsets:
            clean_offsets[key] = min(clean_offsets[key], partition.log_end_offset)

    def _schedule_shrink(self) -> None:
        self._timer = self._scheduler.call_later(self.lag_time_max_ms // 2, self._shrink_isrs)

    def _shrink_isrs(self) -> None:
        for leader in self._leaders():
            leader.shrink_isr()
        self._schedule_shrink()

    # Requests, one after another

    def leader_and_isr(self, request: Any, version: int, then: Then) -> None:
        """Carry out the request, and call back with the answer to it; that may be before this returns."""
        self._order(lambda done: self._begin_leader_and_isr(request, version, then, done))

    def stop_replica(self, request: Any, version: int, then: Then) -> None:
        """Carry out the request, and call back with the answer to it; that may be before this returns."""
        self._order(lambda done: self._in_slices(self._stop_replica(request, version), then, done))

    def _in_slices(self, steps: Generator[None, None, Answer], then: Then, done: Callable[[], None]) -> None:
        """Answer with what the last step returns, and go on with the next request."""

        def answered() -> Generator[None, None, None]:
            # A bug in one request must not stop all requests after it.
            try:
                then((yield from steps))
            except Exception:
                done()
                raise
            done()

        directories = self._partitions.log_directories
        in_slices(answered(), self._clock, self._scheduler, goes_on=lambda: not directories.is_closed)

    def _order(self, order: Callable[[Callable[[], None]], None]) -> None:
        self._orders.append(order)
        if len(self._orders) == 1:
            order(self._done)

    def _done(self) -> None:
        self._orders.popleft()
        if self._orders:
            self._orders[0](self._done)

    # LeaderAndIsr

    def _begin_leader_and_isr(self, request: Any, version: int, then: Then, done: Callable[[], None]) -> None:
        told = _role_orders_of(request, version)
        new_topics = list(dict.fromkeys(each.topic for each in told if self._partitions.topic(each.topic) is None))

        def carry_out(configs: Mapping[str, Overrides]) -> None:
            self._in_slices(self._leader_and_isr(request, version, told, configs), then, done)

        if new_topics:
            self._read_topic_configs(new_topics, carry_out)
        else:
            carry_out({})

    def _leader_and_isr(
        self, request: Any, version: int, told: Sequence[_RoleOrder], configs: Mapping[str, Overrides]
    ) -> Generator[None, None, Answer]:
        """Change roles, some partitions in a step. A controller that is deposed meanwhile is obeyed no further."""
        outcomes: list[ErrorCode] = []
        led = followed = 0
        while True:
            error = self._epochs.obey(request.controller_epoch, request.broker_epoch if version >= 2 else -1)
            if error:
                _logger.warning("LeaderAndIsr of controller %d is refused: %s", request.controller_id, error.name)
                outcomes += [error] * (len(told) - len(outcomes))
                break
            piece = told[len(outcomes) : len(outcomes) + _PARTITIONS_OF_A_STEP]
            changed = self._change_roles(piece, configs, outcomes)
            led += sum(partition.is_leader for partition in changed)
            followed += sum(not partition.is_leader for partition in changed)
            if len(outcomes) == len(told):
                break
            yield
        if led or followed:
            _logger.info("told to lead %d partitions and to follow %d", led, followed)
        return _leader_and_isr_answer(error, told, outcomes, version)

    def _change_roles(
        self, told: Sequence[_RoleOrder], configs: Mapping[str, Overrides], outcomes: list[ErrorCode]
    ) -> list[Partition]:
        """Append the outcome of each; return the partitions that changed."""
        followed: dict[int, list[Partition]] = {}
        changed: list[Partition] = []
        for each in told:
            partition = self._partition_for(each, configs)
            if isinstance(partition, ErrorCode):
                outcomes.append(partition)
                continue
            # A fetch of the old epoch that is under way must not append in the new epoch.
            self._fetchers.remove([partition])
            if each.state.leader == self.broker_id:
                partition.become_leader(each.state, each.replicas, each.adding, each.removing)
            else:
                partition.become_follower(each.state, each.replicas, each.adding, each.removing)
                if not self._is_closed and each.state.leader >= 0:
                    followed.setdefault(each.state.leader, []).append(partition)
            changed.append(partition)
            outcomes.append(ErrorCode.none)
        for leader, partitions in followed.items():
            self._fetchers.add(leader, partitions)
        for partition in changed:
            if partition.is_leader:
                self._on_leader(partition.topic, partition.index, partition.leader_epoch)
            else:
                self._on_follower(partition.topic, partition.index)
        return changed

    def _partition_for(self, told: _RoleOrder, configs: Mapping[str, Overrides]) -> Partition | ErrorCode:
        """The replica whose role changes, made if it is new; an error if nothing changes."""
        topic = self._partitions.topic(told.topic)
        if topic is not None and told.topic_id != ZERO_UUID and topic.topic_id != told.topic_id:
            _logger.error(
                "%s-%d is of topic id %s here, and the controller says %s",
                *(told.topic, told.partition, topic.topic_id, told.topic_id),
            )
            return ErrorCode.inconsistent_topic_id
        partition = None if topic is None else topic.partitions.get(told.partition)
        if partition is not None:
            if partition.has_failed:
                return ErrorCode.kafka_storage_error
            if told.state.leader_epoch <= partition.leader_epoch:
                return ErrorCode.stale_controller_epoch
        if self.broker_id not in told.replicas:
            return ErrorCode.unknown_topic_or_partition
        if partition is not None:
            return partition
        return self._partitions.open_replica(
            told.topic,
            told.topic_id,
            told.partition,
            configs.get(told.topic, {}),
            self,
            is_new=told.is_new,
            leads=told.state.leader == self.broker_id,
        )

    # StopReplica

    def _stop_replica(self, request: Any, version: int) -> Generator[None, None, Answer]:
        """Stop replicas, a step for each."""
        stops = _stop_orders_of(request, version)
        error = self._epochs.obey(request.controller_epoch, request.broker_epoch if version >= 1 else -1)
        if error:
            _logger.warning("StopReplica of controller %d is refused: %s", request.controller_id, error.name)
        errors = []
        for stop in stops:
            outcome = error or self._stop(stop)
            told = {"topic_name": stop.topic, "partition_index": stop.partition, "error_code": outcome}
            errors.append(told)
            yield
        if not error:
            deleted = {stop.topic for stop in stops if stop.deletes}
            failed = {topic for topic in deleted if not self._has_deleted(topic)}
            for stop, told in zip(stops, errors, strict=True):
                if stop.deletes and stop.topic in failed:
                    told["error_code"] = told["error_code"] or ErrorCode.kafka_storage_error
        return {"error_code": error, "partition_errors": errors}

    def _has_deleted(self, topic: str) -> bool:
        """Whether the replicas of a topic that were deleted will be gone after a power cut too."""
        try:
            self._partitions.finish_deletions(topic)
        except OSError as error:
            _logger.error("logs of %s cannot be deleted: %s", topic, error)
            return False
        return True

    def _stop(self, stop: _StopOrder) -> ErrorCode:
        partition = self._partitions.find(stop.topic, stop.partition)
        if partition is not None:
            if partition.has_failed:
                return ErrorCode.kafka_storage_error
            goes_for_any_epoch = stop.leader_epoch in (NO_LEADER_EPOCH, EPOCH_DURING_DELETE)
            if not goes_for_any_epoch and stop.leader_epoch < partition.leader_epoch:
                return ErrorCode.fenced_leader_epoch
            self._fetchers.remove([partition])
        if not stop.deletes:
            return ErrorCode.none
        try:
            self._partitions.delete_replica(stop.topic, stop.partition)
        except OSError as error:
            _logger.error("the log of %s-%d cannot be deleted: %s", stop.topic, stop.partition, error)
            return ErrorCode.kafka_storage_error
        self._on_follower(stop.topic, stop.partition)
        return ErrorCode.none

    # Log directories

    def _directory_failed(self, partitions: Iterable[Partition]) -> None:
        """These partitions were in a log directory that failed, and have ended."""
        failed = list(partitions)
        self._fetchers.remove(failed)
        for partition in failed:
            self._on_follower(partition.topic, partition.index)


def _role_orders_of(request: Any, version: int) -> list[_RoleOrder]:
    if version >= 2:
        states = [
            (topic.topic_name, (topic.topic_id if version >= 5 else None) or ZERO_UUID, state)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
    else:
        states = [(state.topic_name, ZERO_UUID, state) for state in request.ungrouped_partition_states]
    return [
        _RoleOrder(
            name,
            topic_id,
            state.partition_index,
            LeaderAndIsr(
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                state.controller_epoch,
                state.partition_epoch,
                version >= 6 and bool(state.leader_recovery_state),
            ),
            tuple(state.replicas),
            tuple(state.adding_replicas) if version >= 3 else (),
            tuple(state.removing_replicas) if version >= 3 else (),
            version >= 1 and state.is_new,
        )
        for name, topic_id, state in states
    ]


def _leader_and_isr_answer(
    error: ErrorCode, told: Sequence[_RoleOrder], outcomes: Sequence[ErrorCode], version: int
) -> Answer:
    if version < 5:
        return {
            "error_code": error,
            "partition_errors": [
                {"topic_name": each.topic, "partition_index": each.partition, "error_code": outcome}
                for each, outcome in zip(told, outcomes, strict=True)
            ],
        }
    topics: dict[UUID, list[Answer]] = {}
    for each, outcome in zip(told, outcomes, strict=True):
        topics.setdefault(each.topic_id, []).append({"partition_index": each.partition, "error_code": outcome})
    return {
        "error_code": error,
        "topics": [{"topic_id": topic_id, "partition_errors": errors} for topic_id, errors in topics.items()],
    }


def _stop_orders_of(request: Any, version: int) -> list[_StopOrder]:
    if version >= 3:
        return [
            _StopOrder(topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
    if version >= 1:
        keys = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    else:
        keys = [(partition.topic_name, partition.partition_index) for partition in request.ungrouped_partitions]
    return [_StopOrder(name, index, NO_LEADER_EPOCH, request.delete_partitions) for name, index in keys]
