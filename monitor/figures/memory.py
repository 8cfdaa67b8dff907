"""What figures remember of the last half hour: offsets of partitions and commits, in few bytes."""

from __future__ import annotations

from typing import Final

from highwater.monitor.model import Snapshot

WINDOW_MS: Final = 30 * 60 * 1000


class Memory:
    """Takes each snapshot of a cluster once, in the order of their ticks."""

    def __init__(self) -> None:
        self._newest: Snapshot | None = None
        self._first_at_ms = 0

    def add(self, snapshot: Snapshot) -> None:
        if self._newest is None:
            self._first_at_ms = snapshot.at_ms
        self._newest = snapshot

    @property
    def newest(self) -> Snapshot:
        """Raises ValueError before the first snapshot."""
        if self._newest is None:
            raise ValueError("figures need one snapshot at least")
        return self._newest

    @property
    def window_ms(self) -> int:
        """How far back it reaches."""
        return min(WINDOW_MS, self.newest.at_ms - self._first_at_ms)
