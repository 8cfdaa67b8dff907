"""Exceptions for stored files: faults, and reads that would wait. A fault of a request is an ErrorCode."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.broker.log.files import FilePiece


class LogDirectoryError(Exception):
    """A log directory that the broker cannot use. The message is one line with the file or folder and what to do."""


class LogDirectoryFailed(LogDirectoryError):  # noqa: N818 - what became of it
    """Its disk cannot be read or written; the directory of another broker, or in use, is a LogDirectoryError alone."""


class SegmentsGone(LogDirectoryError):  # noqa: N818 - what became of them
    """The folder of a partition is gone, or has no segment, though its records were on the disk."""


class CorruptIndex(Exception):  # noqa: N818 - it names the thing found, as Kafka's CorruptIndexException does
    """An index that does not fit its segment; it can be rebuilt from the segment."""


class CorruptSnapshot(Exception):  # noqa: N818
    """A damaged producer snapshot; an older one and the log after it hold the same state."""


class NotCached(Exception):  # noqa: N818
    """A read that may not wait for the disk needs these pieces of files, which are not in the page cache."""

    def __init__(self, pieces: Sequence[FilePiece]) -> None:
        super().__init__(pieces)
        self.pieces = pieces
