"""Compaction keeps the last record of each key and deletes the others; offsets stay, with gaps.

A log has a clean part, which the last pass compacted, and a dirty part after it. A pass

1. notes the last offset of each key in the dirty part, as far as its memory allows;
2. copies the segments from the first on, several small ones into one, without each record whose key has a later record
   in the map;
3. yields each copy, and its caller replaces the originals by it before the pass makes the next copy.

A reader, a producer or a follower also relies on this:

- A tombstone (a null value) is deleted `delete.retention.ms` after a pass first copied it, so that a reader who began
  before it still reads it. The batch has the time of the deletion in the place of its base timestamp (KIP-534).
- The batch with the last sequence number of a producer stays, if need be without records; without it a retry could be
  taken for new. The last batch of all stays too: it shows where the next segment begins.
- A pass changes nothing at or past the first offset of an undecided transaction. It deletes the records of aborted
  transactions, and later their markers, which have a time of deletion of their own.
- The codec, timestamps, producer and leader epoch of a batch stay.

(Apache Kafka, LogCleaner.scala and MemoryRecords.filterTo.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from highwater.broker.log.compaction_job import CleanedGroup, Job, Pass
from highwater.broker.log.config import LogConfig
from highwater.broker.log.files import FileOperations, sync_file, write_file
from highwater.broker.log.offset_index import MAX_RELATIVE_OFFSET
from highwater.broker.log.offset_map import ENTRY_BYTES, OffsetMap
from highwater.broker.log.open_segments import OpenSegments
from highwater.broker.log.segment import Segment
from highwater.broker.log.segment_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from highwater.broker.log.transaction_index import AbortedTransaction, decode_aborted, encode_aborted
from highwater.kafka.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    ReadableBuffer,
    TimestampType,
    crc_is_valid,
    read_header,
    update_crc,
)
from highwater.kafka.records.compress import compress
from highwater.kafka.records.record import outlines, read_end_marker, uncompressed_records, with_timestamp_delta

_MAX_OPEN_SOURCES: Final = 16
_COUNTED_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)


class Transactions:
    """Which batches belong to aborted transactions, and which markers have no batches left."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._has_batches: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """The aborted transactions whose marker has to stay."""

    def is_aborted(self, header: BatchHeader) -> bool:
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._has_batches.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def marks_nothing(self, header: BatchHeader, batch: ReadableBuffer) -> bool:
        self._reach(header.last_offset)
        marker = read_end_marker(batch, header)
        producer_id = header.producer_id
        if marker is None:
            return header.record_count == 0
        if marker.is_commit:
            had_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_batches
        transaction = self._aborted.pop(producer_id, None)
        had_batches = producer_id in self._has_batches
        self._has_batches.discard(producer_id)
        if transaction is not None and had_batches:
            self.kept.append(transaction)
            return False
        return True

    def _reach(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            transaction = self._to_come.pop()
            self._aborted[transaction.producer_id] = transaction


def compact(files: FileOperations, job: Job, moved: Callable[[int], None]) -> Iterator[CleanedGroup | Pass]:
    """Make the pass. Yields each group when it is written, and at the end the `Pass`.

    The caller replaces the segments of a group before it asks for the next. `moved` gets the number of bytes that were
    read or written, now and then. Raises CorruptBatch or CorruptIndex when the log is damaged, and OSError.
    """
    return _Compaction(files, job, moved).run()


class _Compaction:
    def __init__(self, files: FileOperations, job: Job, moved: Callable[[int], None]) -> None:
        self._files = files
        self._job = job
        self._moved = moved
        self._directory = Path(job.directory)
        self._open = OpenSegments(_MAX_OPEN_SOURCES)
        self._segments = [self._segment(base_offset, size) for base_offset, size in job.segments]
        self._producers = {producer_id: (offset, epoch) for producer_id, offset, epoch in job.producers}
        self._aborted: list[AbortedTransaction] = []
        self._map = OffsetMap(0)
        self._mapped_end = job.end_offset
        self._records_read = self._records_kept = 0
        self._config = LogConfig(segment_bytes=job.segment_bytes, index_interval_bytes=job.index_interval_bytes)

    def run(self) -> Iterator[CleanedGroup | Pass]:
        try:
            self._aborted = self._find_aborted()
            self._build_map()
            sources = [segment for segment in self._segments if segment.base_offset < self._mapped_end]
            transactions = Transactions(self._aborted)
            for group in self._groups(sources):
                yield self._clean(group, transactions)
                for segment in group:
                    segment.release()
            yield Pass(self._mapped_end, self._records_read, self._records_kept)
        finally:
            for segment in self._segments:
                segment.release()

    def _segment(self, base_offset: int, size_bytes: int) -> Segment:
        segment = Segment(
            self._files,
            self._directory,
            base_offset,
            self._open,
            index_interval_bytes=self._job.index_interval_bytes,
            size_bytes=size_bytes,
            created_ms=self._job.now_ms,
        )
        segment.is_sealed = True
        return segment

    def _find_aborted(self) -> list[AbortedTransaction]:
        found = [AbortedTransaction(*fields) for fields in self._job.aborted_later]
        for segment in self._segments:
            path = segment.file(TRANSACTION_INDEX_SUFFIX)
            if self._files.exists(path):
                found += decode_aborted(self._files.read(path))
        return found

    # The map of keys

    def _build_map(self) -> None:
        job = self._job
        dirty = [
            segment
            for segment, end_offset in zip(self._segments, self._end_offsets(), strict=True)
            if end_offset > job.first_dirty_offset
        ]
        # The markers of transactions that ended before the dirty part are not in it.
        first_offset = dirty[0].base_offset if dirty else job.end_offset
        transactions = Transactions([aborted for aborted in self._aborted if aborted.last_offset >= first_offset])
        capacity = 0
        for segment in dirty:
            for header, batch in self._sound_batches(segment):
                if header.last_offset < job.first_dirty_offset:
                    continue
                if header.is_control:
                    transactions.marks_nothing(header, batch)
                    continue
                if transactions.is_aborted(header):
                    continue
                if not capacity:
                    # At most the number of records that there can be, and at least the records of one batch.
                    wanted = min(
                        int(job.map_bytes / ENTRY_BYTES * job.map_load_factor), job.end_offset - header.base_offset
                    )
                    capacity = max(wanted, header.record_count)
                    self._map = OffsetMap(int(capacity / job.map_load_factor) + 1)
                if len(self._map) + header.record_count > capacity:
                    self._mapped_end = header.base_offset
                    return
                for record in outlines(uncompressed_records(batch, header), header):
                    offset = header.base_offset + record.offset_delta
                    if record.key is not None and offset >= job.first_dirty_offset:
                        self._map.put(record.key, offset)

    def _end_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self._segments[1:]] + [self._job.end_offset]

    def _sound_batches(self, segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches of a segment. CorruptBatch if one is damaged: a person has to look at it."""
        next_offset = segment.base_offset
        for position, header, batch in segment.batches():
            if not crc_is_valid(batch, 0, header):
                raise CorruptBatch(f"{segment}: the CRC of the batch at {position} does not match")
            if not next_offset <= header.base_offset <= header.last_offset < self._job.end_offset:
                raise CorruptBatch(
                    f"{segment}: the batch at {position} has offset {header.base_offset} after {next_offset - 1}"
                )
            self._moved(header.size_bytes)
            yield header, batch
            next_offset = header.next_offset

    # The copies

    def _groups(self, segments: list[Segment]) -> Iterator[list[Segment]]:
        """Groups of segments that fit into one: by size, by their indexes and by the limit of relative offsets."""
        job = self._job
        file_sizes = {entry.name: entry.size_bytes for entry in self._files.list(self._directory)}
        group: list[Segment] = []
        sizes = [0, 0, 0]
        for segment, end_offset in zip(segments, self._end_offsets()[: len(segments)], strict=True):
            added = [file_sizes.get(segment.file(suffix).name, 0) for suffix in _COUNTED_SUFFIXES]
            together = [size + more for size, more in zip(sizes, added, strict=True)]
            fits = (
                together[0] <= job.segment_bytes
                and together[1] <= job.segment_index_bytes
                and together[2] <= job.segment_index_bytes
            )
            if group and not (fits and end_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET):
                yield group
                group, together = [], added
            group.append(segment)
            sizes = together
        if group:
            yield group

    def _clean(self, group: list[Segment], transactions: Transactions) -> CleanedGroup:
        aside = self._job.aside
        cleaned = Segment.create(
            self._files,
            self._directory,
            group[0].base_offset,
            self._open,
            self._config,
            self._job.now_ms,
            aside=aside,
        )
        for segment in group:
            for header, batch in self._sound_batches(segment):
                kept = self._clean_batch(header, batch, transactions)
                if kept is not None:
                    cleaned.append(kept, header.last_offset, read_header(kept).largest_timestamp_ms)
                    self._moved(len(kept))
        cleaned.seal()
        cleaned.release()
        suffixes = [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX]
        if transactions.kept:
            write_file(self._files, cleaned.file(TRANSACTION_INDEX_SUFFIX), encode_aborted(transactions.kept))
            transactions.kept = []
            suffixes.append(TRANSACTION_INDEX_SUFFIX)
        for suffix in suffixes:
            sync_file(self._files, cleaned.file(suffix))
        return CleanedGroup([segment.base_offset for segment in group], cleaned.size_bytes, aside)

    def _clean_batch(self, header: BatchHeader, batch: memoryview, transactions: Transactions) -> ReadableBuffer | None:
        """What to keep of a batch: all of it, a new batch, or nothing."""
        job = self._job
        horizon_ms = header.delete_horizon_ms
        is_past_horizon = horizon_ms is not None and horizon_ms <= job.now_ms
        self._records_read += header.record_count
        is_empty_marker = header.is_control and transactions.marks_nothing(header, batch)
        drops_all = is_empty_marker and is_past_horizon if header.is_control else transactions.is_aborted(header)
        body = b""
        records = []
        has_tombstone = False
        if not drops_all:
            body = uncompressed_records(batch, header)
            for record in outlines(body, header):
                offset = header.base_offset + record.offset_delta
                if header.is_control or offset >= self._mapped_end:
                    records.append(record)
                elif (
                    record.key is not None
                    and offset >= self._map.get(record.key)
                    and (record.has_value or not is_past_horizon)
                ):
                    records.append(record)
                    has_tombstone |= not record.has_value
        self._records_kept += len(records)
        if not records:
            return self._emptied(header) if self._must_stay(header) else None
        sets_horizon = (has_tombstone or is_empty_marker) and horizon_ms is None
        if len(records) == header.record_count and not sets_horizon:
            return batch
        base_timestamp_ms = job.now_ms + job.delete_retention_ms if sets_horizon else header.base_timestamp_ms
        shift_ms = header.base_timestamp_ms - base_timestamp_ms
        pieces = [
            with_timestamp_delta(body, record, record.timestamp_delta + shift_ms)
            if shift_ms
            else body[record.start : record.end]
            for record in records
        ]
        max_timestamp_ms = header.max_timestamp_ms
        if header.timestamp_type is TimestampType.CREATE_TIME:
            max_timestamp_ms = header.base_timestamp_ms + max(record.timestamp_delta for record in records)
        return _batch(
            header,
            compress(header.codec, b"".join(pieces)),
            attributes=header.attributes | (DELETE_HORIZON_BIT if sets_horizon else 0),
            base_timestamp_ms=base_timestamp_ms,
            max_timestamp_ms=max_timestamp_ms,
            record_count=len(records),
        )

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.next_offset == self._job.end_offset:
            return True
        if header.producer_id == NO_PRODUCER_ID or header.producer_id not in self._producers:
            return False
        last_offset, epoch = self._producers[header.producer_id]
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    @staticmethod
    def _emptied(header: BatchHeader) -> bytearray:
        return _batch(
            header,
            b"",
            attributes=header.attributes & (TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT),
            base_timestamp_ms=NO_TIMESTAMP,
            max_timestamp_ms=header.max_timestamp_ms,
            record_count=0,
        )


def _batch(
    header: BatchHeader,
    payload: bytes,
    *,
    attributes: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    record_count: int,
) -> bytearray:
    """The batch with other records; its offsets, leader epoch and producer stay."""
    batch = bytearray(HEADER_SIZE) + payload
    changed = header._replace(
        length=len(batch) - LENGTH_OVERHEAD,
        attributes=attributes,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        record_count=record_count,
    )
    HEADER.pack_into(batch, 0, *changed)
    update_crc(batch, 0, len(batch))
    return batch
