"""What a flush of a log has to bring to the disk, and the waiting for it, which any thread may do."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from highwater.broker.log.checkpoint import LEADER_EPOCH_CHECKPOINT
from highwater.broker.log.files import DISK_IS_FULL, FileOperations, sync_file, write_durably
from highwater.broker.log.segment import Segment

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class FlushTicket:
    """All that has to reach the disk for the recovery point to move to `end_offset`."""

    files: FileOperations
    directory: Path
    end_offset: int
    segments: list[Segment]
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
