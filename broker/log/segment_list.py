"""The segments of one log in the order of their offsets, and the files that change with it.

Invariants:
- The last segment is the active one and grows; all before it are sealed.
- Files are removed and renamed in such an order that a start can finish or undo it after a crash (log/recovery.py).
- Files of segments that leave the list are first set aside (`.deleted`), and removed after `file.delete.delay.ms`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from highwater.broker.log.compaction_job import CleanedGroup
from highwater.broker.log.config import LogConfig
from highwater.broker.log.files import FileOperations
from highwater.broker.log.open_segments import OpenSegments
from highwater.broker.log.segment import Segment
from highwater.broker.log.segment_names import (
    DELETED_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)


class SegmentList:
    __slots__ = ("_files", "_open_segments", "_segments", "_set_aside", "active", "base_offsets", "directory")

    def __init__(
        self, files: FileOperations, directory: Path, open_segments: OpenSegments, segments: list[Segment]
    ) -> None:
        """`segments` has at least one segment."""
        self.directory = directory
        self.active = segments[-1]
        self.base_offsets = [segment.base_offset for segment in segments]
        self._files = files
        self._open_segments = open_segments
        self._segments = segments
        self._set_aside: list[tuple[int, Path]] = []
        """(when the file may be removed, file)."""

    @property
    def all(self) -> Sequence[Segment]:
        return self._segments

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def is_pinned(self) -> bool:
        """Whether another thread uses one of the segments at this moment."""
        return any(segment.is_pinned for segment in self._segments)

    def slot_of(self, offset: int) -> int:
        """The index in the list of the segment whose range has `offset`."""
        return bisect_right(self.base_offsets, offset) - 1

    def end_offset_of(self, slot: int, log_end_offset: int) -> int:
        return self.base_offsets[slot + 1] if slot + 1 < len(self.base_offsets) else log_end_offset

    def add(self, base_offset: int, config: LogConfig, now_ms: int) -> Segment:
        """Make an empty segment, which becomes the active one. After an OSError nothing has changed."""
        segment = Segment.create(self._files, self.directory, base_offset, self._open_segments, config, now_ms)
        self._segments.append(segment)
        self.base_offsets.append(base_offset)
        self.active = segment
        return segment

    def truncate(self, slot: int) -> None:
        """Remove the segments from a slot on; sync the folder after it."""
        # The last one first, so that a crash leaves no hole.
        for segment in reversed(self._segments[slot:]):
            segment.release()
            for suffix in SEGMENT_SUFFIXES:
                path = self.directory / file_name(segment.base_offset, suffix)
                if self._files.exists(path):
                    self._files.remove(path)
            self._segments.pop()
            self.base_offsets.pop()
        if slot > 0:
            self.active = self._segments[-1]

    def set_aside_first(self, count: int, removable_ms: int) -> None:
        """Take the `count` oldest out of the list, never all; their files may be removed from `removable_ms` on."""
        gone = self._segments[:count]
        del self._segments[:count]
        del self.base_offsets[:count]
        self._rename_aside(gone, removable_ms)

    def replace(self, group: CleanedGroup, config: LogConfig, now_ms: int) -> None:
        """Replace segments by the cleaned one that was made of them. Sync the folder after it.

        The next start mends a crash at any point: once the `.log.swap` is there the new segment counts, before that the
        old ones do. The old segments are removed in order, so that a tombstone stays longer than what it deletes.
        ValueError if the segments to replace are not neighbours here.
        """
        slot = self.base_offsets.index(group.base_offset)
        old = self._segments[slot : slot + len(group.replaced)]
        if [segment.base_offset for segment in old] != group.replaced:
            raise ValueError(f"{self.directory} has no neighbouring segments {group.replaced}")
        files, base_offset = self._files, group.base_offset
        names = [file_name(base_offset, suffix) for suffix in reversed(SEGMENT_SUFFIXES)]
        names = [name for name in names if files.exists(self.directory / (name + group.aside))]
        for name in names:
            files.rename(self.directory / (name + group.aside), self.directory / (name + SWAP_SUFFIX))
        cleaned = Segment(
            files,
            self.directory,
            base_offset,
            self._open_segments,
            index_interval_bytes=config.index_interval_bytes,
            size_bytes=group.size_bytes,
            created_ms=now_ms,
            has_aborted=file_name(base_offset, TRANSACTION_INDEX_SUFFIX) in names,
        )
        cleaned.is_sealed = True
        self._segments[slot : slot + len(old)] = [cleaned]
        self.base_offsets[slot : slot + len(old)] = [base_offset]
        self._rename_aside(old, now_ms + config.file_delete_delay_ms, keep_snapshot_of=base_offset)
        for name in names:
            files.rename(self.directory / (name + SWAP_SUFFIX), self.directory / name)

    def _rename_aside(
        self, segments: Sequence[Segment], removable_ms: int, *, keep_snapshot_of: int | None = None
    ) -> None:
        # The oldest one first, so that a crash leaves no hole.
        for segment in segments:
            segment.release()
            for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
                path = self.directory / file_name(segment.base_offset, suffix)
                is_kept = suffix == SNAPSHOT_SUFFIX and segment.base_offset == keep_snapshot_of
                if is_kept or not self._files.exists(path):
                    continue
                aside = path.with_name(path.name + DELETED_SUFFIX)
                self._files.rename(path, aside)
                self._set_aside.append((removable_ms, aside))

    def take_removable(self, now_ms: int) -> list[Path]:
        """Files to remove now, which the caller may do in any thread. A start removes all files set aside."""
        if not self._set_aside:
            return []
        removable = [path for due_ms, path in self._set_aside if due_ms <= now_ms]
        if removable:
            self._set_aside = [entry for entry in self._set_aside if entry[0] > now_ms]
        return removable

    def sync_names(self) -> None:
        """fsync the folder, so that renamed files survive a power cut; blocks, and may run in any thread."""
        try:
            self._files.sync_directory(self.directory)
        except FileNotFoundError:
            if self._files.exists(self.directory):
                raise

    def go_on_in(self, directory: Path, open_segments: OpenSegments) -> None:
        """Use another folder, which has all files but those set aside; only while no segment is pinned."""
        for segment in self._segments:
            segment.go_on_in(directory, open_segments)
        self.directory = directory
        self._open_segments = open_segments
        self._set_aside = []  # The old folder has these files, and will be removed as a whole.

    def release(self) -> None:
        """Close all descriptors and drop all caches."""
        for segment in self._segments:
            segment.release()
