"""A rate over the last few time windows, as Kafka measures it (SampledStat and Rate)."""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_THROTTLE_MS: Final = 2**31 - 1
"""The longest throttle time that an answer can have."""

_LEAST: Final = 1e-6
"""ZooKeeper may have a limit of 0, which Kafka's tool takes."""


def throttle_ms(excess: float, limit: float, span_ms: int) -> int:
    """Return the throttle time of what is above a limit, which `limit` in each `span_ms` pays back."""
    return min(round(excess / max(limit, _LEAST) * span_ms), MAX_THROTTLE_MS)


class WindowedRate:
    """Amounts by time window.

    A window opens with the first amount after the end of the previous window. The rate is taken over the time since the
    oldest window opened, but over at least all windows except one: a burst after idle time may use what the idle time
    left, and no more. If idle time does not count, the rate is over at least one window (SimpleRate).
    """

    __slots__ = ("_count", "_least_count", "_size_ms", "_windows")

    def __init__(self, count: int, size_ms: int, *, counts_silence: bool = True) -> None:
        self._count = count
        self._least_count = count if counts_silence else 1
        self._size_ms = size_ms
        self._windows: deque[list[float]] = deque()

    def record(self, amount: float, now_ms: int) -> None:
        windows = self._windows
        if not windows or now_ms - windows[-1][0] >= self._size_ms:
            windows.append([now_ms, 0])
            if len(windows) > self._count:
                windows.popleft()
        windows[-1][1] += amount

    def span_ms(self, now_ms: int) -> int:
        """Return the time over which the rate is taken."""
        self._forget(now_ms)
        elapsed_ms = now_ms - int(self._windows[0][0]) if self._windows else 0
        missing = self._least_count - 1 - elapsed_ms // self._size_ms
        return max(elapsed_ms + max(missing, 0) * self._size_ms, self._size_ms)

    def per_second(self, now_ms: int) -> float:
        span_ms = self.span_ms(now_ms)
        return sum(amount for _, amount in self._windows) * 1000 / span_ms

    def is_idle(self, now_ms: int) -> bool:
        """Whether all windows are empty."""
        self._forget(now_ms)
        return not any(amount for _, amount in self._windows)

    def _forget(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= self._count * self._size_ms:
            self._windows.popleft()
