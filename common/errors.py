"""The errors that several rooms raise or report, one class for each exit code."""

from __future__ import annotations

import errno
from pathlib import Path


class MissingDependencyError(Exception):
    """This host lacks a program or a package. The text is one line that says how to get it."""


class UsageError(Exception):
    """Something the user gave cannot work (file, option, host set-up). One line; exit code 2."""


class TrialError(Exception):
    """One trial failed; the run continues with the next one. One line; exit code 3."""


class GeneratorError(TrialError):
    """The load generator failed, and no fault of the system under test is known. One line; exit code 4."""


class StoppedError(Exception):
    """The user asked the run to stop. Exit code 130."""


class NotComparableError(Exception):
    """Two measurements were taken under different conditions, so they cannot be compared. One line; exit code 5."""


def is_full(error: OSError) -> bool:
    """Whether a disk or a quota is full, which is no mistake in the call."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def text_of(error: OSError, written: Path | None = None) -> str:
    """The error in one line, with its file. written: what a failed write, which names no file, was of."""
    named = error.filename or written
    where = f"{named}: " if named else ""
    return f"{where}{error.strerror or error}"
