"""Time as a value that is handed in: code below the server asks a clock and never the operating system."""

from __future__ import annotations

import time
from typing import Protocol


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

    __slots__ = ("_now_ns",)

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ns = now_ms * 1_000_000

    def now_ms(self) -> int:
        return self._now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self._now_ns

    def advance_ms(self, duration_ms: int) -> None:
        self._now_ns += duration_ms * 1_000_000
