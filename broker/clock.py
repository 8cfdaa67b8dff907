"""Clocks and timers that code below the server is given, instead of asking the operating system."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

_logger = logging.getLogger(__name__)


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time in ms since the epoch: the time records are stamped with. It may jump."""

    def monotonic_ns(self) -> int:
        """A time that never goes back: for time-outs and durations."""


class SystemClock:
    """The machine's own time."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)


class Timer(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The part of an event loop that code below the server may use."""

    def call_soon(self, callback: Callable[[], None]) -> object:
        """Call back after the work at hand is done."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer: ...


class ClockGuard:
    """Keeps a wall clock that jumps ahead from making everything old at once.

    The first reading after a jump is not believed; one that stands at the next reading is. So a clock that was set
    wrong for a moment costs nothing its life, and one that was set right at last counts from the next reading on.
    """

    def __init__(self, clock: Clock, tolerance_ms: int = 60_000) -> None:
        self._clock = clock
        self._tolerance_ms = tolerance_ms
        self._last = clock.now_ms(), clock.monotonic_ns()

    def now_ms(self) -> int | None:
        """The wall-clock time, or None if it is not to be believed yet."""
        last_ms, last_ns = self._last
        now_ms, now_ns = self._last = self._clock.now_ms(), self._clock.monotonic_ns()
        jump_ms = (now_ms - last_ms) - (now_ns - last_ns) // 1_000_000
        if jump_ms <= self._tolerance_ms:
            return now_ms
        _logger.warning("the clock jumped %d s ahead: nothing goes for its age before the next look", jump_ms // 1000)
        return None
