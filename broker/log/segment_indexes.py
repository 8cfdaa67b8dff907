"""The indexes of one segment: in memory, where they are searched and grow, and in their files.

There are three indexes: by offset, by time, and one of aborted transactions if there are any. The last one can only be
rebuilt with knowledge of the transactions that were open before the segment (`broker.log.recovery`). An index that is
None is not in memory: the segment reads it from its file, or rebuilds it from the batches, before it uses it.

Invariants:
- The entries of an active segment are in memory, and are written to their files when it is sealed, closed or
  checkpointed. After a crash they are rebuilt from the log file.
- `written_entries` of an index is the number of entries that its file has.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from highwater.broker.log import offset_index, time_index, transaction_index
from highwater.broker.log.batch_walk import Walked, fastest_walk
from highwater.broker.log.files import FileOperations, sync_file, write_file
from highwater.broker.log.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from highwater.broker.log.segment_names import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SegmentNames,
)
from highwater.broker.log.time_index import TimeIndex
from highwater.broker.log.transaction_index import TransactionIndex
from highwater.kafka.records.batch import NO_TIMESTAMP, BatchHeader

_ENTRY: Final = struct.Struct("=4q")
_LAST_INT64: Final = 2**63 - 1
"""No record has this offset, as a log must have a next one."""
walk: Final = fastest_walk()


class SegmentIndexes:
    __slots__ = (
        "_bytes_since_entry",
        "_files",
        "_interval_bytes",
        "are_sound",
        "by_offset",
        "by_time",
        "has_aborted",
        "largest_timestamp",
        "names",
        "of_transactions",
    )

    def __init__(self, files: FileOperations, names: SegmentNames, interval_bytes: int, *, has_aborted: bool) -> None:
        """A batch gets an entry if more than `interval_bytes` precede it since the last entry."""
        self.names = names
        self.by_offset: OffsetIndex | None = None
        self.by_time: TimeIndex | None = None
        self.of_transactions: TransactionIndex | None = None
        self.has_aborted = has_aborted
        """Whether a transaction was aborted in the segment, so that it has a transaction index."""
        self.are_sound = False
        """Whether they were made from the batches, and not read from files."""
        self.largest_timestamp: tuple[int, int] | None = None
        """(largest timestamp or NO_TIMESTAMP, last offset of the batch that has it); None if not known yet."""
        self._files = files
        self._interval_bytes = interval_bytes
        self._bytes_since_entry = 0

    @property
    def paths(self) -> list[Path]:
        """The index files of a sealed segment."""
        suffixes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, *([TRANSACTION_INDEX_SUFFIX] if self.has_aborted else []))
        return [self.names.path(suffix) for suffix in suffixes]

    def begin(self) -> None:
        """Begin empty indexes by offset and time, to which all batches of the segment are added next."""
        self.by_offset = OffsetIndex(self.names.base_offset)
        self.by_time = TimeIndex(self.names.base_offset)
        self.largest_timestamp = NO_TIMESTAMP, self.names.base_offset
        self.are_sound = True
        self._bytes_since_entry = 0

    def add(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Note a batch; the indexes by offset and time are in memory."""
        largest = self.largest_timestamp
        if largest is None or max_timestamp_ms > largest[0]:
            largest = self.largest_timestamp = (max_timestamp_ms, last_offset)
        if self._bytes_since_entry > self._interval_bytes:
            assert self.by_offset is not None
            assert self.by_time is not None
            self.by_offset.append(last_offset, position)
            self.by_time.append_if_later(*largest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def add_all(self, window: memoryview, at: int, start: int, next_offset: int, latest_epoch: int) -> Walked:
        """Note the batches from `at` on that are whole and good, after `begin`.

        `start` is where the window begins in the segment, and `next_offset` the least that a batch may have.
        """
        by_offset, by_time, largest = self.by_offset, self.by_time, self.largest_timestamp
        assert by_offset is not None
        assert by_time is not None
        assert largest is not None
        unfit_offset = min(self.names.base_offset + MAX_RELATIVE_OFFSET + 1, _LAST_INT64)
        so_far = self._interval_bytes, self._bytes_since_entry, *largest
        walked = walk(window, at, start, next_offset, unfit_offset, latest_epoch, *so_far)
        self._bytes_since_entry = walked.bytes_since_entry
        self.largest_timestamp = walked.largest_ms, walked.largest_offset
        for last_offset, position, timestamp_ms, offset in _ENTRY.iter_unpack(walked.entries):
            by_offset.append(last_offset, position)
            by_time.append_if_later(timestamp_ms, offset)
        return walked

    # Files

    def read(self, log_size_bytes: int) -> None:
        """Read the indexes by offset and time. Raises CorruptIndex, FileNotFoundError and other OSErrors."""
        offset_data, time_data = (
            self._files.read(self.names.path(suffix)) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        )
        by_offset = OffsetIndex.decode(offset_data, self.names.base_offset, log_size_bytes)
        by_time = TimeIndex.decode(time_data, self.names.base_offset)
        self.by_offset, self.by_time = by_offset, by_time
        if self.largest_timestamp is None:
            self.largest_timestamp = by_time.last_entry

    def read_transactions(self) -> TransactionIndex:
        """Read the transaction index into memory. Raises CorruptIndex if the file is not of this segment, OSError."""
        data = self._files.read(self.names.path(TRANSACTION_INDEX_SUFFIX)) if self.has_aborted else b""
        index = TransactionIndex.decode(data, self.names.base_offset)
        self.of_transactions = index
        return index

    def check_transactions(self) -> None:
        """Read the file of the transaction index, if there is one. Raises CorruptIndex and OSError."""
        if self.has_aborted:
            TransactionIndex.decode(self._files.read(self.names.path(TRANSACTION_INDEX_SUFFIX)), self.names.base_offset)

    def write(self) -> None:
        """Write the entries that are in memory to the index files, without fsync."""
        for suffix, index, entry_size in self._in_memory():
            if len(index) == index.written_entries:
                continue
            descriptor = self._files.open(self.names.path(suffix), create=True)
            try:
                self._files.pwrite(descriptor, index.unwritten(), index.written_entries * entry_size)
            finally:
                self._files.close(descriptor)
            index.written_entries = len(index)

    def finish(self) -> None:
        """Write the entries in memory, and last in the index by time the largest timestamp, for a segment that ends."""
        self._add_largest()
        self.write()

    def recover(self, *, is_active: bool, has_files: bool) -> None:
        """Make the files by offset and time agree with the entries, after `begin` and `add`.

        A file that has other entries is emptied. `has_files`: False if both are there and are empty.
        """
        if not is_active:
            self._add_largest()
        if has_files:
            self._keep_what_agrees()
        if not is_active:
            self.write()

    def _keep_what_agrees(self) -> None:
        for suffix, index, entry_size in self._in_memory():
            if index is self.of_transactions:
                continue
            path = self.names.path(suffix)
            try:
                found = self._files.read(path)
                agrees = not found or index.unwritten().startswith(found)
            except FileNotFoundError:
                found, agrees = b"", False
            if agrees:
                index.written_entries = len(found) // entry_size
            else:
                write_file(self._files, path, b"")

    def _add_largest(self) -> None:
        assert self.by_time is not None
        assert self.largest_timestamp is not None
        self.by_time.append_if_later(*self.largest_timestamp)

    def finish_anew(self) -> None:
        """Write the files from their beginning, after `begin` and `add`."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            write_file(self._files, self.names.path(suffix), b"")
        self.finish()

    def sync(self) -> None:
        """fsync the indexes by offset and time."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            sync_file(self._files, self.names.path(suffix))

    def forget_aborted(self) -> None:
        """Empty the transaction index; the caller notes the transactions again."""
        self.of_transactions = TransactionIndex()
        if self.has_aborted:
            write_file(self._files, self.names.path(TRANSACTION_INDEX_SUFFIX), b"")

    def truncate(self, position: int, offset: int, headers: Callable[[int], Iterator[tuple[int, BatchHeader]]]) -> None:
        """Remove the entries of the batches from `position` and `offset` on. All indexes are in memory.

        `headers` returns the batches of the truncated segment from a position on.
        """
        by_offset, by_time, of_transactions = self.by_offset, self.by_time, self.of_transactions
        assert by_offset is not None
        assert by_time is not None
        by_offset.truncate(position)
        by_time.truncate(offset)
        if of_transactions is not None:
            of_transactions.truncate(offset)
            self.has_aborted = len(of_transactions) > 0
        for suffix, index, entry_size in self._in_memory():
            if index.written_entries > len(index):
                index.written_entries = len(index)
                descriptor = self._files.open(self.names.path(suffix))
                try:
                    self._files.truncate(descriptor, len(index) * entry_size)
                    if index is of_transactions:
                        # Without aborted transactions `paths` does not name this index, so no flush syncs it.
                        self._files.sync(descriptor)
                finally:
                    self._files.close(descriptor)
        largest = by_time.last_entry
        _, indexed_to = by_offset.last_entry
        for _, header in headers(indexed_to):
            if header.largest_timestamp_ms > largest[0]:
                largest = header.largest_timestamp_ms, header.last_offset
        self.largest_timestamp = largest
        self._bytes_since_entry = position - indexed_to

    def release(self) -> None:
        """Forget what the files of a sealed segment have; the largest timestamp stays known."""
        self.by_offset = self.by_time = self.of_transactions = None
        self.are_sound = False

    def _in_memory(self) -> Iterator[tuple[str, OffsetIndex | TimeIndex | TransactionIndex, int]]:
        for suffix, index, entry_size in (
            (INDEX_SUFFIX, self.by_offset, offset_index.ENTRY_SIZE),
            (TIME_INDEX_SUFFIX, self.by_time, time_index.ENTRY_SIZE),
            (TRANSACTION_INDEX_SUFFIX, self.of_transactions, transaction_index.ENTRY_SIZE),
        ):
            if index is not None:
                yield suffix, index, entry_size
