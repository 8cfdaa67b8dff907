"""One partition as its leader sees it: its log, how far it is replicated, and who waits for that.

This is the whole of it where a broker runs alone; `ReplicatedPartition` is one replica among several.

Invariants: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset; none of them ever goes back; a
consumer reads only below the high watermark, one of committed records only below the last stable offset; a produce that
must wait is acknowledged only when the high watermark has passed the produced records.

A broker that runs alone is its partitions' only in-sync replica, so the high watermark follows the log's end, unless
the log must be flushed first (flush.messages): then it follows the recovery point, so nobody reads or is promised what
a power cut could take back.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.log.files import DISK_IS_FULL
from highwater.broker.log.partition_log import Appended, PartitionLog
from highwater.broker.metrics.counters import TopicCounters
from highwater.broker.records.batch import BatchHeader, WritableBuffer, validate_produced
from highwater.broker.records.produced import RefusedRecords, conform
from highwater.broker.records.record import TransactionMarker
from highwater.broker.replica.waiters import FetchWaiter

_logger = logging.getLogger(__name__)

TELL_FAILURES_MS: Final = 10_000
"""A full disk refuses thousands of batches a second; the log tells of the first, and then how many more."""

Acknowledge = Callable[[ErrorCode], None]
Verify = Callable[[int, int], ErrorCode]
"""Whether a producer's (id, epoch) transaction has this partition, as its coordinator knows (KIP-890)."""


class Partition:
    is_leader: bool = True

    __slots__ = (
        "_acknowledgements",
        "_appended_bytes",
        "_failed_appends",
        "_failure_told_ms",
        "_published_bytes",
        "_request_flush",
        "_stable_bytes",
        "_stable_offset",
        "_storage_failed",
        "_transaction_starts",
        "counters",
        "fetch_waiters",
        "has_ended",
        "has_failed",
        "high_watermark",
        "in_sync_replicas",
        "index",
        "leader_epoch",
        "log",
        "min_in_sync_replicas",
        "replicas",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        log: PartitionLog,
        *,
        leader_epoch: int,
        replicas: list[int],
        min_in_sync_replicas: int,
        request_flush: Callable[[Partition], None],
        storage_failed: Callable[[OSError, Partition], None],
        counters: TopicCounters,
        high_watermark: int | None = None,
    ) -> None:
        """Without a `high_watermark` all that the log has counts as replicated."""
        self.topic = topic
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        self.in_sync_replicas = list(replicas)
        self.require_in_sync(min_in_sync_replicas)
        self.high_watermark = log.log_end_offset
        if high_watermark is not None:
            self.high_watermark = max(min(high_watermark, log.log_end_offset), log.log_start_offset)
        self.has_ended = False
        self.has_failed = False
        """Its log directory failed: there is nothing to read or write until the broker starts again."""
        self.counters = counters
        """Those of its topic."""
        self.fetch_waiters: set[FetchWaiter] = set()
        self._request_flush = request_flush
        self._failed_appends = self._failure_told_ms = 0
        self._storage_failed = storage_failed
        self._acknowledgements: deque[tuple[int, Acknowledge]] = deque()
        # Bytes are counted from here on: appended, told to those who read below the high watermark, told to those who
        # read below the last stable offset, and where transactions began, by their first offsets.
        self._appended_bytes = self._published_bytes = self._stable_bytes = 0
        self._transaction_starts: dict[int, int] = {}
        # Where a crash came before the flush, nobody was promised the records after `safe_end_offset`.
        self.high_watermark = min(self.high_watermark, max(log.safe_end_offset, log.log_start_offset))
        log.producer_states.high_watermark_moved(self.high_watermark)
        self._stable_offset = self.last_stable_offset

    @property
    def has_caught_up_with_consumers(self) -> bool:
        """Whether the high watermark is where consumers may have read up to under the leader before (KIP-207)."""
        return True

    def require_in_sync(self, count: int) -> None:
        """How many replicas must be in sync for what asks for all of them (min.insync.replicas)."""
        self.min_in_sync_replicas = count

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided. Without transactions that is everything that can be read."""
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
        by_coordinator: bool = False,
    ) -> Appended | ErrorCode | RefusedRecords:
        """Check and append what a producer sent. The bytes are patched in place and need not outlive the call.

        The first batch of a transaction is appended if `verify` vouches for it. A coordinator of this broker writes
        in a producer's name without sequence numbers, and has made sure of the transaction itself.
        """
        if self.has_failed:
            return ErrorCode.kafka_storage_error
        if acks == -1 and len(self.in_sync_replicas) < self.min_in_sync_replicas:
            return ErrorCode.not_enough_replicas
        if records is None:
            return ErrorCode.invalid_record
        log = self.log
        header = validate_produced(records, max_message_bytes=log.config.max_message_bytes)
        if isinstance(header, ErrorCode):
            return header
        if header.is_transactional and not by_coordinator and (error := self._verify(header, verify, now_ms)):
            return error
        rules = log.config.record_rules
        if rules is not None and not by_coordinator:
            opened = conform(records, header, rules, now_ms)
            if isinstance(opened, RefusedRecords):
                return opened
            records, header = opened
            if header.size_bytes > log.config.max_message_bytes:
                return ErrorCode.message_too_large
        try:
            appended = log.append(
                records, header, leader_epoch=self.leader_epoch, now_ms=now_ms, has_sequence=not by_coordinator
            )
        except OSError as failure:
            self._append_failed(failure, now_ms)
            raise
        if isinstance(appended, ErrorCode) or appended.duplicate:
            return appended
        if header.is_transactional:
            self._note_transaction(appended.base_offset)
        self._appended(appended, header.size_bytes)
        return appended

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> Appended | ErrorCode:
        """End a transaction here, as its coordinator wants it."""
        if self.has_failed:
            return ErrorCode.kafka_storage_error
        if len(self.in_sync_replicas) < self.min_in_sync_replicas:
            return ErrorCode.not_enough_replicas
        size_bytes = self.log.size_bytes
        try:
            appended = self.log.append_marker(marker, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except OSError as failure:
            self._append_failed(failure, now_ms)
            raise
        if not isinstance(appended, ErrorCode):
            self._appended(appended, self.log.size_bytes - size_bytes)
        return appended

    def waiters(self, *, for_followers: bool) -> set[FetchWaiter]:
        """Where those stand who wait for more to read."""
        return self.fetch_waiters

    def has_open_transaction(self, producer_id: int) -> bool:
        return self.log.producer_states.has_open_transaction(producer_id)

    def _verify(self, header: BatchHeader, verify: Verify | None, now_ms: int) -> ErrorCode:
        if verify is None:
            return ErrorCode.transactional_id_authorization_failed
        states = self.log.producer_states
        if states.has_open_transaction(header.producer_id):
            return ErrorCode.none
        if error := verify(header.producer_id, header.producer_epoch):
            states.refuse(header, now_ms)
        return error

    def _note_transaction(self, offset: int) -> None:
        states = self.log.producer_states
        if states.begins_at(offset):
            self._transaction_starts[offset] = self._appended_bytes
        if states.first_unstable_offset == offset:
            # All before it is stable, and was told to everybody.
            self._stable_offset, self._stable_bytes = self.high_watermark, self._published_bytes

    def _append_failed(self, failure: OSError, now_ms: int) -> None:
        self._failed_appends += 1
        if abs(now_ms - self._failure_told_ms) >= TELL_FAILURES_MS:
            _logger.error(
                "cannot append to %s-%d: %s (times: %d)", self.topic, self.index, failure.strerror, self._failed_appends
            )
            self._failed_appends, self._failure_told_ms = 0, now_ms
        # A full disk takes nothing with it: what was there is whole, and there may be space again. So it is with
        # descriptors.
        if failure.errno not in (*DISK_IS_FULL, errno.EMFILE, errno.ENFILE):
            self._storage_failed(failure, self)

    def _appended(self, appended: Appended, size_bytes: int) -> None:
        log = self.log
        self._appended_bytes += size_bytes
        counters = self.counters
        counters.messages_in += appended.last_offset - appended.base_offset + 1
        counters.bytes_in += size_bytes
        safe_end_offset = log.safe_end_offset
        if safe_end_offset == log.log_end_offset:
            self._kept_to(safe_end_offset)
        else:
            self._request_flush(self)

    def check_leader_epoch(self, epoch: int, *, needs_leader: bool = True) -> ErrorCode:
        """Whether a client that takes `epoch` for the current one (-1: it does not say) is up to date (KIP-320)."""
        if self.has_failed:
            return ErrorCode.kafka_storage_error
        if epoch in (-1, self.leader_epoch):
            return ErrorCode.none
        return ErrorCode.fenced_leader_epoch if epoch < self.leader_epoch else ErrorCode.unknown_leader_epoch

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(the largest epoch at or below `epoch`, its end offset); (-1, -1) when `epoch` is newer than any known.

        The log hears of an epoch with the first records of it, so the current one may not stand there yet.
        """
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        latest = self.log.leader_epochs.latest
        if latest < epoch < self.leader_epoch:
            # Nothing was written in it, so it ended where the one before it did.
            return (latest if latest >= 0 else epoch), self.log.log_end_offset
        return self.log.offset_for_leader_epoch(epoch)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | ErrorCode | None:
        """(epoch, end offset) where a reader's history left this log's, or None.

        The reader is at `fetch_offset`, and the record before it was of `last_fetched_epoch`.
        """
        epoch, end_offset = self.end_of_epoch(last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            return ErrorCode.offset_out_of_range
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def epoch_of(self, offset: int) -> int:
        """The leader epoch under which the record at `offset` was written; the current one at the end of the log."""
        if offset >= self.log.log_end_offset:
            return self.leader_epoch
        return self.log.leader_epochs.epoch_at(offset)

    def delete_records(self, offset: int) -> int | ErrorCode:
        """Let the log start at `offset`, or at the high watermark for −1; where it starts now."""
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
        """Whether it is as safe as a producer asks that wants to hear of its leader (1) or of all in sync (-1)."""
        return last_offset < self.high_watermark

    def when_acknowledged(self, last_offset: int, acknowledge: Acknowledge, acks: int = -1) -> None:
        """Call back once that is so, which it is not yet."""
        self._acknowledgements.append((last_offset, acknowledge))

    def call_when_safe(self, last_offset: int, then: Acknowledge) -> None:
        """Call back once the high watermark has passed `last_offset`; at once if it has."""
        if self.is_acknowledged(last_offset):
            then(ErrorCode.none)
        else:
            self.when_acknowledged(last_offset, then)

    def flushed(self) -> None:
        """The log was synced up to its recovery point."""
        if self.has_ended:
            return
        safe_end_offset = self.log.safe_end_offset
        self._kept_to(safe_end_offset)
        if safe_end_offset < self.log.log_end_offset:
            self._request_flush(self)

    def _advance_high_watermark(self, offset: int) -> None:
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        byte_count = self._appended_bytes - self._published_bytes
        if offset >= self.log.log_end_offset:
            self._published_bytes = self._appended_bytes
        else:
            byte_count = self._bytes_below(offset)
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

    _kept_to = _advance_high_watermark
    """All below is here as safely as the topic wants it."""

    def _bytes_below(self, offset: int) -> int:
        """How many bytes the high watermark lets readers see that it has just come to."""
        # Some are told again with the next step: a fetch that wakes for less than it wanted is better than one that
        # misses what it waits for.
        return self._appended_bytes - self._published_bytes

    def _advance_last_stable_offset(self) -> None:
        log = self.log
        if log.producer_states.decided:
            log.producer_states.high_watermark_moved(self.high_watermark)
        offset = self.last_stable_offset
        if offset == self._stable_offset:
            return
        self._stable_offset = offset
        starts = self._transaction_starts
        stable_bytes = starts.get(offset, self._appended_bytes)
        byte_count = stable_bytes - self._stable_bytes
        if offset in starts or offset >= log.log_end_offset:
            self._stable_bytes = stable_bytes
        # Otherwise the bytes are told again, as above.
        while starts and (first_offset := next(iter(starts))) < offset:
            del starts[first_offset]
        if self.fetch_waiters:
            for waiter in tuple(self.fetch_waiters):
                if waiter.read_committed:
                    waiter.bytes_added(byte_count)

    def fail(self) -> None:
        """The log directory failed. What waits is told; what was not flushed may or may not be on the disk."""
        self.has_failed = True
        self.end(ErrorCode.kafka_storage_error)

    def end(self, error: ErrorCode) -> None:
        """The partition is gone from this broker: nobody may wait for it any longer."""
        self.has_ended = True
        for waiter in tuple(self.fetch_waiters):
            waiter.wake()
        while self._acknowledgements:
            self._acknowledgements.popleft()[1](error)
