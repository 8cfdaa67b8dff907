"""Moves a log to another log directory of the same broker while records are appended to it (KIP-113).

1. Rounds of copying bring its files into a folder `<topic>-<partition>.<id>-future` in the other directory. A thread
   copies; each round takes what is new since the last one. Compaction and retention leave the log alone meanwhile.
2. When little is left, the event loop copies it and does step 3 in one go, so nothing is appended in between. The files
   of the future folder, and the log's offsets in the checkpoints of the new directory, are synced before they count.
3. The future folder gets a mark and the log's name; the log continues there; the old folder is set aside; the mark is
   removed.

After a crash before step 3 the log is where it was. After a crash within step 3 two folders may have the same name, and
the one with the mark counts (broker.log.log_directories). Both are whole, as nothing is appended during step 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from highwater.broker.log.files import TEMPORARY_SUFFIX, FileOperations, write_durably
from highwater.broker.log.log_directory import MOVED, LogDirectory
from highwater.broker.log.partition_folder import future_name
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.log.segment_names import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, file_name
from highwater.common.topic_partition import TopicPartition

ROUND_BYTES: Final = 16 * 1024 * 1024
"""The most that is copied in one round, because others use the thread too."""
LAST_BYTES: Final = 256 * 1024
"""The most that is left for the event loop to copy."""

_CHUNK_BYTES: Final = 1024 * 1024
_NOT_MOVED: Final = (LOG_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX, MOVED)


class Round(NamedTuple):
    """Bytes to copy; `copy` blocks, any thread."""

    files: FileOperations
    source: Path
    target: Path
    parts: list[tuple[str, int, int]]
    """(name, first byte, end) of files that only grow."""
    whole: list[str]
    end_offset: int
    """If the round takes all that is left, the future folder then has all records below this offset."""

    def copy(self) -> None:
        for name, start, end in self.parts:
            self._copy(name, start, end)
        for name in self.whole:
            self._copy(name, 0, None)

    def _copy(self, name: str, position: int, end: int | None) -> None:
        source = self.files.open(self.source / name)
        try:
            target = self.files.open(self.target / name, create=True)
            try:
                while end is None or position < end:
                    size = _CHUNK_BYTES if end is None else min(_CHUNK_BYTES, end - position)
                    data = self.files.pread(source, size, position)
                    if not data:
                        break
                    self.files.pwrite(target, data, position)
                    position += len(data)
                self.files.sync(target)
            finally:
                self.files.close(target)
        finally:
            self.files.close(source)


class Move:
    """One move. `Round.copy` may run in any thread; all else belongs to the thread of the log."""

    def __init__(self, log: PartitionLog, source: LogDirectory, destination: LogDirectory) -> None:
        self.log = log
        self.source = source
        self.destination = destination
        self.path = destination.path / future_name(log.topic, log.partition)
        self.copied_to_offset = log.log_start_offset
        self.truncations = log.truncations
        """If the log was truncated since, what was copied is useless."""
        self._files = destination.files
        self._copied: dict[str, int] = {}
        self._whole: set[str] = set()

    @property
    def key(self) -> TopicPartition:
        return self.log.topic, self.log.partition

    @property
    def copied_bytes(self) -> int:
        return sum(self._copied.values())

    @property
    def left_bytes(self) -> int:
        return self.log.size_bytes - self.copied_bytes

    def begin(self) -> None:
        self._files.make_directory(self.path)
        self._files.sync_directory(self.destination.path)

    def next_round(self) -> Round:
        """What to copy next: the index files of sealed segments once, and the new bytes of the `.log` files."""
        *_, (active, _) = sizes = self.log.segment_sizes
        unfinished = file_name(active, "")
        parts = []
        left = ROUND_BYTES
        for base_offset, size in sizes:
            name = file_name(base_offset, LOG_SUFFIX)
            start = self._copied.get(name, 0)
            end = min(size, start + left)
            if end > start or name not in self._copied:
                parts.append((name, start, end))
                left -= end - start
        names = [entry.name for entry in self._files.list(self.log.directory) if entry.name[0].isdigit()]
        whole = [
            name
            for name in names
            if not name.endswith(_NOT_MOVED) and not name.startswith(unfinished) and name not in self._whole
        ]
        return Round(self._files, self.log.directory, self.path, parts, whole, self.log.log_end_offset)

    def completed(self, done: Round) -> None:
        self._copied.update({name: end for name, _, end in done.parts})
        self._whole.update(done.whole)
        if not self.left_bytes:
            self.copied_to_offset = done.end_offset

    @property
    def can_finish(self) -> bool:
        return self.left_bytes <= LAST_BYTES and not self.log.is_in_use

    def finish(self, high_watermarks: Mapping[TopicPartition, int]) -> tuple[LogDirectory, OSError] | None:
        """Copy what is left and let the log continue in its new place. After an OSError it is where it was.

        `high_watermarks` has the partitions of the destination and this one. If a directory fails when the log is
        already in its new place, this returns the directory and its error.
        """
        self.log.write_indexes()
        last = self.next_round()
        last.copy()
        self.completed(last)
        names = [entry.name for entry in self._files.list(self.log.directory) if not entry.is_directory]
        rest = [name for name in names if not name.endswith(_NOT_MOVED) and name not in self._whole]
        Round(self._files, self.log.directory, self.path, [], rest, self.log.log_end_offset).copy()
        write_durably(self._files, self.path / MOVED, b"")
        place = self.destination.take_in(self.key, self.log, self.path, high_watermarks)
        self.log.go_on_in(place, self.destination.open_segments)
        directory = self.destination
        try:
            # The old folder stays until the name of the new one is durable.
            self.destination.sync_names()
            directory = self.source
            self.destination.clean_offsets.update(self.source.let_go(self.key))
            directory = self.destination
            self.destination.forget_move(place)
        except OSError as error:
            return directory, error
        return None

    def give_up(self) -> None:
        self.destination.give_up_future(self.path, *self.key)
