"""Names of the files of a segment: Kafka's, by base offset and kind of file."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class SegmentNames(NamedTuple):
    """The files of one segment."""

    directory: Path
    base_offset: int
    aside: str
    """A suffix of all names, for a segment that is not yet part of the log."""

    def path(self, suffix: str) -> Path:
        return self.directory / (file_name(self.base_offset, suffix) + self.aside)
