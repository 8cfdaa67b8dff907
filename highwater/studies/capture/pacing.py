"""Keeps reading to a rate in bytes per second."""

from __future__ import annotations

import time
from collections.abc import Callable


class ReadLimit:
    """`took(n)` waits until `n` more bytes since the start are within the rate; None: no limit."""

    def __init__(
        self,
        bytes_per_s: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._due_s = clock()

    def took(self, size_bytes: int) -> None:
        """Time in which nothing was read is no credit for later: production would feel the burst."""
        if self._bytes_per_s is None:
            return
        now_s = self._clock()
        self._due_s = max(self._due_s, now_s) + size_bytes / self._bytes_per_s
        self._sleep(self._due_s - now_s)
