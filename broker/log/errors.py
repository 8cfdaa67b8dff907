"""Exceptions for faults of stored files. A fault of a request is an ErrorCode, never one of these."""

from __future__ import annotations


class LogDirectoryError(Exception):
    """A log directory that the broker cannot use. The message is one line with the file or folder and what to do."""


class LogDirectoryFailed(LogDirectoryError):  # noqa: N818 - what became of it
    """Its disk cannot be read or written; the directory of another broker, or in use, is a LogDirectoryError alone."""


class CorruptIndex(Exception):  # noqa: N818 - it names the thing found, as Kafka's CorruptIndexException does
    """An index that does not fit its segment; it can be rebuilt from the segment."""


class CorruptSnapshot(Exception):  # noqa: N818
    """A damaged producer snapshot; an older one and the log after it hold the same state."""
