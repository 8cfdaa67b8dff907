"""One partition's log: append, read, truncation, fsync policy, retention, compaction.

Readers get the records from `log_start_offset` up to, but without, `log_end_offset`. Records below the recovery point
are on the disk (durable); later ones may be in the page cache only. A flush moves the recovery point in three steps, so
that another thread can wait for the fsync: `begin_flush` (cheap), `ticket.sync` (blocks, any thread), `complete_flush`
(cheap). All other methods belong to one thread, but for those that say so.
"""

from __future__ import annotations

import errno
import logging
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.log import reading
from highwater.broker.log.checkpoint import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    encode_epochs,
    encode_partition_metadata,
    encode_topic_id,
)
from highwater.broker.log.clean_stop import WholeLog
from highwater.broker.log.compaction_job import CleanedGroup, Dirtiness, Job, compaction_job, dirtiness
from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import CorruptIndex, NotCached
from highwater.broker.log.files import FileOperations, FilePiece, sync_file, write_durably, write_file
from highwater.broker.log.flush import FlushTicket, Unflushed
from highwater.broker.log.open_segments import OpenSegments
from highwater.broker.log.producer_state import ProducerStates
from highwater.broker.log.recovery import (
    LogState,
    first_unsynced_slot,
    has_leftovers,
    observe_producer,
    rebuild_producers,
    remove_snapshots,
    remove_stray_snapshots,
    snapshots_among,
)
from highwater.broker.log.replicated_batches import runs_of_batches
from highwater.broker.log.retention import count_expired
from highwater.broker.log.segment import Segment
from highwater.broker.log.segment_list import SegmentList
from highwater.broker.log.segment_names import SNAPSHOT_SUFFIX, file_name
from highwater.kafka.protocol.produce_run import NO_LIMIT, PartitionRun
from highwater.kafka.records.batch import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    ReadableBuffer,
    TimestampType,
    WritableBuffer,
    assign,
    read_header,
    set_log_append_time,
)
from highwater.kafka.records.record import EndMarker, TransactionMarker, encode_end_marker

_logger = logging.getLogger(__name__)


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """NO_TIMESTAMP, unless the topic has LogAppendTime or the batch is a duplicate."""
    duplicate: bool


class PartitionLog:
    def __init__(
        self,
        files: FileOperations,
        directory: Path,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        config: LogConfig,
        open_segments: OpenSegments,
        state: LogState,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.recovery_point = state.recovery_point
        self.leader_epochs = state.leader_epochs
        self.producer_states = state.producer_states
        self._files = files
        self._segments = SegmentList(files, directory, open_segments, state.segments)
        self.size_bytes = self._segments.size_bytes
        self._snapshot_offset = state.snapshot_offset
        self._is_changed = not state.is_clean
        self._unflushed = Unflushed(is_new=state.recovery_point == 0, has_new_names=not state.is_clean)
        for segment in state.segments[self._first_unsynced_slot() : -1]:
            self._unflushed.paths += segment.indexes.paths
        self._not_brought: tuple[FilePiece, OSError] | None = None
        self._is_closed = False
        self.wants_look: Segment | None = None
        """The segment whose records somebody has to look at before retention goes on."""
        self.segments_must_stay = False
        """A compaction or a move to another directory reads the sealed segments."""
        self.truncations = 0
        """The number of truncations. After one, a compaction or a move of the log must begin again."""
        self._doubtful_below = state.doubtful_below
        """The highest recovery point that the checkpoint may have for this log, if it was truncated below that."""

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def directory(self) -> Path:
        return self._segments.directory

    @property
    def segment_base_offsets(self) -> tuple[int, ...]:
        return tuple(self._segments.base_offsets)

    @property
    def segment_sizes(self) -> list[tuple[int, int]]:
        """(base offset, bytes of records) of each segment, the active one last."""
        return [(segment.base_offset, segment.size_bytes) for segment in self._segments.all]

    # Appending

    def append(
        self,
        records: WritableBuffer,
        header: BatchHeader,
        *,
        leader_epoch: int,
        now_ms: int,
        has_sequence: bool = True,
        by_version_2: bool = False,
        marker: EndMarker | None = None,
    ) -> Appended | ErrorCode:
        """Append the batch at the beginning of `records`, with the header from `validate_produced`, and stamp it there.

        Without `has_sequence` a coordinator of this broker writes for the producer. `by_version_2`: the batch is of a
        transaction of version 2. With `marker` the batch ends the producer's transaction, and was checked before. After
        an OSError (the disk is full or broken) the log is as it was.
        """
        config = self.config
        size_bytes = header.size_bytes
        if size_bytes > config.segment_bytes:
            return ErrorCode.record_list_too_large
        takes_broker_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        has_producer = header.producer_id != NO_PRODUCER_ID
        if has_producer and marker is None:
            known = self.producer_states.check(header, has_sequence=has_sequence, by_version_2=by_version_2)
            if isinstance(known, ErrorCode):
                return known
            if known is not None:
                # Kafka returns the timestamp of a duplicate with either type of timestamps (UnifiedLog.append).
                return Appended(known.base_offset, known.last_offset, known.timestamp_ms, duplicate=True)

        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp_ms = header.max_timestamp_ms
        assign(records, size_bytes, base_offset, leader_epoch)
        if takes_broker_time:
            max_timestamp_ms = now_ms
            set_log_append_time(records, 0, header, now_ms)
        segment = self._segments.active
        if segment.must_roll(config, size_bytes, max_timestamp_ms, last_offset, now_ms):
            segment = self._roll(now_ms)
        batch = records if len(records) == size_bytes else memoryview(records)[:size_bytes]
        segment.append(batch, last_offset, max_timestamp_ms)

        self.log_end_offset = last_offset + 1
        self.size_bytes += size_bytes
        if marker is not None:
            appended = header._replace(base_offset=base_offset, max_timestamp_ms=max_timestamp_ms)
            if (aborted := self.producer_states.end_transaction(appended, marker, append_ms=now_ms)) is not None:
                segment.note_aborted(aborted)
        elif has_producer:
            self.producer_states.append(
                header, base_offset, max_timestamp_ms, append_ms=now_ms, by_version_2=by_version_2
            )
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        self._is_changed = True
        if self._unflushed.dirty_since_ms is None:
            self._unflushed.dirty_since_ms = now_ms
        return Appended(base_offset, last_offset, now_ms if takes_broker_time else NO_TIMESTAMP, duplicate=False)

    def begin_run(self, index: int, producer_id: int, now_ms: int) -> PartitionRun | None:
        """A run for batches of one producer; None if each is to be appended alone.

        It takes none that would begin a segment, repeat a batch or be refused.
        """
        config, end_offset = self.config, self.log_end_offset
        run = PartitionRun(index, end_offset, self.log_start_offset, config.max_message_bytes)
        if not self._segments.active.begin_run(run, config, now_ms):
            return None
        if config.flush_messages < NO_LIMIT and (before_flush := config.flush_messages - self.unflushed_messages) > 1:
            # Batches before the one that asks for a flush are safe at once, the others are not.
            run.largest_offset = min(run.largest_offset, end_offset + before_flush - 2)
        if producer_id != NO_PRODUCER_ID and not self.producer_states.begin_run(run, producer_id):
            return None
        return run

    def append_run(self, run: PartitionRun, *, leader_epoch: int, now_ms: int) -> None:
        """Stamp the batches of a run, and append them in one write. Nothing has changed after an OSError."""
        assert run.base_offset == self.log_end_offset, "nothing was appended since the run began"
        for batch in run.batches:
            assign(batch.records, batch.size_bytes, batch.base_offset, leader_epoch)
        self._segments.active.append_run(run)
        self.log_end_offset = run.next_offset
        self.size_bytes += run.size_bytes
        if run.producer_id != NO_PRODUCER_ID:
            self.producer_states.append_run(run, append_ms=now_ms)
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, run.base_offset)
        self._is_changed = True
        if self._unflushed.dirty_since_ms is None:
            self._unflushed.dirty_since_ms = now_ms

    def append_marker(self, marker: TransactionMarker, *, leader_epoch: int, now_ms: int) -> Appended | ErrorCode:
        """End a transaction. The marker is appended even if the transaction has no batch here: it fences old epochs.

        After an OSError the log is as it was.
        """
        if (error := self.producer_states.check_marker(marker)) is not None:
            return error
        self._segments.active.load_transaction_index()  # Before anything changes, as reading its file may fail.
        batch = encode_end_marker(marker, now_ms)
        end_marker = EndMarker(marker.is_commit, marker.coordinator_epoch)
        return self.append(batch, read_header(batch), leader_epoch=leader_epoch, now_ms=now_ms, marker=end_marker)

    def append_as_follower(self, records: ReadableBuffer, now_ms: int) -> int:
        """Append the batches of the leader's log unchanged; returns how many bytes were appended.

        An incomplete batch at the end is left out. Raises CorruptBatch, and appends nothing, if a batch is damaged or
        does not follow this log's end. After an OSError some of the batches may be appended.
        """
        # The leader's log may start in the middle of a batch. An empty log here then begins with the whole batch.
        next_offset = 0 if self.log_start_offset == self.log_end_offset else self.log_end_offset
        runs = runs_of_batches(memoryview(records), next_offset, self.log_end_offset, self.config.segment_bytes)
        first_offset = runs[0].headers[0].base_offset
        if first_offset < self.log_end_offset:
            self.truncate_fully(first_offset)
        for run in runs:
            self._append_run(run.records, run.headers, now_ms)
        return sum(len(run.records) for run in runs)

    def _append_run(self, records: memoryview, run: list[BatchHeader], now_ms: int) -> None:
        segment = self._segments.active
        max_timestamp_ms = max(header.largest_timestamp_ms for header in run)
        if segment.must_roll(self.config, len(records), max_timestamp_ms, run[-1].last_offset, now_ms):
            segment = self._roll(now_ms)
        if any(header.is_control for header in run):
            segment.load_transaction_index()
        segment.extend(records, run)
        self.log_end_offset = run[-1].next_offset
        self.size_bytes += len(records)
        position = 0
        for header in run:
            if header.leader_epoch > self.leader_epochs.latest:
                self.leader_epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id != NO_PRODUCER_ID:
                batch = records[position : position + header.size_bytes]
                if (aborted := observe_producer(self.producer_states, header, batch, append_ms=now_ms)) is not None:
                    segment.note_aborted(aborted)
            position += header.size_bytes
        self._is_changed = True
        if self._unflushed.dirty_since_ms is None:
            self._unflushed.dirty_since_ms = now_ms

    def _roll(self, now_ms: int) -> Segment:
        """Begin a new segment at the end of the log; returns the active one. After an OSError that is the old one."""
        active, unflushed = self._segments.active, self._unflushed
        is_doubtful = self.log_end_offset <= self._doubtful_below
        if is_doubtful and unflushed.ticket is not None:
            return active  # The flush under way still writes the file of the leader epochs.
        active.seal()
        if is_doubtful:
            self._sync_sealed(active)
        try:
            self._take_snapshot()
            segment = self._segments.add(self.log_end_offset, self.config, now_ms)
        except OSError:
            active.is_sealed = False
            raise
        unflushed.paths += active.indexes.paths
        unflushed.has_new_names = True
        return segment

    def _sync_sealed(self, segment: Segment) -> None:
        """fsync a segment: the recovery point of the checkpoint may be past it, so that a recovery would trust it."""
        descriptor = segment.pin()
        try:
            self._files.sync(descriptor)
        finally:
            segment.unpin()
        for path in segment.indexes.paths:
            sync_file(self._files, path)
        write_durably(self._files, self.directory / LEADER_EPOCH_CHECKPOINT, encode_epochs(self.leader_epochs.entries))

    def _take_snapshot(self) -> None:
        if self.log_end_offset > self._snapshot_offset:
            path = self.directory / file_name(self.log_end_offset, SNAPSHOT_SUFFIX)
            write_file(self._files, path, self.producer_states.encode())
            self._unflushed.paths.append(path)
            self._unflushed.has_new_names = True
            self._snapshot_offset = self.log_end_offset

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int, at_least_one_batch: bool = False
    ) -> bytes | bytearray | ErrorCode:
        """Whole batches from the one that holds `offset` on, all below `end_offset`, at most `max_bytes`.

        b"" if there is nothing yet. With `at_least_one_batch` the first batch may exceed `max_bytes`. Damage and read
        errors of the disk are error codes, so that the other partitions of a fetch still get their answer.
        """
        return self._read(offset, max_bytes, end_offset, at_least_one_batch, only_cached=False)

    def read_cached(
        self, offset: int, max_bytes: int, *, end_offset: int, at_least_one_batch: bool = False
    ) -> bytes | bytearray | ErrorCode | NotCached:
        """The same, and NotCached instead of a wait for the disk.

        The pieces of files in it are to be brought into the page cache. The caller then reads again: the log may have
        changed meanwhile. What could not be brought is returned as an error code, once.
        """
        try:
            return self._read(offset, max_bytes, end_offset, at_least_one_batch, only_cached=True)
        except NotCached as needed:
            if self._not_brought is not None:
                piece, error = self._not_brought
                self._not_brought = None
                if piece[:2] == needed.pieces[0][:2]:
                    return self._unreadable_at(offset, error)
            return needed.with_traceback(None)

    def _read(
        self, offset: int, max_bytes: int, end_offset: int, at_least_one_batch: bool, *, only_cached: bool
    ) -> bytes | bytearray | ErrorCode:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return ErrorCode.offset_out_of_range
        if offset >= end_offset:
            return b""
        try:
            return reading.read(
                self._segments,
                offset,
                max_bytes,
                end_offset,
                self.log_end_offset,
                at_least_one_batch=at_least_one_batch,
                only_cached=only_cached,
            )
        except (CorruptBatch, CorruptIndex, OSError) as error:
            return self._unreadable_at(offset, error)

    def not_brought(self, pieces: Sequence[FilePiece], error: OSError) -> None:
        """Note that the disk could not read these pieces, for the next reader that needs them."""
        self._not_brought = pieces[0], error

    def readable_bytes(self, offset: int, *, end_offset: int) -> int | None:
        """The bytes from the batch that holds `offset` up to `end_offset`; None when a segment ends in between.

        0 if `read` would return an error.
        """
        if not self.log_start_offset <= offset < end_offset:
            return 0
        try:
            return reading.readable_bytes(self._segments, offset, end_offset, self.log_end_offset)
        except (CorruptBatch, CorruptIndex, OSError):
            return 0

    def aborted_transactions(self, offset: int, size_bytes: int, end_offset: int) -> list[tuple[int, int]] | ErrorCode:
        """(producer id, first offset) of aborted transactions with records in `size_bytes` from `offset` on.

        Transactions that begin later, but before `end_offset`, may be among them.
        """
        try:
            return reading.aborted_transactions(self._segments, offset, size_bytes, end_offset, self.log_end_offset)
        except (CorruptBatch, CorruptIndex, OSError) as error:
            what = f"{self.topic}-{self.partition}: the aborted transactions from offset {offset}"
            return self._unreadable(what, error)

    def _unreadable_at(self, offset: int, error: Exception) -> ErrorCode:
        return self._unreadable(f"{self.topic}-{self.partition} cannot be read at offset {offset}", error)

    @staticmethod
    def _unreadable(what: str, error: Exception) -> ErrorCode:
        _logger.error("%s: %s", what, error)
        # It may be one bad sector, so the other logs of the directory stay in use.
        return ErrorCode.kafka_storage_error if isinstance(error, OSError) else ErrorCode.corrupt_message

    def offset_for_timestamp(self, timestamp_ms: int, end_offset: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record that is not before `timestamp_ms`, if it is below `end_offset`."""
        return reading.offset_for_timestamp(self._segments, timestamp_ms, self.log_start_offset, end_offset)

    def max_timestamp(self) -> tuple[int, int]:
        """(timestamp, offset) of the first record that has the largest timestamp; (NO_TIMESTAMP, −1) without one."""
        return reading.max_timestamp(self._segments, self.log_start_offset)

    def offset_for_leader_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest known epoch that is not above `leader_epoch`; (−1, −1) if unknown."""
        return self.leader_epochs.end_offset_of(leader_epoch, self.log_end_offset)

    def advance_log_start_offset(self, offset: int) -> None:
        """Hide the records before `offset`. After the next checkpoint, a restart keeps this."""
        self.log_start_offset = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.leader_epochs.truncate_from_start(self.log_start_offset)

    # Truncation: removing what the leader does not have

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on, and the whole batch if `offset` is in the middle of one, durably.

        Until the next checkpoint is written, its recovery point may be past the new end. A recovery reads all of the
        segment that has the recovery point, so this does no harm while the log stays in that segment: see `_roll`.
        """
        if offset >= self.log_end_offset:
            return
        if offset <= self.log_start_offset:
            self.truncate_fully(offset)
            return
        slot = self._segments.slot_of(offset)
        self._begin_truncation(slot + 1, offset)
        self.log_end_offset = self._segments.all[slot].truncate(offset)
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        self._finish_truncation()
        self._snapshot_offset = min(self._snapshot_offset, self.log_end_offset)
        if len(self.producer_states):
            self.producer_states, self._snapshot_offset = rebuild_producers(
                self._files, self.directory, self._segments.all, self.log_start_offset, self.log_end_offset
            )
        _logger.info("%s-%d: cut at offset %d", self.topic, self.partition, self.log_end_offset)

    def truncate_fully(self, offset: int) -> None:
        """Remove all records; the log begins at `offset`."""
        created_ms = self._segments.active.created_ms
        self._begin_truncation(0, -1)
        self.leader_epochs.truncate_from_end(0)
        self.log_start_offset = self.log_end_offset = self._snapshot_offset = offset
        self.producer_states = ProducerStates()
        self._segments.add(offset, self.config, created_ms)
        self._finish_truncation()
        # From the next checkpoint on only the name of the file shows where the log starts.
        self._files.sync_directory(self.directory)
        _logger.info("%s-%d: begun anew at offset %d", self.topic, self.partition, offset)

    def _begin_truncation(self, slot: int, end_offset: int) -> None:
        """Remove the segments from a slot on, and the snapshots past the new end, durably."""
        self.truncations += 1
        self._is_changed = True
        self._doubtful_below = max(self._doubtful_below, self.recovery_point)
        self._segments.truncate(slot)
        remove_snapshots(self._files, self.directory, past=end_offset)
        # If a power cut brought a segment back, its batches might fit after newer ones, or leave a hole.
        self._files.sync_directory(self.directory)

    def _finish_truncation(self) -> None:
        end_offset = self.log_end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self.size_bytes = self._segments.size_bytes
        if (ticket := self._unflushed.ticket) is not None:
            ticket.end_offset = min(ticket.end_offset, end_offset)
        if self.unflushed_messages == 0:
            self._unflushed.dirty_since_ms = None

    # fsync policy

    @property
    def safe_end_offset(self) -> int:
        """The end of the records that are as safe as the topic asks: the one place that decides this.

        That is the log's end, or, when `flush.messages` records or more wait for an fsync, the recovery point.
        """
        end_offset, recovery_point = self.log_end_offset, self.recovery_point
        return end_offset if end_offset - recovery_point < self.config.flush_messages else recovery_point

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether to flush: by count, by age, or because a sealed segment waits, which Kafka always flushes too."""
        if self._unflushed.ticket is not None or self.unflushed_messages == 0:
            return False
        dirty_since_ms = self._unflushed.dirty_since_ms
        return (
            self.recovery_point < self._segments.base_offsets[-1]
            or self.safe_end_offset < self.log_end_offset
            # A clock that was set back must not delay the flush.
            or (dirty_since_ms is not None and not 0 <= now_ms - dirty_since_ms < self.config.flush_ms)
        )

    def begin_flush(self) -> FlushTicket | None:
        """A ticket with all that a flush must sync; None if there is nothing, another runs, or the log is closed."""
        unflushed = self._unflushed
        is_needed = self.unflushed_messages or unflushed.paths or unflushed.has_new_names or self.leader_epochs.is_dirty
        if unflushed.ticket is not None or self._is_closed or not is_needed:
            return None
        segments = self._segments.all[self._first_unsynced_slot() :]
        return unflushed.begin(self._files, self.directory, segments, self.log_end_offset, self.leader_epochs)

    def _first_unsynced_slot(self) -> int:
        return first_unsynced_slot(self._segments.base_offsets, self.recovery_point)

    def complete_flush(self, ticket: FlushTicket) -> None:
        """End the flush after `ticket.sync`. The recovery point moves only if the sync succeeded."""
        self._unflushed.complete(ticket, self.leader_epochs)
        if ticket.is_synced:
            self.recovery_point = max(self.recovery_point, ticket.end_offset)

    # Retention

    def delete_expired(self, high_watermark: int, now_ms: int, *, by_age: bool = True) -> int:
        """Remove expired segments from the log; returns how many. `take_removable` later names their files."""
        segments = self._segments
        count, must_look = count_expired(
            segments.all,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
            now_ms=now_ms if by_age else None,
        )
        self.wants_look = segments.all[count] if must_look else None
        if count == 0 or self.segments_must_stay:
            return 0
        if count == len(segments.all) and self._roll(now_ms) is segments.all[count - 1]:
            return 0
        self.advance_log_start_offset(segments.base_offsets[count])
        self.size_bytes -= sum(segment.size_bytes for segment in segments.all[:count])
        self._is_changed = self._unflushed.has_new_names = True
        _logger.info(
            "%s-%d: deleting %d segments; the log starts at %d",
            *(self.topic, self.partition, count, segments.base_offsets[count]),
        )
        segments.set_aside_first(count, now_ms + self.config.file_delete_delay_ms)
        return count

    def take_removable(self, now_ms: int) -> list[Path]:
        """Files to remove now, which the caller may do in any thread. A start removes all files set aside."""
        return self._segments.take_removable(now_ms)

    # Compaction

    def dirtiness(self, clean_offset: int, first_undecided_offset: int, now_ms: int) -> Dirtiness:
        """How much of the log a pass could compact, when the last pass came to `clean_offset`.

        Only records on the disk count, so that a recovery never reads the gaps that compaction makes.
        """
        if not self.log_start_offset <= clean_offset <= self.log_end_offset:
            clean_offset = self.log_start_offset
        undecided = min(first_undecided_offset, self.recovery_point)
        return dirtiness(self._segments.all, self.config, clean_offset, undecided, now_ms)

    def compaction_job(self, dirt: Dirtiness, now_ms: int, map_bytes: int, map_load_factor: float, aside: str) -> Job:
        return compaction_job(
            self._segments.all,
            self.producer_states,
            self.config,
            dirt,
            directory=str(self.directory),
            now_ms=now_ms,
            map_bytes=map_bytes,
            map_load_factor=map_load_factor,
            aside=aside,
        )

    def replace_segments(self, group: CleanedGroup, now_ms: int) -> None:
        """Replace segments by the cleaned one that was made of them. Call `sync_names` after it."""
        self._is_changed = self._unflushed.has_new_names = True
        try:
            self._segments.replace(group, self.config, now_ms)
        finally:
            self.size_bytes = self._segments.size_bytes

    def sync_names(self) -> None:
        """Make what `replace_segments` renamed durable; blocks, and may run in any thread."""
        self._segments.sync_names()

    # Moving to another log directory

    @property
    def is_in_use(self) -> bool:
        """Whether a flush or another thread uses its files at this moment."""
        return self._unflushed.ticket is not None or self._segments.is_pinned

    def go_on_in(self, directory: Path, open_segments: OpenSegments) -> None:
        """Continue in another folder, which has the same files on the disk. RuntimeError while the log is in use."""
        if self.is_in_use:
            raise RuntimeError(f"{self!r} is moved while it is in use")
        self._segments.go_on_in(directory, open_segments)
        self._unflushed.paths = [directory / path.name for path in self._unflushed.paths]

    # Housekeeping

    def write_indexes(self) -> None:
        """Write the entries in memory to the index files, for other programs that read these."""
        self._segments.active.indexes.write()

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        self.producer_states.expire(now_ms, expiration_ms)

    def write_metadata(self) -> None:
        """Write the file with the topic's id; in a new log the first flush syncs it."""
        if self.topic_id is None:
            return
        path = self.directory / PARTITION_METADATA
        text = encode_partition_metadata(self.topic_id)
        if self._unflushed.is_new:
            write_file(self._files, path, text)
        else:
            write_durably(self._files, path, text)

    def begin_last_flush(self) -> FlushTicket | None:
        """A ticket with all that a clean close must sync; None if there is nothing."""
        if not self._is_changed or self.log_end_offset == 0:
            return None
        if self._unflushed.ticket is not None:
            raise RuntimeError(f"{self!r} is closed in the middle of a flush")
        active = self._segments.active
        active.seal()
        self._unflushed.paths += active.indexes.paths
        self._take_snapshot()
        return self.begin_flush()

    def whole(self) -> WholeLog | None:
        """What the next start is to take over, after a clean close; None if it is to look at the files."""
        segments, end_offset = self._segments.all, self.log_end_offset
        names = [entry.name for entry in self._files.list(self.directory)]
        has_producers = len(self.producer_states) > 0
        if (
            self.topic_id is None
            or (has_producers and self._snapshot_offset != end_offset)
            or any(segment.indexes.has_aborted for segment in segments)
            or has_leftovers(names)
        ):
            return None
        remove_stray_snapshots(self._files, self.directory, snapshots_among(names), segments, end_offset)
        return WholeLog(
            [*self._files.stamp(self.directory), *segments[-1].stamp()],
            encode_topic_id(self.topic_id),
            self.segment_sizes,
            end_offset,
            self.leader_epochs.entries,
            has_producers,
        )

    def close(self, *, clean: bool = True) -> None:
        """Close all files. A clean close first blocks until all that was written is on the disk."""
        if clean and (ticket := self.begin_last_flush()) is not None:
            try:
                ticket.sync()
            finally:
                self.complete_flush(ticket)
            if not ticket.is_synced:
                raise OSError(errno.ENOSPC, "No space left on device", str(self.directory))
        self._is_closed = True
        if (ticket := self._unflushed.ticket) is not None:
            ticket.log_is_closed = True
        self._segments.release()
