"""One segment of a partition's log: a `.log` file of batches, which its indexes make searchable.

Invariant: an index entry names a batch of the log file. An index that does not is rebuilt from the log file
(broker.log.recovery does this for aborted transactions).
"""

from __future__ import annotations

import logging
import random
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

from highwater.broker.log.batch_walk import BAD_CRC, OBSERVE, OUT_OF_ORDER, WHOLE
from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import CorruptIndex, LogDirectoryError, NotCached
from highwater.broker.log.files import FileOperations, FilePiece, is_piece_cached, write_file
from highwater.broker.log.leader_epochs import NO_EPOCH
from highwater.broker.log.looking import Look
from highwater.broker.log.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from highwater.broker.log.open_segments import OpenSegments
from highwater.broker.log.producer_state import BATCHES_KEPT
from highwater.broker.log.segment_file import HEADER_WINDOW_BYTES, SegmentFile
from highwater.broker.log.segment_indexes import SegmentIndexes
from highwater.broker.log.segment_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, SegmentNames
from highwater.broker.log.time_index import TimeIndex
from highwater.broker.log.transaction_index import AbortedTransaction, TransactionIndex
from highwater.kafka.protocol.produce_run import PartitionRun
from highwater.kafka.records.batch import (
    CREDIBLE_MS,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    ReadableBuffer,
    foreign_format,
    read_header,
)
from highwater.kafka.records.compress import DEFAULT_LIMIT_BYTES
from highwater.kafka.records.record import let_go, unfolded_records
from highwater.kafka.records.record_times import HeaderBudget, first_record_from

_MOST_READERS: Final = 8
"""For how many readers a segment notes where they go on."""
_FORMAT_PROBE_BYTES: Final = 1 << 20
_TAIL_BYTES: Final = 64 * 1024
"""The last batch with an index entry is most likely in so many bytes at the end of a segment."""

_logger = logging.getLogger(__name__)

_PRODUCER: Final = struct.Struct("=2q")
_Result = TypeVar("_Result")
Observe: TypeAlias = Callable[[BatchHeader, memoryview, int], None]


class Recovered(NamedTuple):
    end_offset: int
    """Where the log ends after the segment."""
    damage: CorruptBatch | None
    """What the first batch had that was removed."""


class Segment(SegmentFile):
    def __init__(
        self,
        files: FileOperations,
        directory: Path,
        base_offset: int,
        open_segments: OpenSegments,
        *,
        index_interval_bytes: int,
        size_bytes: int = 0,
        created_ms: int,
        has_aborted: bool = False,
        aside: str = "",
    ) -> None:
        """`aside` is a suffix of the names of all files, for a segment that is not yet part of the log."""
        names = SegmentNames(directory, base_offset, aside)
        super().__init__(files, names.path(LOG_SUFFIX), open_segments, size_bytes)
        self.base_offset = base_offset
        self.is_sealed = False
        self.indexes = SegmentIndexes(files, names, index_interval_bytes, has_aborted=has_aborted)
        self._created_ms = created_ms
        self._jitter = random.random()
        self._first_batch_timestamp_ms: int | None = None
        self._looked_at: Look | None = None
        """The last look at the records, with the largest timestamp that it found."""
        self._ends_of_reads: dict[int, int] | None = None
        """{offset: the position of its batch} of those where reads ended: most readers go on there."""

    @classmethod
    def create(
        cls,
        files: FileOperations,
        directory: Path,
        base_offset: int,
        open_segments: OpenSegments,
        config: LogConfig,
        now_ms: int,
        aside: str = "",
    ) -> Segment:
        """Make the files of an empty segment; files of the same names are emptied. An OSError leaves none of them."""
        segment = cls(
            files,
            directory,
            base_offset,
            open_segments,
            index_interval_bytes=config.index_interval_bytes,
            created_ms=now_ms,
            aside=aside,
        )
        segment.indexes.begin()
        try:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
                write_file(files, segment.file(suffix), b"")
            segment._may_have_rest = config.preallocate
            if config.preallocate:
                files.preallocate(segment._open(), config.segment_bytes)
        except OSError as error:
            # The segment before continues to grow, and the next start would find an overlap of both.
            segment._discard(error)
            raise
        return segment

    def _discard(self, reason: OSError) -> None:
        self.release()
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            path = self.file(suffix)
            try:
                if self._files.exists(path):
                    self._files.remove(path)
            except OSError as error:
                reason.add_note(f"and {path} could not be removed again: {error}")

    def __repr__(self) -> str:
        return f"Segment({str(self._path)!r}, {self.size_bytes} bytes)"

    def file(self, suffix: str) -> Path:
        return self.indexes.names.path(suffix)

    # Appending

    def must_roll(
        self, config: LogConfig, size_bytes: int, max_timestamp_ms: int, last_offset: int, now_ms: int
    ) -> bool:
        """Whether a batch of this size, timestamp and last offset must begin a new segment.

        The age of the segment is the new batch's largest timestamp less that of the first batch. If the first batch has
        none, it is the time since the segment was made (LogSegment.timeWaitedForRoll). The jitter makes each segment
        end a bit earlier, so that segments that began together do not end together.
        """
        if self.size_bytes == 0:
            return False
        first_ms = self._first_batch_timestamp_ms
        if first_ms is None:
            first_ms = self.first_batch_timestamp_ms
        age_ms = max_timestamp_ms - first_ms if first_ms >= 0 else now_ms - self._created_ms
        by_offset, by_time = self.indexes.by_offset, self.indexes.by_time
        if by_offset is None or by_time is None:
            by_offset, by_time = self.offset_index, self.time_index
        return (
            self.size_bytes > config.segment_bytes - size_bytes
            or age_ms > self._most_age_ms(config)
            or by_offset.is_full(config.segment_index_bytes)
            or by_time.is_full(config.segment_index_bytes)
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        )

    def _most_age_ms(self, config: LogConfig) -> int:
        jitter_ms = config.segment_jitter_ms and int(self._jitter * min(config.segment_jitter_ms, config.segment_ms))
        return config.segment_ms - jitter_ms

    def begin_run(self, run: PartitionRun, config: LogConfig, now_ms: int) -> bool:
        """Note in a run what may follow without a new segment. False if that is nothing, or not known."""
        first_ms, by_offset, by_time = self._first_batch_timestamp_ms, self.indexes.by_offset, self.indexes.by_time
        if self.size_bytes == 0 or first_ms is None or by_offset is None or by_time is None:
            return False
        most_age_ms, index_bytes = self._most_age_ms(config), config.segment_index_bytes
        if first_ms >= 0:
            run.latest_ms = first_ms + most_age_ms
        elif now_ms - self._created_ms > most_age_ms:
            return False
        run.most_bytes = config.segment_bytes - self.size_bytes
        run.most_batches = min(by_offset.entries_left(index_bytes), by_time.entries_left(index_bytes))
        run.largest_offset = self.base_offset + MAX_RELATIVE_OFFSET
        return True

    def append(self, batch: ReadableBuffer, last_offset: int, max_timestamp_ms: int) -> None:
        """Add one whole batch. After an OSError nothing has changed, but for bytes past the end."""
        indexes = self.indexes
        if indexes.by_offset is None:
            self._load_indexes()
        position = self._write(batch)
        if position == 0:
            self._first_batch_timestamp_ms = max_timestamp_ms
        indexes.add(position, len(batch), last_offset, max_timestamp_ms)

    def extend(self, batches: ReadableBuffer, headers: Iterable[BatchHeader]) -> None:
        """Add whole batches in one write. After an OSError nothing has changed, but for bytes past the end."""
        indexes = self.indexes
        if indexes.by_offset is None:
            self._load_indexes()
        position = self._write(batches)
        for header in headers:
            if position == 0:
                self._first_batch_timestamp_ms = header.max_timestamp_ms
            indexes.add(position, header.size_bytes, header.last_offset, header.largest_timestamp_ms)
            position += header.size_bytes

    def append_run(self, run: PartitionRun) -> None:
        """Add the batches of a run in one write. After an OSError nothing has changed, but for bytes past the end."""
        position = self._write_all([batch.records for batch in run.batches], run.size_bytes)
        indexes = self.indexes
        for batch in run.batches:
            indexes.add(position, batch.size_bytes, batch.last_offset, batch.max_timestamp_ms)
            position += batch.size_bytes

    def load_transaction_index(self) -> None:
        """Read the index of aborted transactions into memory, unless it is there. Raises OSError, CorruptIndex."""
        if self.indexes.of_transactions is None:
            self.indexes.read_transactions()
            self._open_segments.used(self)

    def note_aborted(self, transaction: AbortedTransaction) -> None:
        """Note a transaction that the last batch aborted."""
        self.transaction_index.append(transaction)
        self.indexes.has_aborted = True

    def seal(self) -> None:
        """Finish the segment's files: nothing is appended any more."""
        self._loaded_indexes().finish()
        if self._may_have_rest:
            # Not always, as it waits while the last page is being written to the disk.
            self._files.truncate(self._open(), self.size_bytes)
            self._may_have_rest = False
        self.is_sealed = True

    def close(self) -> None:
        """Write all files and close them; the next start may continue the segment."""
        self.seal()
        self.release()

    def truncate(self, offset: int) -> int:
        """Remove the batches from the first one that has `offset` or later ones; returns the next offset.

        That is `offset`, or the base offset of a batch that `offset` is in the middle of. The truncation is durable: if
        a power cut brought the batches back, they might fit after those that are written next.
        """
        found = self.find(offset)
        if found is not None:
            position, header = found
            offset = min(offset, header.base_offset)
            # Load the indexes first: their files describe the log as it was.
            indexes = self._loaded_indexes()
            if indexes.has_aborted:
                self.load_transaction_index()
            self._files.truncate(self._open(), position)
            self._files.sync(self._open())
            self.size_bytes = position
            self._looked_at = self._ends_of_reads = None
            if position == 0:
                self._first_batch_timestamp_ms = None
            indexes.truncate(position, offset, self.headers)
        self.is_sealed = False
        return offset

    @property
    def created_ms(self) -> int:
        return self._created_ms

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        end_position: int,
        next_offset: int,
        at_least_one_batch: bool,
        only_cached: bool = False,
    ) -> bytes | bytearray | None:
        """Whole batches from the first one with `offset` or later ones, up to `end_position`; None if there is none.

        next_offset: the offset that begins at `end_position`; −1 if that is not in this segment. With `only_cached`
        NotCached where it would wait for the disk.
        """
        if only_cached:
            self._begin_without_waiting()
        try:
            position = self._position_to_read(offset)
            if position < 0:
                return None
            if position >= end_position:
                return b""
            end = position + max_bytes
            if end >= end_position:
                end = end_position
            else:
                end, next_offset = self._with_sound_index(lambda: self._last_boundary(position, end))
                if end == position:
                    if not at_least_one_batch:
                        return b""
                    header = read_header(self._pread(HEADER_SIZE, position))
                    end, next_offset = position + header.size_bytes, header.next_offset
            data = self._pread(end - position, position)
            if next_offset >= 0:
                self._note_end_of_read(next_offset, end)
            return data
        except NotCached:
            raise self._not_cached(offset, max_bytes) from None
        finally:
            self._may_wait = True

    def _position_to_read(self, offset: int) -> int:
        """The position of the first batch with `offset` or later ones; −1 if there is none."""
        if self._ends_of_reads is not None and (position := self._ends_of_reads.get(offset)) is not None:
            return position if position < self.size_bytes else -1
        found = self.find(offset)
        return -1 if found is None else found[0]

    def _note_end_of_read(self, next_offset: int, position: int) -> None:
        """A reader came to this batch, and will go on there."""
        if self._ends_of_reads is None:
            self._ends_of_reads = {}
        ends = self._ends_of_reads
        if len(ends) >= _MOST_READERS and next_offset not in ends:
            del ends[next(iter(ends))]
        ends[next_offset] = position

    def _begin_without_waiting(self) -> None:
        if self.indexes.by_offset is None:
            self._require_cached_indexes()
            self._load_indexes()
        self._may_wait = False

    def _not_cached(self, offset: int, max_bytes: int) -> NotCached:
        """What a read of so many bytes from the batch of `offset` on needs: more than the first bytes it missed."""
        start, end = self.offset_index.span(offset, max_bytes)
        end = self.size_bytes if end is None else min(end + HEADER_WINDOW_BYTES, self.size_bytes)
        return NotCached([FilePiece(self._path, start, end - start)])

    def _require_cached_indexes(self) -> None:
        """Raise NotCached if the page cache lacks the index files, or the end of the log, which checks them."""
        start = max(0, self.size_bytes - _TAIL_BYTES)
        pieces = [FilePiece(path, 0, self.size_bytes) for path in self.indexes.paths[:2]]
        pieces.append(FilePiece(self._path, start, self.size_bytes - start))
        if not all(is_piece_cached(self._files, piece) for piece in pieces):
            raise NotCached(pieces)

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch with `offset` or later ones; None if there is none."""
        return self._with_sound_index(lambda: self._find(offset))

    def position_of(self, offset: int, *, only_cached: bool = False) -> int:
        """The position where a reader must stop that may only read offsets below `offset`.

        With `only_cached` NotCached where it would wait for the disk.
        """
        if only_cached:
            self._begin_without_waiting()
        try:
            found = self.find(offset)
        except NotCached:
            raise self._not_cached(offset, 0) from None
        finally:
            self._may_wait = True
        return self.size_bytes if found is None else found[0]

    def find_timestamp(self, timestamp_ms: int, start_offset: int, allowance: HeaderBudget) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record from `start_offset` on that is not before `timestamp_ms`.

        The max timestamp of a header may hide a later record by up to CREDIBLE_MS. As far as the `allowance` goes, such
        a record is found too.
        """
        return self._with_sound_index(lambda: self._find_timestamp(timestamp_ms, start_offset, allowance))

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """(largest timestamp or NO_TIMESTAMP, last offset of the batch that has it)."""
        largest = self.indexes.largest_timestamp
        if largest is None:
            self._load_indexes()
            largest = self.indexes.largest_timestamp
            assert largest is not None
        return largest

    @property
    def first_batch_timestamp_ms(self) -> int:
        if self._first_batch_timestamp_ms is None:
            try:
                first = next(self.headers(), None)
                self._first_batch_timestamp_ms = first[1].max_timestamp_ms if first is not None else NO_TIMESTAMP
            except CorruptBatch as error:
                _logger.error("%s is damaged: %s", self._path, error)
                self._first_batch_timestamp_ms = NO_TIMESTAMP
        return self._first_batch_timestamp_ms

    def is_older_than(self, time_ms: int, now_ms: int) -> bool | None:
        """Whether all records are from before `time_ms`; None if only a look at them can decide that (`wanted_look`).

        A segment without timestamps is as old as the last write to its file.
        """
        if self._looked_at is not None and self._looked_at.end_position == self.size_bytes:
            return self._looked_at.largest_ms < time_ms
        claimed_ms = self.largest_timestamp[0]
        if time_ms <= claimed_ms <= now_ms + CREDIBLE_MS:
            return False
        written_ms = self._written_ms()
        if claimed_ms < 0 or (claimed_ms < time_ms) == (written_ms < time_ms):
            return written_ms < time_ms
        return False if 0 <= written_ms - claimed_ms <= CREDIBLE_MS else None

    def wanted_look(self) -> Look:
        """What of the records is still to be looked at."""
        before = self._looked_at or Look(str(self._path), 0, 0)
        return before._replace(path=str(self._path), position=before.end_position, end_position=self.size_bytes)

    def looked(self, look: Look, largest_ms: int | None) -> None:
        """Note the largest timestamp that a look found; None if the records cannot be read.

        Such records are as young as the last write to their file.
        """
        if look.end_position <= self.size_bytes:
            found_ms = self._written_ms() if largest_ms is None else largest_ms
            self._looked_at = look._replace(largest_ms=found_ms)

    def _written_ms(self) -> int:
        return self.stamp().modified_ns // 1_000_000

    def end_of(self, offset: int, size_bytes: int) -> int | None:
        """An offset above all in a read of `size_bytes` from the batch of `offset` on; None: the segment's end."""
        found = self.find(offset)
        if found is None:
            return None
        return self.offset_index.first_offset_from(found[0] + size_bytes)

    # Loading and recovery

    def next_offset(self) -> int:
        """The offset after the last batch, read from the last index entry on. CorruptBatch if the tail is damaged."""
        if self.size_bytes <= HEADER_WINDOW_BYTES:
            # One read is enough, without the index files, unless there is damage before the last entry.
            with suppress(CorruptBatch):
                return self._next_offset(0)
        return self._next_offset(self.offset_index.last_entry[1])

    def _next_offset(self, position: int) -> int:
        next_offset = self.base_offset
        for _, header in self.headers(position):
            next_offset = header.next_offset
        return next_offset

    def recover(self, end_offset: int, observe: Observe) -> Recovered:
        """Check every batch, remove all from the first bad one on, and rebuild the indexes.

        `end_offset` is where the log ends before the segment. `observe` is called with each good batch that is of a
        transaction, or has a later leader epoch than those before it in the segment, and with the offset where the log
        ends before the batch; and with the last batches of other producers, which have their headers alone.
        Raises LogDirectoryError for batches of another format.
        """
        indexes = self.indexes
        indexes.begin()
        indexes.forget_aborted()
        self._first_batch_timestamp_ms = None
        damage: CorruptBatch | None = None
        latest_epoch = NO_EPOCH
        next_offset = self.base_offset
        start, at = 0, 0
        buffer = self._buffer(0)
        last_batches = _LastBatches(observe)
        try:
            while start < self.size_bytes:
                buffer, window = self._window(buffer, start)
                why = OBSERVE
                while why == OBSERVE:
                    walked = indexes.add_all(window, at, start, next_offset, latest_epoch)
                    at, why, next_offset = walked.end, walked.why, walked.next_offset
                    last_batches.note(window, walked.producers)
                    if why == OBSERVE:
                        last_batches.observe()
                        header = read_header(window, walked.begun)
                        offset_before = walked.offset_before if start + walked.begun else end_offset
                        observe(header, window[walked.begun : at], offset_before)
                        latest_epoch = max(latest_epoch, header.leader_epoch)
                if why != WHOLE:
                    raise self._damage(why, start + at, read_header(window, at), next_offset)
                # Of a batch that is not whole here, or none, the next window says what is wrong with it.
                start += at
                at = 0
        except CorruptBatch as error:
            damage = error
            probe = b"" if start + at else self._pread(min(_FORMAT_PROBE_BYTES, self.size_bytes), 0)
            if (found := foreign_format(probe)) is not None:
                raise LogDirectoryError(
                    f"{self._path}: {found}; this broker keeps format 2 only, so copy the topic over with a consumer "
                    "and a producer"
                ) from error
            self._files.truncate(self._open(), start + at)
            # If a power cut brought back what is removed here, it might fit after what is written meanwhile.
            self._files.sync(self._open())
            self.size_bytes = start + at
        last_batches.observe()
        return Recovered(next_offset if self.size_bytes else end_offset, damage)

    def _damage(self, why: int, position: int, header: BatchHeader, next_offset: int) -> CorruptBatch:
        if why == BAD_CRC:
            return CorruptBatch(f"the CRC of the batch at {position} does not match")
        if why == OUT_OF_ORDER:
            return CorruptBatch(f"the batch at {position} has offset {header.base_offset} after {next_offset - 1}")
        return CorruptBatch(f"offset {header.last_offset} is too far from the segment's {self.base_offset}")

    # Files

    def go_on_in(self, directory: Path, open_segments: OpenSegments) -> None:
        """Use the files in another folder, which are equal, from now on; not while the segment is pinned."""
        self.release()
        self.indexes.names = self.indexes.names._replace(directory=directory)
        self._path = self.file(LOG_SUFFIX)
        self._open_segments = open_segments

    def release(self) -> None:
        super().release()
        self._ends_of_reads = None
        if self.is_sealed:
            self.indexes.release()

    @property
    def offset_index(self) -> OffsetIndex:
        index = self.indexes.by_offset
        if index is None:
            index = self._loaded_indexes().by_offset
            assert index is not None
        return index

    @property
    def time_index(self) -> TimeIndex:
        index = self.indexes.by_time
        if index is None:
            index = self._loaded_indexes().by_time
            assert index is not None
        return index

    @property
    def transaction_index(self) -> TransactionIndex:
        """Raises CorruptIndex if the file is no index of this segment, and OSError."""
        self.load_transaction_index()
        assert self.indexes.of_transactions is not None
        return self.indexes.of_transactions

    def _find(self, offset: int) -> tuple[int, BatchHeader] | None:
        entry_offset, start, next_start = self.offset_index.lookup_between(offset)
        # Entries far apart have one large batch between them. Whoever reads on after it wants the batch of the second.
        if (
            next_start - start > HEADER_WINDOW_BYTES
            and (header := self._header_at(next_start)) is not None
            and header.base_offset <= offset <= header.last_offset
        ):
            return next_start, header
        for position, header in self._headers_from_entry(entry_offset, start):
            if header.last_offset >= offset:
                return position, header
        return None

    def _last_boundary(self, start: int, end: int) -> tuple[int, int]:
        """(position, offset) of the last batch that begins at or below `end`; at `start` a batch begins.

        The offset is −1 if that is the end of the segment.
        """
        entry_offset, position = self.offset_index.lookup_position(end)
        entries = self._headers_from_entry(entry_offset, position) if position > start else self.headers(start)
        for position, header in entries:
            if position + header.size_bytes > end:
                return position, header.base_offset
        return self.size_bytes, -1

    def _find_timestamp(self, timestamp_ms: int, start_offset: int, allowance: HeaderBudget) -> tuple[int, int] | None:
        least_ms = timestamp_ms - CREDIBLE_MS
        _, indexed_offset = self.time_index.lookup(least_ms)
        entry_offset, position = self.offset_index.lookup(max(indexed_offset, start_offset))
        doubtful: deque[tuple[int, BatchHeader]] = deque()
        doubtful_records = 0
        for at, header in self._headers_from_entry(entry_offset, position):
            if header.max_timestamp_ms < least_ms or header.last_offset < start_offset:
                continue
            if header.max_timestamp_ms < timestamp_ms:
                # Nearly always the header is right. So the last ones before its answer are looked at, and no more.
                doubtful.append((at, header))
                doubtful_records += header.record_count
                while doubtful_records > allowance.records:
                    doubtful_records -= doubtful.popleft()[1].record_count
                continue
            if (found := self._find_in_doubtful(doubtful, timestamp_ms, start_offset, allowance)) is not None:
                return found
            doubtful.clear()
            doubtful_records = 0
            try:
                batch = self._pread(header.size_bytes, at)
                body = unfolded_records(batch, header, limit_bytes=DEFAULT_LIMIT_BYTES)
                try:
                    found = first_record_from(body, header, timestamp_ms, start_offset, gives_way=True)
                finally:
                    let_go(body)
            except CorruptBatch:
                # The broker appended the batch unopened, and its records cannot be read. Consumers will notice; this
                # answer is as exact as the header allows.
                return header.max_timestamp_ms, max(header.base_offset, start_offset)
            if found is not None:
                return found
        return self._find_in_doubtful(doubtful, timestamp_ms, start_offset, allowance)

    def _find_in_doubtful(
        self, batches: deque[tuple[int, BatchHeader]], timestamp_ms: int, start_offset: int, allowance: HeaderBudget
    ) -> tuple[int, int] | None:
        """Look for a record in batches whose headers say that they have none so late; in the last ones first."""
        first: tuple[int, int] | None = None
        for at, header in reversed(batches):
            if not allowance.holds(header):
                break
            body = allowance.open(self._pread(header.size_bytes, at), header)
            try:
                found = None if body is None else first_record_from(body, header, timestamp_ms, start_offset)
            except CorruptBatch:
                continue
            first = found or first
        return first

    def _headers_from_entry(self, entry_offset: int, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Headers from an index entry on; CorruptIndex if the entry does not point to the batch of its offset."""
        is_first = position > 0
        for at, header in self.headers(position):
            if is_first and not self.base_offset <= header.base_offset <= entry_offset:
                raise CorruptIndex(f"the entry of offset {entry_offset} points to offset {header.base_offset}")
            is_first = False
            yield at, header

    def _with_sound_index(self, look_up: Callable[[], _Result]) -> _Result:
        """Index files have no checksum: if a lookup fails, rebuild them from the log once, and repeat the lookup."""
        try:
            return look_up()
        except (CorruptIndex, CorruptBatch) as error:
            if self.indexes.are_sound:
                raise
            _logger.warning("%s: making the indexes anew: %s", self._path, error)
            self._rebuild_indexes()
            return look_up()

    def _loaded_indexes(self) -> SegmentIndexes:
        """The indexes, those by offset and time in memory."""
        if self.indexes.by_offset is None:
            self._load_indexes()
        return self.indexes

    def _load_indexes(self) -> None:
        try:
            self.indexes.read(self.size_bytes)
            self._check_largest_timestamp(self.time_index)
        except (CorruptIndex, CorruptBatch, FileNotFoundError) as error:
            _logger.warning("%s: making the indexes anew: %s", self._path, error)
            self._rebuild_indexes()

    def _check_largest_timestamp(self, index: TimeIndex) -> None:
        """CorruptIndex if the last entry is wrong: it would hide the segment from lookups by time, unnoticed."""
        timestamp_ms, offset = index.last_entry
        found = self._find(offset)
        if found is None:
            return
        _, header = found
        is_told_of = header.base_offset <= offset and header.max_timestamp_ms == timestamp_ms
        if not is_told_of if len(index) else header.largest_timestamp_ms >= 0:
            raise CorruptIndex(
                f"the time index ends with {timestamp_ms} at offset {offset}, which the log does not have"
            )

    def _rebuild_indexes(self) -> None:
        """Rebuild the indexes from the log file, up to the first damage: lookups find nothing after it."""
        indexes = self.indexes
        indexes.begin()
        self._first_batch_timestamp_ms = None
        self._may_wait = True  # half an index would be worse than a wait
        try:
            for position, header in self.headers():
                if not 0 <= header.last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
                    raise CorruptBatch(f"offset {header.last_offset} is too far from the segment's {self.base_offset}")
                indexes.add(position, header.size_bytes, header.last_offset, header.largest_timestamp_ms)
        except CorruptBatch as error:
            _logger.error("%s is damaged: %s", self._path, error)
        indexes.finish_anew()
        # The segment may be below the recovery point, where a recovery trusts the files.
        indexes.sync()


class _LastBatches:
    """The headers of the last batches of each producer: what a producer wrote before them is forgotten anyway."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self._by_producer = defaultdict[int, deque[bytes]](partial(deque, maxlen=BATCHES_KEPT))

    def note(self, window: memoryview, producers: bytes) -> None:
        """`producers` as in `Walked`."""
        for producer_id, at in _PRODUCER.iter_unpack(producers):
            self._by_producer[producer_id].append(bytes(window[at : at + HEADER_SIZE]))

    def observe(self) -> None:
        """Have them observed, and begin anew."""
        for found in chain.from_iterable(self._by_producer.values()):
            header = read_header(found)
            self._observe(header, memoryview(found), header.base_offset)
        self._by_producer.clear()
