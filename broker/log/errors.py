"""What can be wrong with stored files. What can be wrong with a request is an ErrorCode, never one of these."""

from __future__ import annotations


class LogDirectoryError(Exception):
    """A log directory that cannot be used as it is: one line that names the file or folder and the way out."""


class CorruptIndex(Exception):  # noqa: N818 - it names the thing found, as Kafka's CorruptIndexException does
    """An index that cannot be one of its segment; the segment has all that is needed to make it anew."""


class CorruptSnapshot(Exception):  # noqa: N818
    """A producer snapshot that is not whole; an older one and the log after it hold the same."""
