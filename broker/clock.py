"""Time as a value that is handed in: code below the server asks a clock and never the operating system."""

from __future__ import annotations

import logging
import time
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


class ManualClock:
    """Time that moves only when told to, for tests and simulations."""

    __slots__ = ("_jumped_ms", "_now_ns")

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ns = now_ms * 1_000_000
        self._jumped_ms = 0

    def now_ms(self) -> int:
        return self._now_ns // 1_000_000 + self._jumped_ms

    def monotonic_ns(self) -> int:
        return self._now_ns

    def advance_ms(self, duration_ms: int) -> None:
        self._now_ns += duration_ms * 1_000_000

    def jump_ms(self, distance_ms: int) -> None:
        """Set the wall clock ahead, or back, while no time passes."""
        self._jumped_ms += distance_ms


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
