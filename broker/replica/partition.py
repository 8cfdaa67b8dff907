"""One replica of a partition: its log, its role, its high watermark, and who waits for that.

    role        given by                      appended by            high watermark
    Alone       the broker runs alone         producers              what is safe here
    Leader      LeaderAndIsr                  producers              what all in-sync replicas have
    Follower    LeaderAndIsr; until it comes  the leader's answers   the leader's, as far as the log reaches

Invariants:
- log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset. Only the truncation of a follower's log
  moves one of them back.
- A consumer reads only below the high watermark, a consumer of committed records only below the last stable offset.
- A produce with `acks=-1` is acknowledged when the high watermark has passed its records, one with `acks=1` when they
  are safe here: at once, or after the fsync if the topic asks for that (flush.messages).
- The high watermark stays when a role changes. Requests that wait for a leader get NOT_LEADER_OR_FOLLOWER when it stops
  to lead.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import LeaderAndIsr
from highwater.broker.counters import TopicCounters
from highwater.broker.log.files import MAY_PASS
from highwater.broker.log.partition_log import Appended, PartitionLog
from highwater.broker.replica.alone import Alone
from highwater.broker.replica.follower import Follower
from highwater.broker.replica.leader import Leader, LeadersBroker
from highwater.broker.replica.readable_bytes import ReadableBytes
from highwater.broker.replica.waiters import Acknowledge, Waiters
from highwater.kafka.protocol.frame import Part
from highwater.kafka.protocol.produce_run import NO_ERROR, PartitionRun
from highwater.kafka.records.batch import BatchHeader, TimestampType, WritableBuffer, is_credible, validate_produced
from highwater.kafka.records.produced import RefusedRecords, UnfoldBudget, conform, with_true_max_timestamp
from highwater.kafka.records.record import TransactionMarker
from highwater.kafka.records.record_times import HeaderBudget

_logger = logging.getLogger(__name__)

REPORT_FAILURES_MS: Final = 10_000
"""A full disk refuses thousands of batches a second; one line in so many milliseconds reports how many."""

NO_EPOCH: Final = -1

Verify = Callable[[int, int], ErrorCode]
"""Asks whether the coordinator of a producer (id, epoch) has this partition in its transaction (KIP-890)."""


class Replication(LeadersBroker, Protocol):
    """What a replica needs of its broker."""

    def log_was_truncated(self, partition: Partition) -> None:
        """Its log was truncated."""

    def replicated(self, size_bytes: int) -> None:
        """Count bytes that were received from a leader and appended."""


class Partition:
    __slots__ = (
        "_acknowledgements",
        "_bytes",
        "_failed_appends",
        "_failure_reported_ms",
        "_leader_acknowledgements",
        "_min_in_sync_setting",
        "_replication",
        "_request_flush",
        "_stable_offset",
        "_storage_failed",
        "adding",
        "counters",
        "fetch_waiters",
        "has_ended",
        "has_failed",
        "high_watermark",
        "in_sync_replicas",
        "index",
        "is_leader",
        "leader_epoch",
        "log",
        "min_in_sync_replicas",
        "partition_epoch",
        "removing",
        "replica_waiters",
        "replicas",
        "role",
        "safe_end_offset",
        "topic",
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
        request_flush: Callable[[Partition], None],
        storage_failed: Callable[[OSError, Partition], None],
        counters: TopicCounters,
        replication: Replication | None = None,
        leader_epoch: int = NO_EPOCH,
        replicas: Sequence[int] = (),
    ) -> None:
        """A partition without `replication` is of a broker that runs alone, and leads in `leader_epoch`.

        `high_watermark` may be past the end of a log that lost records in a crash. `counters` are the topic's.
        """
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.counters = counters
        self._request_flush = request_flush
        self._storage_failed = storage_failed
        self._replication = replication
        self._take_role(Alone(self) if replication is None else Follower(self))
        self.leader_epoch = leader_epoch
        self.partition_epoch = NO_EPOCH
        self.replicas = list(replicas)
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.in_sync_replicas = list(replicas)
        """The ISR; only the leader knows it."""
        self.require_in_sync(min_in_sync_replicas)
        self.has_ended = False
        self.has_failed = False
        """Whether its log directory failed: nothing can be read or written until the broker starts again."""
        self.fetch_waiters: Waiters = {}
        """Fetches of consumers that wait for the high watermark or the last stable offset."""
        self.replica_waiters: Waiters = {}
        """Fetches of followers that wait for the log to grow."""
        self._acknowledgements: deque[tuple[int, Acknowledge]] | None = None
        """(last offset, callback): the callback waits for the high watermark to pass the offset. None before any."""
        self._leader_acknowledgements: deque[tuple[int, Acknowledge]] | None = None
        """The same for `safe_end_offset`."""
        self._failed_appends = self._failure_reported_ms = 0
        self._bytes = ReadableBytes()
        self.safe_end_offset = log.safe_end_offset
        """The largest `log.safe_end_offset` so far: a changed setting must not take a promise back."""
        # After a crash, nobody was promised the records after `safe_end_offset`.
        self.high_watermark = max(min(high_watermark, log.safe_end_offset), log.log_start_offset)
        log.producer_states.high_watermark_moved(self.high_watermark)
        self._stable_offset = self.last_stable_offset

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
        """Whether the high watermark has reached the offset up to which consumers may have read before (KIP-207)."""
        return not isinstance(self.role, Leader) or self.role.has_caught_up_with_consumers

    def require_in_sync(self, count: int) -> None:
        """Set how many replicas must be in sync for a produce with `acks=-1` (min.insync.replicas)."""
        self._min_in_sync_setting = count
        # In a cluster at most the number of replicas (Partition.effectiveMinIsr).
        is_alone = isinstance(self.role, Alone)
        self.min_in_sync_replicas = count if is_alone else min(count, max(len(self.replicas), 1))

    # Roles

    def _take_role(self, role: Alone | Leader | Follower) -> None:
        self.role = role
        self.is_leader = role.is_leader

    def become_leader(
        self, state: LeaderAndIsr, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
    ) -> None:
        """Become the leader in a later epoch than before."""
        before = self.role
        assert self._replication is not None, "nobody gives a role to a broker that runs alone"
        self._take_up(state, replicas, adding, removing)
        self.in_sync_replicas = list(state.in_sync_replicas)
        leader = Leader(self, self._replication, before if isinstance(before, Leader) else None)
        self._take_role(leader)
        self._wake_all()
        leader.recompute_high_watermark()

    def become_follower(
        self, state: LeaderAndIsr, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
    ) -> None:
        """Become a follower of `state.leader`, or of nobody, in a later epoch than before."""
        self._take_up(state, replicas, adding, removing)
        self.in_sync_replicas = []
        self._end_role(ErrorCode.not_leader_or_follower)

    def _take_up(
        self, state: LeaderAndIsr, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
    ) -> None:
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = list(replicas)
        self.adding = adding
        self.removing = removing
        self.require_in_sync(self._min_in_sync_setting)

    def fail(self) -> None:
        """The log directory failed: whoever waits gets an error. Unflushed records may or may not be on the disk."""
        self.has_failed = True
        self.end(ErrorCode.kafka_storage_error)

    def end(self, error: ErrorCode) -> None:
        """The partition is gone from this broker: whoever waits gets `error`."""
        self.has_ended = True
        self._end_role(error)
        if not isinstance(self.role, Leader):
            self.role.let_go()

    def _end_role(self, error: ErrorCode) -> None:
        """Become a follower, unless the broker runs alone. Whoever waits gets `error`."""
        before = self.role
        if not isinstance(before, Alone):
            self._take_role(Follower(self))
        self._wake_all()
        for waiting in (self._acknowledgements, self._leader_acknowledgements):
            while waiting:
                waiting.popleft()[1](error)
        before.end(error)

    def _wake_all(self) -> None:
        for waiter in (*self.fetch_waiters, *self.replica_waiters):
            waiter.wake()

    # What a leader appends

    @property
    def last_stable_offset(self) -> int:
        """Below this offset all transactions are decided. Without open transactions it is the high watermark."""
        unstable = self.log.producer_states.first_unstable_offset
        high_watermark = self.high_watermark
        if unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log.log_start_offset)

    def append(
        self,
        records: WritableBuffer | None,
        acks: int,
        now_ms: int,
        *,
        verify: Verify | None = None,
        by_version_2: bool = False,
        by_coordinator: bool = False,
        allowance: HeaderBudget | None = None,
        conformed: BatchHeader | None = None,
    ) -> Appended | ErrorCode | RefusedRecords:
        """Check and append what a producer sent. The bytes are changed in place, and not used after the call.

        The first batch of a transaction is appended only if `verify` confirms it. `by_version_2`: the producer is a
        client of version 2 of transactions. A coordinator of this broker writes
        for a producer without sequence numbers, and has checked the transaction itself. All batches of a request share
        one `allowance`. `conformed` is the header of a batch that `conform` has returned. Raises OSError.
        """
        if error := self._refusal(acks):
            return error
        if records is None:
            return ErrorCode.invalid_record
        log = self.log
        header = conformed or validate_produced(records, max_message_bytes=log.config.max_message_bytes)
        if isinstance(header, ErrorCode):
            return header
        if (
            header.is_transactional
            and not by_coordinator
            and (error := self._verify(header, verify, now_ms, by_version_2))
        ):
            return error
        if by_coordinator or conformed is not None:
            pass
        elif self._doubts(header, now_ms):
            header = with_true_max_timestamp(records, header, allowance or HeaderBudget())
        try:
            appended = log.append(
                records,
                header,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                has_sequence=not by_coordinator,
                by_version_2=by_version_2 and header.is_transactional,
            )
        except OSError as failure:
            self._append_failed(failure, now_ms)
            raise
        if isinstance(appended, ErrorCode) or appended.duplicate:
            return appended
        if header.is_transactional:
            self._note_transaction(appended.base_offset)
        self._appended(appended.base_offset, appended.last_offset + 1, header.size_bytes)
        return appended

    def begin_run(self, acks: int, producer_id: int, now_ms: int) -> PartitionRun | None:
        """A run for batches of one producer that came together; None if each is to be appended by `append`."""
        return None if self._refusal(acks) else self.log.begin_run(self.index, producer_id, now_ms)

    def append_run(self, run: PartitionRun, now_ms: int) -> ErrorCode:
        """Append the batches of a run in one write: all of them, or none and the error is returned."""
        if self.has_failed:
            return ErrorCode.kafka_storage_error  # The disk has failed since the run began.
        try:
            self.log.append_run(run, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except OSError as failure:
            self._append_failed(failure, now_ms)
            return ErrorCode.kafka_storage_error
        self._appended(run.base_offset, run.next_offset, run.size_bytes)
        return NO_ERROR

    def _refusal(self, acks: int) -> ErrorCode:
        if self.has_failed:
            return ErrorCode.kafka_storage_error
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if acks == -1 and len(self.in_sync_replicas) < self.min_in_sync_replicas:
            return ErrorCode.not_enough_replicas
        return NO_ERROR

    def _doubts(self, header: BatchHeader, now_ms: int) -> bool:
        """Whether a timestamp of the header is to be compared with those of the records."""
        is_clients = self.log.config.message_timestamp_type is TimestampType.CREATE_TIME
        return is_clients and not is_credible(header, now_ms)

    def conform(
        self, records: WritableBuffer | None, acks: int, now_ms: int, opening: UnfoldBudget, allowance: HeaderBudget
    ) -> tuple[WritableBuffer, BatchHeader] | ErrorCode | RefusedRecords | None:
        """Open a batch, if the settings of the topic or its header ask for it, and return what `append` takes.

        Returns None if the batch stays closed. A long request gives way meanwhile, so the batch is appended only if
        `append` finds it fit after that.
        """
        if records is None or self._refusal(acks):
            return None
        rules, most_bytes = self.log.config.record_rules, self.log.config.max_message_bytes
        header = validate_produced(records, max_message_bytes=most_bytes)
        if isinstance(header, ErrorCode):
            return None
        if rules is None or not rules.concern(header):
            is_doubtful = self._doubts(header, now_ms)
            return (records, with_true_max_timestamp(records, header, allowance)) if is_doubtful else None
        conformed = conform(records, header, rules, now_ms, opening)
        if not isinstance(conformed, RefusedRecords) and conformed[1].size_bytes > most_bytes:
            return ErrorCode.message_too_large
        return conformed

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> Appended | ErrorCode:
        """End a transaction here for its coordinator. Raises OSError."""
        if self.has_failed:
            return ErrorCode.kafka_storage_error
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if len(self.in_sync_replicas) < self.min_in_sync_replicas:
            return ErrorCode.not_enough_replicas
        size_bytes = self.log.size_bytes
        try:
            appended = self.log.append_marker(marker, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except OSError as failure:
            self._append_failed(failure, now_ms)
            raise
        if not isinstance(appended, ErrorCode):
            self._appended(appended.base_offset, appended.last_offset + 1, self.log.size_bytes - size_bytes)
        return appended

    def waiters(self, *, for_followers: bool) -> Waiters:
        """The fetches that wait for more to read."""
        return self.replica_waiters if for_followers else self.fetch_waiters

    def would_begin(self, producer_id: int, epoch: int, *, by_version_2: bool = False) -> bool:
        """Whether a batch of the producer would begin a transaction here, or may."""
        return self.log.producer_states.would_begin(producer_id, epoch, by_version_2=by_version_2)

    def _verify(self, header: BatchHeader, verify: Verify | None, now_ms: int, by_version_2: bool) -> ErrorCode:
        if verify is None:
            return ErrorCode.transactional_id_authorization_failed
        states = self.log.producer_states
        if not states.would_begin(header.producer_id, header.producer_epoch, by_version_2=by_version_2):
            return ErrorCode.none
        if error := verify(header.producer_id, header.producer_epoch):
            states.refuse(header, now_ms)
        return error

    def _note_transaction(self, offset: int) -> None:
        states = self.log.producer_states
        if states.begins_at(offset):
            self._bytes.transaction_begins(offset)
        if states.first_unstable_offset == offset:
            # All records before this offset are stable, and their readers know of them.
            self._stable_offset = self.high_watermark
            self._bytes.all_published_is_stable()

    def _append_failed(self, failure: OSError, now_ms: int) -> None:
        self._failed_appends += 1
        if abs(now_ms - self._failure_reported_ms) >= REPORT_FAILURES_MS:
            _logger.error(
                "cannot append to %s-%d: %s (times: %d)", self.topic, self.index, failure.strerror, self._failed_appends
            )
            self._failed_appends, self._failure_reported_ms = 0, now_ms
        if failure.errno not in MAY_PASS:
            self._storage_failed(failure, self)

    def _appended(self, base_offset: int, next_offset: int, size_bytes: int) -> None:
        log = self.log
        self._bytes.appended(base_offset, next_offset, size_bytes)
        counters = self.counters
        counters.messages_in += next_offset - base_offset
        counters.bytes_in += size_bytes
        safe_end_offset = log.safe_end_offset
        if safe_end_offset == log.log_end_offset:
            self._advance_safe_end(safe_end_offset)
        else:
            self._request_flush(self)
        if self.replica_waiters:
            for waiter in tuple(self.replica_waiters):
                waiter.bytes_added(size_bytes)

    def check_leader_epoch(self, epoch: int, *, needs_leader: bool = True) -> ErrorCode:
        """The error for a client whose current leader epoch is `epoch`, or -1 if it did not send one (KIP-320)."""
        if self.has_failed:
            return ErrorCode.kafka_storage_error
        if epoch in (-1, self.leader_epoch):
            return ErrorCode.not_leader_or_follower if needs_leader and not self.is_leader else ErrorCode.none
        return ErrorCode.fenced_leader_epoch if epoch < self.leader_epoch else ErrorCode.unknown_leader_epoch

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(the largest epoch at or below `epoch`, its end offset); (-1, -1) when `epoch` is newer than any known.

        The log notes an epoch with its first record, so it may not know the current epoch yet.
        """
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        latest = self.log.leader_epochs.latest
        if latest < epoch < self.leader_epoch:
            # Nothing was written in this epoch, so it ended where the one before it ended.
            return (latest if latest >= 0 else epoch), self.log.log_end_offset
        return self.log.offset_for_leader_epoch(epoch)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | ErrorCode | None:
        """(epoch, end offset) where a reader's log diverges from this log; None if it does not.

        The reader fetches from `fetch_offset`, and its last record is of `last_fetched_epoch`.
        """
        epoch, end_offset = self.end_of_epoch(last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            return ErrorCode.offset_out_of_range
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record at `offset`; at the end of the log the current one."""
        if offset >= self.log.log_end_offset:
            return self.leader_epoch
        return self.log.leader_epochs.epoch_at(offset)

    def delete_records(self, offset: int) -> int | ErrorCode:
        """Delete the records before `offset`, or the high watermark for −1; returns the new log start offset."""
        if self.has_failed:
            return ErrorCode.kafka_storage_error
        if not self.log.config.deletes:
            return ErrorCode.policy_violation
        if offset == -1:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            return ErrorCode.offset_out_of_range
        self.log.advance_log_start_offset(offset)
        return self.log.log_start_offset

    def is_acknowledged(self, last_offset: int, acks: int = -1) -> bool:
        """Whether records up to `last_offset` are as safe as `acks` asks: on the leader (1) or on all in sync (-1)."""
        return last_offset < (self.high_watermark if acks == -1 else self.safe_end_offset)

    def when_acknowledged(self, last_offset: int, acknowledge: Acknowledge, acks: int = -1) -> None:
        """Call back once `is_acknowledged` is true; it is false now. At once if the disk has failed meanwhile."""
        if self.has_failed:
            acknowledge(ErrorCode.kafka_storage_error)
            return
        if acks == -1:
            waiting = self._acknowledgements = self._acknowledgements or deque()
        else:
            waiting = self._leader_acknowledgements = self._leader_acknowledgements or deque()
        waiting.append((last_offset, acknowledge))

    def call_when_safe(self, last_offset: int, then: Acknowledge) -> None:
        """Call back once the high watermark has passed `last_offset`; at once if it has."""
        if self.is_acknowledged(last_offset):
            then(ErrorCode.none)
        else:
            self.when_acknowledged(last_offset, then)

    # High watermark

    def flushed(self) -> None:
        """A flush (fsync) moved the recovery point of the log."""
        if self.has_ended:
            return
        safe_end_offset = self.log.safe_end_offset
        self._advance_safe_end(safe_end_offset)
        if safe_end_offset < self.log.log_end_offset:
            self._request_flush(self)

    def _advance_safe_end(self, offset: int) -> None:
        if offset > self.safe_end_offset:
            self.safe_end_offset = offset
        waiting = self._leader_acknowledgements
        while waiting and waiting[0][0] < offset:
            waiting.popleft()[1](ErrorCode.none)
        self.role.safe_end_moved()

    def advance_high_watermark(self, offset: int) -> None:
        """Only the role calls this: the records below `offset` are replicated. A lower offset changes nothing."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        byte_count = self._bytes.gained_below_high_watermark(offset, self.log.log_end_offset)
        is_stable = self.log.producer_states.first_unstable_offset >= offset
        if self.fetch_waiters:
            for waiter in tuple(self.fetch_waiters):
                if is_stable or not waiter.read_committed:
                    waiter.bytes_added(byte_count)
        if not is_stable:
            self._advance_last_stable_offset()
        waiting = self._acknowledgements
        while waiting and waiting[0][0] < offset:
            waiting.popleft()[1](ErrorCode.none)

    def _advance_last_stable_offset(self) -> None:
        log = self.log
        if log.producer_states.decided:
            log.producer_states.high_watermark_moved(self.high_watermark)
        offset = self.last_stable_offset
        if offset == self._stable_offset:
            return
        self._stable_offset = offset
        byte_count = self._bytes.gained_below_stable_offset(offset, log.log_end_offset)
        if self.fetch_waiters:
            for waiter in tuple(self.fetch_waiters):
                if waiter.read_committed:
                    waiter.bytes_added(byte_count)

    # What a follower appends and truncates

    def append_as_follower(self, records: Part, high_watermark: int, log_start_offset: int, now_ms: int) -> None:
        """Append records from the leader, maybe none, and take over its high watermark, limited to the log's end, and
        its log start offset.

        Raises CorruptBatch for records that cannot be appended, and OSError.
        """
        log = self.log
        if len(records):
            first_offset = log.log_end_offset
            try:
                size_bytes = log.append_as_follower(records, now_ms)
            except OSError as failure:
                self._append_failed(failure, now_ms)
                raise
            self._bytes.appended(first_offset, log.log_end_offset, size_bytes)
            if self._replication is not None:
                self._replication.replicated(size_bytes)
            safe_end_offset = log.safe_end_offset
            if safe_end_offset == log.log_end_offset:
                self.safe_end_offset = safe_end_offset
            else:
                self._request_flush(self)
        self.advance_high_watermark(min(high_watermark, log.log_end_offset))
        if log_start_offset > log.log_start_offset:
            log.advance_log_start_offset(min(log_start_offset, self.high_watermark))

    def call_when_flushed(self, then: Callable[[], None]) -> bool:
        """Whether the next fetch may report the log's end to the leader. If not, call back after the flush."""
        return not isinstance(self.role, Follower) or self.role.call_when_flushed(then)

    def truncate_to(self, offset: int) -> None:
        """Truncate: remove the records from `offset` on, which the leader does not have. Raises OSError."""
        if offset < self.log.log_end_offset:
            if offset < self.high_watermark:
                _logger.warning(
                    "%s-%d is cut at offset %d, below its high watermark %d",
                    *(self.topic, self.index, offset, self.high_watermark),
                )
            self._truncate(self.log.truncate_to, offset)

    def truncate_fully(self, offset: int) -> None:
        """Truncate: remove all records; the log begins at `offset`. Raises OSError."""
        self._truncate(self.log.truncate_fully, offset)

    def _truncate(self, truncate: Callable[[int], None], offset: int) -> None:
        try:
            truncate(offset)
        except OSError as failure:
            # The truncation may be half done: nobody knows what the log has.
            self._storage_failed(failure, self)
            raise
        end_offset = self.log.log_end_offset
        self.high_watermark = max(min(self.high_watermark, end_offset), self.log.log_start_offset)
        self.safe_end_offset = min(self.safe_end_offset, end_offset)
        self._bytes.truncated()
        self.log.producer_states.high_watermark_moved(self.high_watermark)
        self._stable_offset = self.last_stable_offset
        if self._replication is not None:
            self._replication.log_was_truncated(self)
        self.role.safe_end_moved()
