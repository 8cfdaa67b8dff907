"""The flood brake: too many dead letters in a minute mean that not the records are at fault. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_MS: Final = 60_000


class FloodBrake:
    """Counts records and dead letters of the last minute."""

    def __init__(self, most_percent: float = 20.0, least_records: int = 50) -> None:
        """`least_records`: below so many records in a minute a percentage says nothing."""
        self._most_percent = most_percent
        self._least_records = least_records
        self._outcomes: deque[tuple[int, int, int]] = deque()
        """(time, records, dead letters)."""
        self._records = 0
        self._dead = 0

    def count(self, now_ms: int, records: int, dead: int) -> None:
        self._outcomes.append((now_ms, records, dead))
        self._records += records
        self._dead += dead
        self._forget(now_ms)

    def _forget(self, now_ms: int) -> None:
        while self._outcomes and self._outcomes[0][0] <= now_ms - WINDOW_MS:
            _, records, dead = self._outcomes.popleft()
            self._records -= records
            self._dead -= dead

    def reason(self, now_ms: int) -> str | None:
        """Why to pause; None if there is no reason."""
        self._forget(now_ms)
        if self._records < self._least_records or self._dead * 100 <= self._most_percent * self._records:
            return None
        return f"{self._dead} of {self._records} records of the last minute became dead letters"

    def release(self) -> None:
        """Begin to count anew, after a pause."""
        self._outcomes.clear()
        self._records = self._dead = 0
