"""One replica of a partition of a cluster: its leader's, or a follower's.

    role        told by LeaderAndIsr          appended by            high watermark
    leader      it is this broker             producers              what all in sync have, as their fetches tell
    follower    it is another                 the leader's answers   the leader's, as far as the log reaches
    (none yet)  nothing was told              nobody                 as the last run's checkpoint has it

Invariants, beyond those of `Partition`:
- A leader takes what it knew of the high watermark into its epoch, and lets it pass only what every replica has that
  may be in sync, by what the controller did or is about to do. So what consumers were shown is on every replica that
  can be elected, but by an unclean election.
- The high watermark waits while fewer replicas are in sync than `min.insync.replicas` asks (Kafka 3.9).
- A log that must be flushed first (flush.messages) counts, on either side, only as far as it is flushed: a follower
  does not fetch on before that, so the offset it fetches from promises no more.
- Who waits for a leader is told NOT_LEADER_OR_FOLLOWER when it leads no longer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import NO_LEADER, LeaderAndIsr
from highwater.broker.log.partition_log import Appended, PartitionLog
from highwater.broker.metrics.counters import TopicCounters
from highwater.broker.protocol.frame import Part
from highwater.broker.records.batch import WritableBuffer
from highwater.broker.records.produced import RefusedRecords
from highwater.broker.records.record import TransactionMarker
from highwater.broker.replica.followers import Followers
from highwater.broker.replica.in_sync_changes import InSyncChange
from highwater.broker.replica.partition import Acknowledge, Partition, Verify
from highwater.broker.replica.waiters import FetchWaiter

_logger = logging.getLogger(__name__)

NO_EPOCH: Final = -1

_DID_NOT_HAPPEN: Final = (ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica)
_LEADER_AND_ISR_WILL_TELL: Final = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.invalid_update_version,
    ErrorCode.invalid_request,
    ErrorCode.new_leader_elected,
)
"""Whether the controller did what was proposed is not known, so both sets count until it tells the state anew."""


class Replication(Protocol):
    """What a replica asks of its broker."""

    broker_id: int
    lag_time_max_ms: int

    def monotonic_ms(self) -> int: ...

    def may_be_in_sync(self, broker_id: int) -> bool:
        """Whether the controller would have a replica there in sync: the broker lives."""

    def log_was_cut(self, partition: ReplicatedPartition) -> None:
        """Records of it are gone."""

    def replicated(self, size_bytes: int) -> None:
        """So much came from a leader."""

    def submit(self, partition: ReplicatedPartition, change: InSyncChange) -> None:
        """Ask the controller for a change; `in_sync_answered` is called with what it says."""


class ReplicatedPartition(Partition):
    __slots__ = (
        "_kept_acknowledgements",
        "_min_in_sync_setting",
        "_replication",
        "_sizes",
        "_when_kept",
        "_when_low",
        "adding",
        "epoch_start_offset",
        "followers",
        "is_leader",
        "kept_end_offset",
        "leader",
        "partition_epoch",
        "removing",
        "replica_waiters",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        log: PartitionLog,
        *,
        high_watermark: int,
        min_in_sync_replicas: int,
        replication: Replication,
        request_flush: Callable[[Partition], None],
        storage_failed: Callable[[OSError, Partition], None],
        counters: TopicCounters,
    ) -> None:
        """`high_watermark` as it was checkpointed: a log that lost its end since reaches less far."""
        self.topic_id = topic_id
        self.leader = NO_LEADER
        self.partition_epoch = NO_EPOCH
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.is_leader = False
        self.followers: Followers | None = None
        """While this broker leads."""
        self.epoch_start_offset = 0
        """Where the log ended when this broker began to lead in the present epoch."""
        self.replica_waiters: set[FetchWaiter] = set()
        """Fetches of followers that wait for the log to grow."""
        self._replication = replication
        self._sizes: deque[tuple[int, int, int]] = deque()
        """(first offset, next offset, bytes appended up to that) of what the high watermark has not passed."""
        self._kept_acknowledgements: deque[tuple[int, Acknowledge]] = deque()
        self._when_kept: list[Callable[[], None]] = []
        self._when_low: list[tuple[int, Acknowledge]] = []
        super().__init__(
            topic,
            index,
            log,
            leader_epoch=NO_EPOCH,
            replicas=[],
            min_in_sync_replicas=min_in_sync_replicas,
            request_flush=request_flush,
            storage_failed=storage_failed,
            counters=counters,
            high_watermark=high_watermark,
        )
        self.kept_end_offset = log.safe_end_offset
        """All below is here as safely as the topic wants it."""

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last record; -1 if there is none."""
        return self.log.leader_epochs.latest

    @property
    def has_caught_up_with_consumers(self) -> bool:
        return not self.is_leader or self.high_watermark >= self.epoch_start_offset

    def require_in_sync(self, count: int) -> None:
        # No more than there are replicas (Partition.effectiveMinIsr).
        super().require_in_sync(min(count, max(len(self.replicas), 1)))
        self._min_in_sync_setting = count

    def check_leader_epoch(self, epoch: int, *, needs_leader: bool = True) -> ErrorCode:
        error = super().check_leader_epoch(epoch)
        return ErrorCode.not_leader_or_follower if not error and needs_leader and not self.is_leader else error

    # Roles

    def become_leader(
        self, state: LeaderAndIsr, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
    ) -> None:
        """Lead in a later epoch than before."""
        end_offset = self.log.log_end_offset
        self._take_up(state, replicas, adding, removing)
        self.in_sync_replicas = list(state.in_sync_replicas)
        self.epoch_start_offset = end_offset
        others = [replica for replica in replicas if replica != self._replication.broker_id]
        self.followers = Followers(others, state.in_sync_replicas, end_offset, self._replication.monotonic_ms())
        self.is_leader = True
        self._wake_all()
        self._advance_as_leader()

    def become_follower(
        self, state: LeaderAndIsr, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
    ) -> None:
        """Follow `state.leader`, or nobody if there is none, in a later epoch than before."""
        self.is_leader = False
        self.followers = None
        self._take_up(state, replicas, adding, removing)
        # Only its leader knows who is in sync.
        self.in_sync_replicas = []
        self._wake_all()
        self._refuse_waiting(ErrorCode.not_leader_or_follower)

    def _take_up(
        self, state: LeaderAndIsr, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
    ) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = list(replicas)
        self.adding = adding
        self.removing = removing
        self.require_in_sync(self._min_in_sync_setting)

    def _wake_all(self) -> None:
        for waiter in (*self.fetch_waiters, *self.replica_waiters):
            waiter.wake()

    def _refuse_waiting(self, error: ErrorCode) -> None:
        for waiting in (self._acknowledgements, self._kept_acknowledgements):
            while waiting:
                waiting.popleft()[1](error)
        when_low, self._when_low = self._when_low, []
        for _, then in when_low:
            then(error)
        self._call_those_who_wait_for_the_flush()

    def end(self, error: ErrorCode) -> None:
        self.is_leader = False
        self.followers = None
        self.has_ended = True
        self._wake_all()
        self._refuse_waiting(error)

    # Leading

    def append(
        self,
        records: WritableBuffer | None,
        acks: int,
        now_ms: int,
        *,
        verify: Verify | None = None,
        by_coordinator: bool = False,
    ) -> Appended | ErrorCode | RefusedRecords:
        if not (self.is_leader or self.has_failed):
            return ErrorCode.not_leader_or_follower
        return super().append(records, acks, now_ms, verify=verify, by_coordinator=by_coordinator)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> Appended | ErrorCode:
        if not (self.is_leader or self.has_failed):
            return ErrorCode.not_leader_or_follower
        return super().append_marker(marker, now_ms)

    def _appended(self, appended: Appended, size_bytes: int) -> None:
        self._sizes.append((appended.base_offset, appended.last_offset + 1, self._appended_bytes + size_bytes))
        super()._appended(appended, size_bytes)
        if self.replica_waiters:
            for waiter in tuple(self.replica_waiters):
                waiter.bytes_added(size_bytes)

    def is_acknowledged(self, last_offset: int, acks: int = -1) -> bool:
        return last_offset < (self.high_watermark if acks == -1 else self.kept_end_offset)

    def when_acknowledged(self, last_offset: int, acknowledge: Acknowledge, acks: int = -1) -> None:
        (self._acknowledgements if acks == -1 else self._kept_acknowledgements).append((last_offset, acknowledge))

    def _kept_to(self, offset: int) -> None:
        self.kept_end_offset = max(self.kept_end_offset, offset)
        waiting = self._kept_acknowledgements
        while waiting and waiting[0][0] < offset:
            waiting.popleft()[1](ErrorCode.none)
        if self.is_leader:
            self._advance_as_leader()
        elif self.kept_end_offset >= self.log.log_end_offset:
            self._call_those_who_wait_for_the_flush()

    def _advance_as_leader(self) -> None:
        followers, replication = self.followers, self._replication
        assert followers is not None
        if len(followers.in_sync) < self.min_in_sync_replicas:
            return
        offset = followers.replicated_offset(
            self.kept_end_offset,
            self.log.log_end_offset,
            replication.monotonic_ms(),
            replication.lag_time_max_ms,
            replication.may_be_in_sync,
        )
        self._advance_high_watermark(min(offset, self.log.log_end_offset))

    def _advance_high_watermark(self, offset: int) -> None:
        super()._advance_high_watermark(offset)
        sizes = self._sizes
        while sizes and sizes[0][1] <= self.high_watermark:
            sizes.popleft()

    def _bytes_below(self, offset: int) -> int:
        before = told = self._published_bytes
        for first_offset, next_offset, size_bytes in self._sizes:
            if first_offset >= offset:
                break
            told = size_bytes
            if next_offset <= offset:
                self._published_bytes = size_bytes
        return told - before

    def follower_fetched(self, broker_id: int, offset: int, log_start_offset: int) -> None:
        """One of the followers fetches from `offset`, so it has all below."""
        followers, replication = self.followers, self._replication
        follower = None if followers is None else followers.get(broker_id)
        if followers is None or follower is None:
            raise ValueError(f"broker {broker_id} does not follow {self.topic}-{self.index} here")
        is_further = offset != follower.log_end_offset
        follower.fetched(offset, log_start_offset, self.log.log_end_offset, replication.monotonic_ms())
        if (
            broker_id not in followers.maximal
            and followers.proposed is None
            and offset >= self.high_watermark
            and offset >= self.epoch_start_offset
            and replication.may_be_in_sync(broker_id)
        ):
            self._propose((*followers.in_sync, broker_id))
        if is_further:
            self._advance_as_leader()
        if self._when_low:
            self._look_at_low_watermark()

    def look_at_high_watermark(self) -> None:
        """Who held it back may count no longer: it is gone, or was not heard of for too long.

        Its absence is no fetch that would show it, and producers that wait for their answer send nothing more.
        """
        if self.is_leader:
            self._advance_as_leader()

    def waiters(self, *, for_followers: bool) -> set[FetchWaiter]:
        return self.replica_waiters if for_followers else self.fetch_waiters

    def is_replica(self, broker_id: int) -> bool:
        """Whether it is one of this leader's followers."""
        return self.followers is not None and self.followers.get(broker_id) is not None

    # Who is in sync

    def look_for_stragglers(self) -> None:
        """Propose to go on without those that fell behind; to be called every now and then."""
        followers, replication = self.followers, self._replication
        if followers is None:
            return
        self.look_at_high_watermark()
        if self._when_low:
            self._look_at_low_watermark()
        if followers.proposed is not None:
            return
        end_offset = self.log.log_end_offset
        stragglers = followers.stragglers(end_offset, replication.monotonic_ms(), replication.lag_time_max_ms)
        if stragglers:
            _logger.warning(
                "%s-%d goes on without the replicas %s, which have not come to offset %d for %d ms",
                *(self.topic, self.index, stragglers, end_offset, replication.lag_time_max_ms),
            )
            self._propose(tuple(replica for replica in followers.in_sync if replica not in stragglers))

    def _propose(self, in_sync: tuple[int, ...]) -> None:
        assert self.followers is not None
        self.followers.propose(in_sync)
        change = InSyncChange(self.topic, self.topic_id, self.index, self.leader_epoch, in_sync, self.partition_epoch)
        self._replication.submit(self, change)

    def in_sync_answered(self, change: InSyncChange, answer: LeaderAndIsr | ErrorCode) -> None:
        followers = self.followers
        if (
            followers is None
            or followers.proposed != change.in_sync_replicas
            or (change.leader_epoch, change.partition_epoch) != (self.leader_epoch, self.partition_epoch)
        ):
            return  # It was told of the partition's state in another way meanwhile.
        if isinstance(answer, ErrorCode):
            if answer in _DID_NOT_HAPPEN:
                followers.withdraw()
                self._advance_as_leader()
            elif answer not in _LEADER_AND_ISR_WILL_TELL:
                self._replication.submit(self, change)
            return
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return
        self.partition_epoch = answer.partition_epoch
        followers.commit(answer.in_sync_replicas)
        self.in_sync_replicas = list(answer.in_sync_replicas)
        _logger.info("%s-%d: in sync are %s", self.topic, self.index, self.in_sync_replicas)
        self._advance_as_leader()

    # Deleting records

    @property
    def low_watermark(self) -> int:
        """Where the log starts on all replicas that live."""
        start = self.log.log_start_offset
        for follower in self.followers or ():
            if follower.log_start_offset < start and self._replication.may_be_in_sync(follower.broker_id):
                start = follower.log_start_offset
        return start

    def when_low(self, offset: int, then: Acknowledge) -> None:
        """Call back once the log starts at `offset` or later on all replicas; at once if it does."""
        if self.low_watermark >= offset:
            then(ErrorCode.none)
        else:
            self._when_low.append((offset, then))

    def _look_at_low_watermark(self) -> None:
        low_watermark = self.low_watermark
        due = [then for offset, then in self._when_low if offset <= low_watermark]
        self._when_low = [waiting for waiting in self._when_low if waiting[0] > low_watermark]
        for then in due:
            then(ErrorCode.none)

    # Following

    def append_as_follower(self, records: Part, high_watermark: int, log_start_offset: int, now_ms: int) -> None:
        """Append what the leader has after our log's end, maybe nothing, and take over its high watermark as far as our
        log reaches, and its log start offset.

        Raises CorruptBatch for records that cannot be taken, OSError.
        """
        log = self.log
        if len(records):
            first_offset = log.log_end_offset
            try:
                size_bytes = log.append_as_follower(records, now_ms)
            except OSError as failure:
                self._append_failed(failure, now_ms)
                raise
            self._appended_bytes += size_bytes
            self._replication.replicated(size_bytes)
            self._sizes.append((first_offset, log.log_end_offset, self._appended_bytes))
            safe_end_offset = log.safe_end_offset
            if safe_end_offset == log.log_end_offset:
                self.kept_end_offset = safe_end_offset
            else:
                self._request_flush(self)
        self._advance_high_watermark(min(high_watermark, log.log_end_offset))
        if log_start_offset > log.log_start_offset:
            log.advance_log_start_offset(min(log_start_offset, self.high_watermark))

    def call_when_kept(self, then: Callable[[], None]) -> bool:
        """Whether the leader may be told of the log's end now. If not (it is to be flushed first), call back then."""
        if self.kept_end_offset >= self.log.log_end_offset:
            return True
        self._when_kept.append(then)
        return False

    def _call_those_who_wait_for_the_flush(self) -> None:
        when_kept, self._when_kept = self._when_kept, []
        for then in when_kept:
            then()

    def truncate_to(self, offset: int) -> None:
        """Drop the records from `offset` on: the leader does not have them."""
        if offset < self.log.log_end_offset:
            if offset < self.high_watermark:
                _logger.warning(
                    "%s-%d is cut at offset %d, below its high watermark %d",
                    *(self.topic, self.index, offset, self.high_watermark),
                )
            self._cut(self.log.truncate_to, offset)

    def truncate_fully(self, offset: int) -> None:
        """Drop all records; the log begins at `offset`."""
        self._cut(self.log.truncate_fully, offset)

    def _cut(self, cut: Callable[[int], None], offset: int) -> None:
        try:
            cut(offset)
        except OSError as failure:
            # Some of it may be done: what the log holds is not known any more.
            self._storage_failed(failure, self)
            raise
        end_offset = self.log.log_end_offset
        self.high_watermark = max(min(self.high_watermark, end_offset), self.log.log_start_offset)
        self.kept_end_offset = min(self.kept_end_offset, end_offset)
        self._sizes.clear()
        self._transaction_starts.clear()
        self._published_bytes = self._stable_bytes = self._appended_bytes
        self.log.producer_states.high_watermark_moved(self.high_watermark)
        self._stable_offset = self.last_stable_offset
        self._replication.log_was_cut(self)
        if self.kept_end_offset >= end_offset:
            self._call_those_who_wait_for_the_flush()
