"""What a flush must bring to the disk (fsync), and the wait for it, which any thread may do."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.broker.log.checkpoint import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, encode_epochs
from highwater.broker.log.files import MAY_PASS, FileOperations, sync_file, write_durably
from highwater.broker.log.leader_epochs import LeaderEpochs
from highwater.broker.log.segment import Segment

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class FlushTicket:
    """All that must be on the disk before the recovery point moves to `end_offset`."""

    files: FileOperations
    directory: Path
    end_offset: int
    segments: Sequence[Segment]
    descriptors: list[int]
    paths: list[Path]
    leader_epochs: bytes | None
    has_new_names: bool
    is_new: bool
    """Whether the name of the folder must be synced too."""
    dirty_since_ms: int | None
    is_synced: bool = False
    """False after a `sync` that found the disk too full for the leader epochs; the next flush tries again."""
    log_is_closed: bool = False
    """Then the folder's name may belong to another log by now."""

    def sync(self) -> None:
        """fsync all; blocks. After an OSError nobody knows what of the page cache is on the disk."""
        try:
            self.is_synced = self._sync()
        except FileNotFoundError:
            if self.files.exists(self.directory):
                raise
            # The partition was deleted meanwhile, and its folder renamed: there is nothing left to sync.
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
                if error.errno not in MAY_PASS:
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

    One flush runs at a time. `begin` moves all of this to a ticket; `complete` takes it back if the sync failed.
    """

    __slots__ = ("dirty_since_ms", "has_new_names", "is_new", "paths", "ticket")

    def __init__(self, *, is_new: bool, has_new_names: bool) -> None:
        self.paths: list[Path] = []
        """Files to sync, beside the `.log` files."""
        self.has_new_names = has_new_names
        """Whether files of the folder were made or renamed."""
        self.is_new = is_new
        """Whether the name of the folder, and the file with the topic's id, were never synced."""
        self.dirty_since_ms: int | None = None
        """When the first record was appended that no flush has taken up; None if there is none."""
        self.ticket: FlushTicket | None = None
        """The flush that runs."""

    def begin(
        self,
        files: FileOperations,
        directory: Path,
        segments: Sequence[Segment],
        end_offset: int,
        leader_epochs: LeaderEpochs,
    ) -> FlushTicket:
        """`segments` have the records below `end_offset` that may not be on the disk."""
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
