"""A clock that stands still until it is told to move, for tests and simulations."""

from __future__ import annotations


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
