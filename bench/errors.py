"""The faults a run can meet, told apart by what they mean for the exit code."""

from __future__ import annotations


class UsageError(Exception):
    """Something the user gave cannot work (file, option, host set-up). One line; exit code 2."""


class TrialError(Exception):
    """One trial could not be brought to an end; the run goes on with the next one. One line; exit code 3."""


class GeneratorError(TrialError):
    """The load generator broke, and the system under test was well as far as anybody knows. One line; exit code 4."""


class StoppedError(Exception):
    """The user asked the run to stop. Exit code 130."""


class NotComparableError(Exception):
    """Two measurements that would be put together were taken under different conditions. One line; exit code 5."""


def text_of(error: OSError) -> str:
    """One line: which file, and what about it."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"
