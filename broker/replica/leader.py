"""The role of a replica that leads its partition: high watermark; shrinks and expands the ISR.

    event                                              effect
    a follower fetches (`follower_fetched`)            the high watermark may advance; the ISR may expand
    a follower lags for too long (`shrink_isr`)        a smaller ISR is proposed to the controller
    the controller answers (`isr_change_answered`)     the ISR changes, or stays; the high watermark may advance
    this log is safer (`safe_end_moved`)               the high watermark may advance

Invariants:
- The high watermark passes only records that every replica has that the controller may have in the ISR now. So every
  replica that can be elected has all records that consumers could read, but for an unclean election.
- The high watermark waits while the ISR is smaller than `min.insync.replicas` (Kafka 3.9).

One object lives as long as its broker leads the partition in one leader epoch. (Apache Kafka, Partition.scala.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import LeaderAndIsr
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.replica.follower_progress import FollowerProgress, Followers
from highwater.broker.replica.in_sync_changes import InSyncChange
from highwater.broker.replica.waiters import Acknowledge

_logger = logging.getLogger(__name__)

_DID_NOT_HAPPEN: Final = (ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica)
_OUTCOME_IS_UNKNOWN: Final = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.invalid_update_version,
    ErrorCode.invalid_request,
    ErrorCode.new_leader_elected,
)
"""Errors that leave open whether the controller made the change: both ISRs count until LeaderAndIsr comes."""


class LeadersBroker(Protocol):
    """What a leader needs of its broker."""

    broker_id: int
    lag_time_max_ms: int

    def monotonic_ms(self) -> int: ...

    def may_be_in_sync(self, broker_id: int) -> bool:
        """Whether the broker lives, so that the controller would take its replica into the ISR."""

    def submit(self, change: InSyncChange, answered: Callable[[InSyncChange, LeaderAndIsr | ErrorCode], int]) -> None:
        """Ask the controller for a change. `answered` gets the answer, and returns how many replicas the ISR gained."""


class LedPartition(Protocol):
    """The part of `broker.replica.partition.Partition` that this role needs."""

    topic: str
    topic_id: UUID
    index: int
    log: PartitionLog
    leader_epoch: int
    partition_epoch: int
    replicas: list[int]
    in_sync_replicas: list[int]
    min_in_sync_replicas: int
    high_watermark: int
    safe_end_offset: int

    def advance_high_watermark(self, offset: int) -> None: ...


class Leader:
    is_leader = True

    __slots__ = ("_broker", "_has_ended", "_partition", "_when_low", "epoch_start_offset", "followers")

    def __init__(self, partition: LedPartition, broker: LeadersBroker, before: Leader | None) -> None:
        """`partition` has the state of its new leader epoch. `before` is the role before, if this broker was the leader
        too: its requests that wait for the low watermark continue to wait.
        """
        end_offset = partition.log.log_end_offset
        self.epoch_start_offset = end_offset
        """The end of the log when this broker began to lead in this epoch."""
        others = [replica for replica in partition.replicas if replica != broker.broker_id]
        self.followers = Followers(others, partition.in_sync_replicas, end_offset, broker.monotonic_ms())
        self._partition = partition
        self._broker = broker
        self._when_low: list[tuple[int, Acknowledge]] = [] if before is None else before._when_low
        self._has_ended = False

    def end(self, error: ErrorCode) -> None:
        """The role is over: requests that wait get `error`, and answers of the controller change nothing any more."""
        self._has_ended = True
        when_low, self._when_low = self._when_low, []
        for _, then in when_low:
            then(error)

    # High watermark

    def safe_end_moved(self) -> None:
        self.recompute_high_watermark()

    def recompute_high_watermark(self) -> None:
        """Advance the high watermark as far as the followers allow.

        Call this too when a follower may not count any more, as its broker is gone or lags for too long: there is no
        fetch that would show it, and producers that wait for an answer send nothing more.
        """
        partition, followers, broker = self._partition, self.followers, self._broker
        if len(followers.in_sync) < partition.min_in_sync_replicas:
            return
        log_end_offset = partition.log.log_end_offset
        offset = followers.replicated_offset(
            partition.safe_end_offset,
            log_end_offset,
            broker.monotonic_ms(),
            broker.lag_time_max_ms,
            broker.may_be_in_sync,
        )
        partition.advance_high_watermark(min(offset, log_end_offset))

    @property
    def has_caught_up_with_consumers(self) -> bool:
        """Whether the high watermark has reached the offset up to which consumers may have read before (KIP-207)."""
        return self._partition.high_watermark >= self.epoch_start_offset

    def is_follower(self, broker_id: int) -> bool:
        return self.followers.get(broker_id) is not None

    def follower_fetched(self, broker_id: int, offset: int, log_start_offset: int) -> None:
        """A follower fetches from `offset`, so it has all records below. ValueError if the broker does not follow."""
        partition, followers, broker = self._partition, self.followers, self._broker
        follower = followers.get(broker_id)
        if follower is None:
            raise ValueError(f"broker {broker_id} does not follow {partition.topic}-{partition.index} here")
        is_further = offset != follower.log_end_offset
        follower.fetched(offset, log_start_offset, partition.log.log_end_offset, broker.monotonic_ms())
        if (
            broker_id not in followers.maximal
            and followers.proposed is None
            and offset >= partition.high_watermark
            and offset >= self.epoch_start_offset
            and broker.may_be_in_sync(broker_id)
        ):
            self._expand_isr(broker_id)
        if is_further:
            self.recompute_high_watermark()
        if self._when_low:
            self._look_at_low_watermark()

    def awaits_fetch_of(self, follower: FollowerProgress) -> bool:
        """Whether the next fetch of this follower may do more than to show that it lives: it may join the ISR, or let
        the low watermark be seen to have moved.
        """
        return bool(self._when_low) or follower.broker_id not in self.followers.maximal

    # In-sync replicas

    def _expand_isr(self, broker_id: int) -> None:
        """Propose an ISR with one more follower."""
        self._propose_isr((*self.followers.in_sync, broker_id))

    def shrink_isr(self) -> None:
        """Propose an ISR without the followers that lag for longer than `replica.lag.time.max.ms`.

        Call it every half of that time.
        """
        partition, followers, broker = self._partition, self.followers, self._broker
        self.recompute_high_watermark()
        if self._when_low:
            self._look_at_low_watermark()
        if followers.proposed is not None:
            return
        end_offset = partition.log.log_end_offset
        stragglers = followers.stragglers(end_offset, broker.monotonic_ms(), broker.lag_time_max_ms)
        if stragglers:
            _logger.warning(
                "%s-%d: shrinks the ISR: replicas %s have not reached offset %d for %d ms",
                *(partition.topic, partition.index, stragglers, end_offset, broker.lag_time_max_ms),
            )
            self._propose_isr(tuple(replica for replica in followers.in_sync if replica not in stragglers))

    def _propose_isr(self, in_sync: tuple[int, ...]) -> None:
        partition = self._partition
        self.followers.propose(in_sync)
        change = InSyncChange(
            partition.topic,
            partition.topic_id,
            partition.index,
            partition.leader_epoch,
            in_sync,
            partition.partition_epoch,
        )
        self._broker.submit(change, self.isr_change_answered)

    def isr_change_answered(self, change: InSyncChange, answer: LeaderAndIsr | ErrorCode) -> int:
        """Take the controller's answer to a proposal; return how many replicas the ISR gained (negative: lost)."""
        partition, followers = self._partition, self.followers
        if (
            self._has_ended
            or followers.proposed != change.in_sync_replicas
            or (change.leader_epoch, change.partition_epoch) != (partition.leader_epoch, partition.partition_epoch)
        ):
            return 0  # LeaderAndIsr changed the state of the partition meanwhile.
        if isinstance(answer, ErrorCode):
            if answer in _DID_NOT_HAPPEN:
                followers.withdraw()
                self.recompute_high_watermark()
            elif answer not in _OUTCOME_IS_UNKNOWN:
                self._broker.submit(change, self.isr_change_answered)
            return 0
        if answer.leader_epoch != partition.leader_epoch or answer.partition_epoch < partition.partition_epoch:
            return 0
        growth = len(answer.in_sync_replicas) - len(partition.in_sync_replicas)
        partition.partition_epoch = answer.partition_epoch
        followers.commit(answer.in_sync_replicas)
        partition.in_sync_replicas = list(answer.in_sync_replicas)
        _logger.info("%s-%d: in sync are %s", partition.topic, partition.index, partition.in_sync_replicas)
        self.recompute_high_watermark()
        return growth

    # Low watermark

    @property
    def low_watermark(self) -> int:
        """The offset where the log starts on all replicas whose brokers live."""
        start = self._partition.log.log_start_offset
        for follower in self.followers:
            if follower.log_start_offset < start and self._broker.may_be_in_sync(follower.broker_id):
                start = follower.log_start_offset
        return start

    def when_low(self, offset: int, then: Acknowledge) -> None:
        """Call back once the low watermark is at `offset` or later; at once if it is."""
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
