"""What a fault does to a request, its answer, its connection or the broker: values, without any I/O."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode


class Delay(NamedTuple):
    before_ms: int = 0
    """Before the request is handled."""
    after_ms: int = 0
    """Between the handled request and its answer."""


class Fail(NamedTuple):
    """Answer with an error, and do not handle the request."""

    error: ErrorCode


class Report(NamedTuple):
    """Handle the request, and answer with an error all the same."""

    error: ErrorCode


class Rewrite(NamedTuple):
    """Handle the request, and change the decoded answer."""

    change: Callable[[Any], Any]
    """Gets kio's entity, and returns another one."""


class Spoil(NamedTuple):
    """Handle the request, and change the bytes of the answer, whose length stands in the first four."""

    change: Callable[[bytes, Random], bytes]


class Drop(NamedTuple):
    """Close the connection in place of an answer."""

    is_handled: bool


class Silence(NamedTuple):
    """Never answer."""

    is_handled: bool


class Cut(NamedTuple):
    """Send the first part of the answer, and close the connection."""

    percent: int


class HangUp(NamedTuple):
    """Close the connection after the answer."""


class Swap(NamedTuple):
    """Send the answer after the next one of the connection; in its own place if none comes in time."""

    wait_ms: int


class Twice(NamedTuple):
    """Handle the request two times, and send the second answer."""


class Slow(NamedTuple):
    """Send no more than so many bytes per second on the connection from now on."""

    bytes_per_s: int


class Disk(NamedTuple):
    """Make the disk slow, or let it fail: at writes while the request is handled, or at the next flush."""

    error_number: int = 0
    delay_ms: int = 0
    is_flush: bool = False


class JumpClock(NamedTuple):
    """Set the clock, from which records get their timestamps, ahead or back for good."""

    ms: int


class MoveLogStart(NamedTuple):
    """Delete all records of the topics that the request names, as DeleteRecords does."""


Effect: TypeAlias = (
    Delay
    | Fail
    | Report
    | Rewrite
    | Spoil
    | Drop
    | Silence
    | Cut
    | HangUp
    | Swap
    | Twice
    | Slow
    | Disk
    | JumpClock
    | MoveLogStart
)
