"""Rates per second, between the newest answer and the oldest one of the last minute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.monitor.figures.memory import UNKNOWN, Memory, Points

# A few ticks: short enough to follow a load, long enough that bursts between two ticks do not rule.
SPAN_MS: Final = 60_000

Rates = Sequence[float | None]
"""By the number of a series. None until it has two answers, or while the newest one is missing."""


def produced_per_s(memory: Memory) -> Rates:
    """Rates of end offsets. Never negative, as a series ends where the end offset drops."""
    return _rates(memory, memory.ends, [tick.end_delays for tick in memory.ticks])


def consumed_per_s(memory: Memory) -> Rates:
    """Rates of committed offsets; None if the group went back meanwhile."""
    return _rates(memory, memory.commits, [tick.commit_delays for tick in memory.ticks])


def _rates(memory: Memory, table: Sequence[Sequence[int]], delays: Sequence[Sequence[int]]) -> Rates:
    times_ms = [tick.at_ms for tick in memory.ticks]
    last = len(times_ms) - 1
    at_ms = times_ms[last]
    earlier = range(memory.first_tick_since(at_ms - SPAN_MS), last)
    rates: list[float | None] = []
    for number, (series, delay) in enumerate(zip(table, delays[last], strict=True)):
        newest, rate = series[last], None
        if newest != UNKNOWN:
            for index in earlier:
                old = series[index]
                if old != UNKNOWN:
                    span_ms = at_ms + delay - times_ms[index] - delays[index][number]
                    if span_ms > 0 and newest >= old:
                        rate = (newest - old) * 1000 / span_ms
                    break
        rates.append(rate)
    return rates


def counter_per_s(points: Points | None, read_ms: int) -> float | None:
    """Rate of a counter; None if it was not read at `read_ms`."""
    if points is None or points[-1][0] != read_ms:
        return None
    last_ms, last = points[-1]
    for then_ms, then in points:
        if last_ms > then_ms >= last_ms - SPAN_MS:
            return (last - then) * 1000 / (last_ms - then_ms)
    return None
