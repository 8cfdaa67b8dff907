"""Failed logins by account and by address, and how long the next try has to wait."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

_FORGET_AFTER_S: Final = 3600.0
_MOST_KEYS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Limit:
    """`free` tries without a wait; the wait then begins with a second and doubles up to `longest_s`."""

    free: int
    longest_s: float


# An account waits for a short time at most, because anybody can make it wait.
ACCOUNT: Final = Limit(free=5, longest_s=60)
ADDRESS: Final = Limit(free=20, longest_s=900)


class LoginThrottle:
    """Counts tries when they begin, so that tries at the same moment count. Times are seconds of any clock."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._tries: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def begin(self, key: str, now_s: float) -> float:
        """Counts a try and returns 0, or returns the seconds that the next try of `key` has to wait."""
        with self._lock:
            tries, last_s = self._tries.get(key, (0, now_s))
            if now_s - last_s >= _FORGET_AFTER_S:
                tries = 0
            wait_s = self._wait_s(tries) - (now_s - last_s)
            if tries and wait_s > 0:
                return wait_s
            self._tries[key] = (tries + 1, now_s)
            self._tries.move_to_end(key)
            if len(self._tries) > _MOST_KEYS:
                self._tries.popitem(last=False)
            return 0.0

    def forget(self, key: str) -> None:
        """All tries of `key`."""
        with self._lock:
            self._tries.pop(key, None)

    def take_back(self, key: str) -> None:
        """The newest try of `key`, which was no failure."""
        with self._lock:
            tries, last_s = self._tries.get(key, (0, 0.0))
            if tries:
                self._tries[key] = (tries - 1, last_s)

    def _wait_s(self, tries: int) -> float:
        if tries < self._limit.free:
            return 0.0
        return min(2.0 ** min(tries - self._limit.free, 20), self._limit.longest_s)
