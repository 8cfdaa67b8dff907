"""Loads a partition's log from its folder, after a clean stop or after a crash (recovery).

After a clean stop the files are whole, and the load only looks for the end of the last segment. After a crash it trusts
what lies below the recovery point, which was synced. It reads every segment from the one that ends there on, batch by
batch:

1. The first batch that is incomplete, fails its CRC or is out of order ends the log: recovery removes it, and all
   segments after it. It also removes all segments after a gap that reaches above the recovery point, unless compaction
   makes gaps, or made this one: a power cut can lose the last batches of one segment and keep the next.
2. It rebuilds the indexes of these segments.
3. It finds leader epochs that the checkpoint lacks in the batches, and forgets epochs past the end.
4. It reads the state of producers and their transactions from the latest snapshot at or before the first of these
   segments, and from the batches after the snapshot.

It rebuilds a damaged index of aborted transactions of any segment: from the batches of the segment, and from the
transactions that were open when the segment began.

(Apache Kafka, LogLoader.scala; it keeps what follows a gap.)
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from highwater.broker.log.checkpoint import LEADER_EPOCH_CHECKPOINT, MalformedFile, decode_epochs
from highwater.broker.log.clean_stop import WholeLog
from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import CorruptIndex, CorruptSnapshot, LogDirectoryError, SegmentsGone
from highwater.broker.log.files import TEMPORARY_SUFFIX, Entry, FileOperations, sync_file
from highwater.broker.log.leader_epochs import LeaderEpochs
from highwater.broker.log.open_segments import OpenSegments
from highwater.broker.log.producer_state import UNKNOWN_MS, ProducerStates
from highwater.broker.log.segment import Segment
from highwater.broker.log.segment_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from highwater.broker.log.transaction_index import AbortedTransaction
from highwater.kafka.records.batch import NO_PRODUCER_ID, BatchHeader, CorruptBatch
from highwater.kafka.records.record import read_end_marker

_logger = logging.getLogger(__name__)

# What an interrupted deletion or compaction leaves behind. A `.swap` file is none: it may be the only copy of its data.
_LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)
_UNFINISHED_SUFFIXES: Final = (*_LEFTOVER_SUFFIXES, SWAP_SUFFIX)
_REBUILT_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_OFFSET_DIGITS: Final = 20
_LONG_BYTES: Final = 1 << 20


@dataclass(slots=True)
class LogState:
    """A log as the load found it, ready for appends."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epochs: LeaderEpochs
    producer_states: ProducerStates
    snapshot_offset: int
    is_clean: bool
    doubtful_below: int = 0
    """The recovery point of the checkpoint, if it is past the end of the log."""


def make_log(
    files: FileOperations, directory: Path, config: LogConfig, open_segments: OpenSegments, now_ms: int
) -> LogState:
    """Make an empty log in an empty folder, without fsync. An OSError leaves no file."""
    segment = Segment.create(files, directory, 0, open_segments, config, now_ms)
    return LogState([segment], 0, 0, 0, LeaderEpochs(), ProducerStates(), snapshot_offset=0, is_clean=False)


@dataclass(slots=True)
class LogLoader:
    """Loads the folder of one partition; may run in any thread."""

    files: FileOperations
    directory: Path
    config: LogConfig
    open_segments: OpenSegments
    now_ms: int
    is_clean: bool
    recovery_point: int
    log_start_offset: int
    clean_offset: int = 0
    """The offset up to which the log is compacted, maybe under earlier settings."""

    def takes_long(self, entries: Sequence[Entry]) -> bool:
        """Whether a recovery of the folder with these entries may read so much that a thread of its own pays."""
        return (
            not self.is_clean
            and sum(entry.size_bytes for entry in entries if entry.name.endswith(LOG_SUFFIX)) >= _LONG_BYTES
        )

    def load(self, entries: Sequence[Entry]) -> LogState:
        """Load the log of the folder with these entries.

        With all files closed again, raises LogDirectoryError for what it cannot use, and OSError.
        """
        if has_leftovers(entry.name for entry in entries):
            self._remove_leftovers(entries)
            self._finish_swaps()
            entries = self.files.list(self.directory)
        sizes = {entry.name: entry.size_bytes for entry in entries}
        offsets = _offsets_by_suffix(sizes)
        if self.recovery_point > 0 and entries and not offsets[LOG_SUFFIX]:
            raise SegmentsGone(str(self.directory))
        segments = self._find_segments(sizes, offsets)
        try:
            return self._load(sizes, offsets[SNAPSHOT_SUFFIX], segments)
        except (LogDirectoryError, OSError):
            for segment in segments:
                segment.release()
            raise

    def take_over(self, whole: WholeLog) -> LogState | None:
        """Load the log as a clean stop left it, without its files; None if they are not as they were."""
        log_end_offset, states = whole.end_offset, ProducerStates()
        segments = [self._segment(base_offset, size_bytes) for base_offset, size_bytes in whole.segments]
        log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        if log_end_offset < max(self.recovery_point, log_start_offset):
            return None
        try:
            if whole.stamps != [*self.files.stamp(self.directory), *segments[-1].stamp()]:
                return None
            if whole.has_producers:
                path = self.directory / file_name(log_end_offset, SNAPSHOT_SUFFIX)
                states = ProducerStates.decode(self.files.read(path))
        except (FileNotFoundError, CorruptSnapshot):
            return None
        offsets = log_start_offset, log_end_offset, log_end_offset
        return self._state(segments, *offsets, LeaderEpochs(whole.leader_epochs), states, is_whole=True)

    def load_and_close(self, entries: Sequence[Entry]) -> LogState:
        """The same with all files closed: many logs may wait until somebody takes them up."""
        state = self.load(entries)
        for segment in state.segments:
            segment.release()
        return state

    def _load(self, sizes: Mapping[str, int], snapshots: list[int], segments: list[Segment]) -> LogState:
        leader_epochs = self._read_leader_epochs(sizes)
        log_start_offset = max(self.log_start_offset, segments[0].base_offset if segments else self.recovery_point)
        if not segments and self.recovery_point > 0:
            # Somebody emptied the folder to go on without the records. No others get their offsets.
            self._tell_of_loss(self.log_start_offset, self.recovery_point)

        recover_from = len(segments)
        log_end_offset = log_start_offset
        if segments and not self.is_clean:
            recover_from = first_unsynced_slot([s.base_offset for s in segments], self.recovery_point)
        elif segments:
            try:
                log_end_offset = segments[-1].next_offset()
            except CorruptBatch:
                _logger.warning("%s does not end as a clean stop leaves it: recovering it", segments[-1])
                recover_from = len(segments) - 1

        must_recover = recover_from < len(segments)
        replay_end = segments[recover_from].base_offset if must_recover else log_end_offset
        self._mend_transaction_indexes(segments[:recover_from], snapshots, log_start_offset)
        producer_states, snapshot_offset = _read_snapshot(
            self.files, self.directory, snapshots, log_start_offset, replay_end
        )
        if (replay_start := max(snapshot_offset, log_start_offset)) < replay_end:
            _replay(segments[:recover_from], replay_start, producer_states)
        if must_recover:
            log_end_offset = self._recover(segments, recover_from, sizes, leader_epochs, producer_states)

        is_whole = self.is_clean and not must_recover
        if segments and log_end_offset < log_start_offset:
            _logger.warning(
                "%s ends at offset %d, before its start offset %d: starting it there, empty",
                self.directory,
                log_end_offset,
                log_start_offset,
            )
            self._remove_segments(segments)
            segments.clear()
            is_whole = False
            producer_states = ProducerStates()
            leader_epochs.truncate_from_end(0)
            log_end_offset = log_start_offset
        if not segments:
            is_whole = False
            segments.append(
                Segment.create(
                    self.files, self.directory, log_start_offset, self.open_segments, self.config, self.now_ms
                )
            )
            if log_start_offset > 0:
                # From the next checkpoint on only the name of the file shows where the log starts.
                self.files.sync_directory(self.directory)
        leader_epochs.truncate_from_end(log_end_offset)
        leader_epochs.truncate_from_start(log_start_offset)
        remove_stray_snapshots(self.files, self.directory, snapshots, segments, log_end_offset)
        if log_end_offset < self.recovery_point:
            self._tell_of_loss(log_end_offset, self.recovery_point)
        offsets = log_start_offset, log_end_offset, snapshot_offset
        return self._state(segments, *offsets, leader_epochs, producer_states, is_whole=is_whole)

    def _state(
        self,
        segments: list[Segment],
        log_start_offset: int,
        log_end_offset: int,
        snapshot_offset: int,
        leader_epochs: LeaderEpochs,
        producer_states: ProducerStates,
        *,
        is_whole: bool,
    ) -> LogState:
        for segment in segments[:-1]:
            segment.is_sealed = True
        return LogState(
            segments=segments,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            # What recovery read may be in the page cache only, so it does not raise the recovery point.
            recovery_point=log_end_offset if is_whole else min(self.recovery_point, log_end_offset),
            leader_epochs=leader_epochs,
            producer_states=producer_states,
            snapshot_offset=snapshot_offset,
            is_clean=is_whole,
            doubtful_below=self.recovery_point if self.recovery_point > log_end_offset else 0,
        )

    def _tell_of_loss(self, first_offset: int, end_offset: int) -> None:
        _logger.error(
            "%s: the records of offsets %d to %d were on the disk and are gone",
            *(self.directory, first_offset, end_offset - 1),
        )

    def _remove_leftovers(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.name.endswith(_LEFTOVER_SUFFIXES):
                self.files.remove(self.directory / entry.name)

    def _finish_swaps(self) -> None:
        """Replace segments by the compacted segment that was made of them, if a crash interrupted that.

        A `.log.swap` was whole and synced before it got this name. It replaces all segments from its base offset to its
        last offset. A segment after its last offset may be one of its originals too: its records have later records of
        the same keys, so both together are still the log. (Apache Kafka, LogLoader.load.)
        """
        sizes = {entry.name: entry.size_bytes for entry in self.files.list(self.directory)}
        offsets = _offsets_by_suffix(sizes)
        swapped = offsets[LOG_SUFFIX + SWAP_SUFFIX]
        for base_offset in swapped:
            _logger.info("%s: finishing the compaction into the segment of offset %d", self.directory, base_offset)
            size_bytes = sizes[file_name(base_offset, LOG_SUFFIX + SWAP_SUFFIX)]
            swap = self._segment(base_offset, size_bytes, aside=SWAP_SUFFIX)
            try:
                last_offset = max((header.last_offset for _, header in swap.headers()), default=base_offset)
            except CorruptBatch as error:
                raise LogDirectoryError(
                    f"{swap.file(LOG_SUFFIX)}: {error}; the segment was whole when it was made, so its disk lost data: "
                    "restore the file, or move it away to go on without it"
                ) from error
            finally:
                swap.release()
            for old in offsets[LOG_SUFFIX]:
                if base_offset <= old <= last_offset:
                    self._remove_files(old)
            for suffix in reversed(SEGMENT_SUFFIXES):
                if file_name(base_offset, suffix + SWAP_SUFFIX) in sizes:
                    self.files.rename(swap.file(suffix), self.directory / file_name(base_offset, suffix))
        for name in sizes:
            path = self.directory / name
            if name.endswith(SWAP_SUFFIX) and self.files.exists(path):
                self.files.remove(path)  # an index without its `.log` file
        if swapped:
            self.files.sync_directory(self.directory)

    def _segment(self, base_offset: int, size_bytes: int, *, has_aborted: bool = False, aside: str = "") -> Segment:
        return Segment(
            self.files,
            self.directory,
            base_offset,
            self.open_segments,
            index_interval_bytes=self.config.index_interval_bytes,
            size_bytes=size_bytes,
            created_ms=self.now_ms,
            has_aborted=has_aborted,
            aside=aside,
        )

    def _find_segments(self, sizes: Mapping[str, int], offsets: Mapping[str, list[int]]) -> list[Segment]:
        bases = offsets[LOG_SUFFIX]
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            for orphan in sorted(set(offsets[suffix]).difference(bases)):
                # A crash leaves such indexes at the ends of a log alone.
                if suffix == INDEX_SUFFIX and bases and (self.is_clean or bases[0] < orphan < bases[-1]):
                    self._tell_of_loss(orphan, next((base for base in bases if base > orphan), self.recovery_point))
                self.files.remove(self.directory / file_name(orphan, suffix))
        segments = [
            self._segment(
                base_offset,
                sizes[file_name(base_offset, LOG_SUFFIX)],
                has_aborted=sizes.get(file_name(base_offset, TRANSACTION_INDEX_SUFFIX), 0) > 0,
            )
            for base_offset in bases
        ]
        # A roll that failed half-way can leave an empty segment, while the one before it continued to grow.
        strays = []
        previous: Segment | None = None
        for segment in segments:
            if segment.size_bytes == 0 and previous is not None and _overlaps(previous, segment):
                strays.append(segment)
            else:
                previous = segment
        self._remove_segments(strays)
        return [segment for segment in segments if segment not in strays]

    def _read_leader_epochs(self, sizes: Mapping[str, int]) -> LeaderEpochs:
        if not sizes.get(LEADER_EPOCH_CHECKPOINT):
            return LeaderEpochs()
        path = self.directory / LEADER_EPOCH_CHECKPOINT
        try:
            return LeaderEpochs(decode_epochs(self.files.read(path)))
        except MalformedFile as error:
            raise LogDirectoryError(f"{path}: {error}; restore the file, or remove it to have it made anew") from error

    def _mend_transaction_indexes(self, segments: list[Segment], snapshots: list[int], log_start_offset: int) -> None:
        for slot, segment in enumerate(segments):
            try:
                segment.indexes.check_transactions()
            except CorruptIndex as error:
                _logger.warning("%s: making its index of aborted transactions anew: %s", segment, error)
                states, offset = _read_snapshot(
                    self.files, self.directory, snapshots, log_start_offset, segment.base_offset
                )
                _replay(segments[:slot], max(offset, log_start_offset), states)
                segment.indexes.forget_aborted()
                _replay([segment], segment.base_offset, states, is_noted=True)
                segment.indexes.write()
                for path in segment.indexes.paths:
                    sync_file(self.files, path)

    def _recover(
        self,
        segments: list[Segment],
        first: int,
        sizes: Mapping[str, int],
        leader_epochs: LeaderEpochs,
        producer_states: ProducerStates,
    ) -> int:
        """Recover the segments from the slot `first` on; returns where the log ends."""
        noted = dict(leader_epochs.entries)

        def observe(segment: Segment, header: BatchHeader, batch: memoryview, end_offset: int) -> None:
            if header.leader_epoch > leader_epochs.latest:
                # The epoch may have begun with records that compaction deleted.
                start = noted.get(header.leader_epoch, header.base_offset)
                is_fit = end_offset <= start <= header.base_offset
                leader_epochs.assign(header.leader_epoch, start if is_fit else header.base_offset)
            aborted = observe_producer(producer_states, header, batch)
            if aborted is not None:
                segment.note_aborted(aborted)

        end_offset = segments[first].base_offset
        # The file may be older than a truncation after which the log continued with other epochs.
        leader_epochs.truncate_from_end(end_offset)
        for slot in range(first, len(segments)):
            segment = segments[slot]
            size_bytes = segment.size_bytes
            end_offset, damage = segment.recover(end_offset, partial(observe, segment))
            rest = segments[slot + 1 :]
            # Records below this offset were on the disk: if they are missing, a compaction deleted them.
            known_offset = max(self.recovery_point, self.clean_offset)
            if damage is None and rest and not self.config.compacts and rest[0].base_offset > known_offset:
                next_base_offset = rest[0].base_offset
                if end_offset != next_base_offset:
                    damage = CorruptBatch(f"it ends at offset {end_offset}, and the next begins at {next_base_offset}")
            if damage is not None:
                _logger.warning(
                    "%s: %s; cut off %d bytes and %d later segments",
                    segment,
                    damage,
                    size_bytes - segment.size_bytes,
                    len(rest),
                )
                self._remove_segments(rest)
                del segments[slot + 1 :]
            is_active = slot == len(segments) - 1
            has_files = any(sizes.get(file_name(segment.base_offset, suffix), 1) for suffix in _REBUILT_SUFFIXES)
            segment.indexes.recover(is_active=is_active, has_files=has_files)
            if is_active:
                break
        return max(end_offset, segments[-1].base_offset)

    def _remove_segments(self, segments: list[Segment]) -> None:
        """Remove segments, durably: if a power cut brought one back, its batches might fit after newer ones."""
        for segment in segments:
            segment.release()
            self._remove_files(segment.base_offset)
        if segments:
            self.files.sync_directory(self.directory)

    def _remove_files(self, base_offset: int) -> None:
        for suffix in SEGMENT_SUFFIXES:
            path = self.directory / file_name(base_offset, suffix)
            if self.files.exists(path):
                self.files.remove(path)


def has_leftovers(names: Iterable[str]) -> bool:
    """Whether an interrupted deletion or compaction left any of these files."""
    return any(name.endswith(_UNFINISHED_SUFFIXES) for name in names)


def remove_stray_snapshots(
    files: FileOperations, directory: Path, snapshots: list[int], segments: Sequence[Segment], log_end_offset: int
) -> None:
    """Keep the snapshots at the beginning of a segment, and the latest: a recovery begins at one of these."""
    keep = {segment.base_offset for segment in segments}
    keep.update([offset for offset in snapshots if offset <= log_end_offset][-1:])
    for offset in snapshots:
        if offset > log_end_offset or offset not in keep:
            files.remove(directory / file_name(offset, SNAPSHOT_SUFFIX))


def remove_snapshots(files: FileOperations, directory: Path, *, past: int) -> None:
    """Remove the snapshots past an offset; sync the folder after it."""
    for offset in snapshots_among(entry.name for entry in files.list(directory)):
        if offset > past:
            files.remove(directory / file_name(offset, SNAPSHOT_SUFFIX))


def rebuild_producers(
    files: FileOperations, directory: Path, segments: Sequence[Segment], log_start_offset: int, log_end_offset: int
) -> tuple[ProducerStates, int]:
    """(state of the producers, offset of the snapshot that it is based on) of a log that was truncated."""
    snapshots = snapshots_among(entry.name for entry in files.list(directory))
    states, snapshot_offset = _read_snapshot(files, directory, snapshots, log_start_offset, log_end_offset)
    _replay(segments, max(snapshot_offset, log_start_offset), states)
    return states, snapshot_offset


def _read_snapshot(
    files: FileOperations, directory: Path, snapshots: list[int], log_start_offset: int, end_offset: int
) -> tuple[ProducerStates, int]:
    """The latest whole snapshot at or before `end_offset`, and its offset; without one, an empty state."""
    for offset in reversed(snapshots):
        if not log_start_offset <= offset <= end_offset:
            continue
        path = directory / file_name(offset, SNAPSHOT_SUFFIX)
        try:
            return ProducerStates.decode(files.read(path)), offset
        except CorruptSnapshot as error:
            _logger.warning("%s is damaged (%s): going back to an older one", path, error)
            files.remove(path)
            snapshots.remove(offset)
    return ProducerStates(), log_start_offset


def _replay(
    segments: Sequence[Segment], from_offset: int, producer_states: ProducerStates, *, is_noted: bool = False
) -> None:
    """Add the batches from `from_offset` on to the state of the producers; the segments need no recovery.

    With `is_noted` the aborted transactions are added to the indexes of their segments.
    """
    for slot, segment in enumerate(segments):
        is_last = slot == len(segments) - 1
        if not is_last and segments[slot + 1].base_offset <= from_offset:
            continue
        try:
            found = segment.find(from_offset)
            for _, header, batch in segment.batches(found[0]) if found is not None else ():
                aborted = observe_producer(producer_states, header, batch)
                if is_noted and aborted is not None:
                    segment.note_aborted(aborted)
        except CorruptBatch as error:
            _logger.error("%s is damaged, so producers' last batches in it are forgotten: %s", segment, error)


def first_unsynced_slot(base_offsets: list[int], recovery_point: int) -> int:
    """The slot of the first segment that may not be on the disk.

    It is the segment with the last record below the recovery point. Even if that record is its last, the segment was
    flushed while it was active, and its indexes were finished later.
    """
    return max(0, bisect_left(base_offsets, recovery_point) - 1)


def _overlaps(segment: Segment, following: Segment) -> bool:
    try:
        return segment.next_offset() > following.base_offset
    except CorruptBatch:
        return False


def _offsets_by_suffix(names: Iterable[str]) -> Mapping[str, list[int]]:
    """The offsets in the names of a segment's files and of snapshots, in order; [] for a suffix that no name has."""
    offsets: defaultdict[str, list[int]] = defaultdict(list)
    for name in names:
        stem = name[:_OFFSET_DIGITS]
        if len(stem) == _OFFSET_DIGITS and stem.isdecimal():
            offsets[name[_OFFSET_DIGITS:]].append(int(stem))
    for found in offsets.values():
        found.sort()
    return offsets


def snapshots_among(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots among these names, in order."""
    return _offsets_by_suffix(names)[SNAPSHOT_SUFFIX]


def observe_producer(
    producer_states: ProducerStates, header: BatchHeader, batch: memoryview, *, append_ms: int = UNKNOWN_MS
) -> AbortedTransaction | None:
    """Add a batch to the state of the producers; returns the transaction if the batch aborted one.

    append_ms: the broker's time, if it appends the batch now.
    """
    if header.producer_id == NO_PRODUCER_ID:
        return None
    if not header.is_control:
        producer_states.append(header, header.base_offset, header.max_timestamp_ms, append_ms=append_ms)
        return None
    try:
        marker = read_end_marker(batch, header)
    except CorruptBatch as error:
        _logger.warning("the control batch at offset %d cannot be read: %s", header.base_offset, error)
        return None
    return None if marker is None else producer_states.end_transaction(header, marker, append_ms=append_ms)
