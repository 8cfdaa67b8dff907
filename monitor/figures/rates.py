"""Rates per second, between the newest answer and the oldest one of the last minute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from highwater.monitor.figures.memory import UNKNOWN, Memory, Points

# A few ticks: short enough to follow a load, long enough that bursts between two ticks do not rule.
SPAN_MS: Final = 60_000

Rate = Callable[[int], float | None]
"""Takes the number of a series. None until it has two answers, or while the newest one is missing."""


def produced_per_s(memory: Memory) -> Rate:
    """Rates of end offsets. Never negative, as a series ends where the end offset drops."""
    return _rate(memory, memory.ends, [tick.end_delays for tick in memory.ticks])


def consumed_per_s(memory: Memory) -> Rate:
    """Rates of committed offsets; None if the group went back meanwhile."""
    return _rate(memory, memory.commits, [tick.commit_delays for tick in memory.ticks])


def _rate(memory: Memory, table: Sequence[Sequence[int]], delays: Sequence[Sequence[int]]) -> Rate:
    times_ms = [tick.at_ms for tick in memory.ticks]
    last = len(times_ms) - 1
    at_ms, last_delays = times_ms[last], delays[last]
    earlier = range(memory.first_tick_since(at_ms - SPAN_MS), last)

    def rate(number: int) -> float | None:
        series = table[number]
        newest = series[last]
        if newest == UNKNOWN:
            return None
        for index in earlier:
            old = series[index]
            if old != UNKNOWN:
                span_ms = at_ms + last_delays[number] - times_ms[index] - delays[index][number]
                return (newest - old) * 1000 / span_ms if span_ms > 0 and newest >= old else None
        return None

    return rate


def counter_per_s(points: Points | None, now_ms: int) -> float | None:
    """Rate of a counter that had no answer since `now_ms` -> None."""
    if points is None or points[-1][0] < now_ms:
        return None
    last_ms, last = points[-1]
    for then_ms, then in points:
        if last_ms > then_ms >= last_ms - SPAN_MS:
            return (last - then) * 1000 / (last_ms - then_ms)
    return None
