"""Sources of snapshots for tests: a made-up cluster at work, with faults at chosen ticks."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace

from highwater.monitor.model import Snapshot
from tests.monitor import clusters


class MadeUpSource:
    """Gives the snapshots of a window one after the other, at the present time."""

    def __init__(self, window: list[Snapshot], failing: Collection[int] = ()) -> None:
        self._window = window
        self._failing = failing
        self.asked = 0

    async def snapshot(self, number: int) -> Snapshot:
        self.asked += 1
        if number in self._failing:
            raise ConnectionError("no broker of 127.0.0.1:9 answers:\nconnection refused")
        found = self._window[min(number, len(self._window) - 1)]
        now_ms = time.time_ns() // 1_000_000
        return replace(found, number=number, at_ms=time.monotonic_ns() // 1_000_000, taken_at_ms=now_ms)


def small_source(failing: Collection[int] = ()) -> MadeUpSource:
    return MadeUpSource(clusters.window(clusters.SMALL, ticks=10), failing)
