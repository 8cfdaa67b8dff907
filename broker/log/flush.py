"""What a flush must bring to the disk (fsync), and the wait for it, which any thread may do."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.broker.log.checkpoint import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, encode_epochs
from highwater.broker.log.files import DISK_IS_FULL, FileOperations, sync_file, write_durably
from highwater.broker.log.leader_epochs import LeaderEpochs
from highwater.broker.log.segment import Segment

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class FlushTicket:
    """All that has to reach the disk for the recovery point to move to `end_offset`."""

    files: FileOperations
    directory: Path
    end_offset: int
    segments: Sequence[Segment]
    descriptors: list[int]
    paths: list[Path]
    leader_epochs: bytes | None
    has_new_names: bool
    is_new: bool
    """The name of the folder itself has to reach the disk."""
    dirty_since_ms: int | None
    is_synced: bool = False
    """Not so after a `sync` on a disk too full for the leader epochs: it is tried again with the next flush."""
    log_is_closed: bool = False
    """The folder's name may be another log's by now."""

    def sync(self) -> None:
        """Blocks until the disk has it. After an OSError what the page cache holds is not to be trusted any more."""
        try:
            self.is_synced = self._sync()
        except FileNotFoundError:
            if self.files.exists(self.directory):
                raise
            # The partition was deleted meanwhile, and its folder renamed: there is nothing left to keep.
            self.is_synced = True

    def _sync(self) -> bool:
        for descriptor in self.descriptors:
            self.files.sync(descriptor)
        for path in self.paths:
            sync_file(self.files, path)
        if self.leader_epochs is not None and not self.log_is_closed:
            try:
                write_durably(self.files, self.directory / LEADER_EPOCH_CHECKPOINT, self.leader_epochs)
            except OSError as error:
                if error.errno not in DISK_IS_FULL:
                    raise
                _logger.warning(
                    "%s: the leader epochs are not written: %s; trying again", self.directory, error.strerror
                )
                return False
        elif self.has_new_names:
            self.files.sync_directory(self.directory)
        if self.is_new:
            self.files.sync_directory(self.directory.parent)
        return True


class Unflushed:
    """What of a log may not be on the disk, beside its records from the recovery point on.

    One flush is under way at a time. `begin` hands all of this over to a ticket; `complete` takes it back when the
    ticket did not come to the disk.
    """

    __slots__ = ("dirty_since_ms", "has_new_names", "is_new", "paths", "ticket")

    def __init__(self, *, is_new: bool, has_new_names: bool) -> None:
        self.paths: list[Path] = []
        """Files beside those of the records."""
        self.has_new_names = has_new_names
        """Files of the folder were made or renamed."""
        self.is_new = is_new
        """The name of the folder itself, and the topic's id in it."""
        self.dirty_since_ms: int | None = None
        """When the first of the records was appended that no flush has taken up."""
        self.ticket: FlushTicket | None = None
        """The flush under way."""

    def begin(
        self,
        files: FileOperations,
        directory: Path,
        segments: Sequence[Segment],
        end_offset: int,
        leader_epochs: LeaderEpochs,
    ) -> FlushTicket:
        """`segments` are those with records that may not be on the disk, which are below `end_offset`."""
        descriptors: list[int] = []
        try:
            for segment in segments:
                descriptors.append(segment.pin())  # noqa: PERF401 - those pinned so far must be known
        except OSError:
            for segment in segments[: len(descriptors)]:
                segment.unpin()
            raise
        self.ticket = FlushTicket(
            files=files,
            directory=directory,
            end_offset=end_offset,
            segments=segments,
            descriptors=descriptors,
            paths=[directory / PARTITION_METADATA, *self.paths] if self.is_new else self.paths,
            leader_epochs=encode_epochs(leader_epochs.entries) if leader_epochs.is_dirty else None,
            has_new_names=self.has_new_names,
            is_new=self.is_new,
            dirty_since_ms=self.dirty_since_ms,
        )
        self.paths = []
        self.has_new_names = leader_epochs.is_dirty = False
        self.dirty_since_ms = None
        return self.ticket

    def complete(self, ticket: FlushTicket, leader_epochs: LeaderEpochs) -> None:
        for segment in ticket.segments:
            segment.unpin()
        self.ticket = None
        if ticket.is_synced:
            self.is_new = False
            return
        self.paths = ticket.paths + self.paths
        self.has_new_names |= ticket.has_new_names
        self.dirty_since_ms = ticket.dirty_since_ms
        leader_epochs.is_dirty |= ticket.leader_epochs is not None
