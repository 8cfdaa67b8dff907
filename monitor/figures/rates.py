"""Rates per second, between the newest answer and the oldest one of the last minute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from highwater.monitor.figures.memory import UNKNOWN, Points, Tick

# A few ticks: short enough to follow a load, long enough that bursts between two ticks do not rule.
SPAN_MS: Final = 60_000

Rate = Callable[[int], float | None]
"""Takes the number of a series. None until it has two answers, or while the newest one is missing."""


def produced_per_s(ticks: Sequence[Tick], first: int) -> Rate:
    """Rates of end offsets from tick `first` on. Never negative, as a series ends where the end offset drops."""
    columns = [(tick.at_ms, tick.ends, tick.end_delays) for tick in ticks[first:]]
    at_ms, ends, delays = columns.pop()

    def rate(series: int) -> float | None:
        end = ends[series]
        if end == UNKNOWN:
            return None
        for then_ms, old_ends, old_delays in columns:
            old = old_ends[series]
            if old != UNKNOWN:
                span_ms = at_ms + delays[series] - then_ms - old_delays[series]
                return (end - old) * 1000 / span_ms if span_ms > 0 else None
        return None

    return rate


def consumed_per_s(ticks: Sequence[Tick], first: int) -> Rate:
    """Rates of committed offsets from tick `first` on; None if the group went back meanwhile."""
    columns = [(tick.at_ms, tick.commits, tick.commit_delays) for tick in ticks[first:]]
    at_ms, commits, delays = columns.pop()

    def rate(series: int) -> float | None:
        commit = commits[series]
        if commit == UNKNOWN:
            return None
        for then_ms, old_commits, old_delays in columns:
            old = old_commits[series]
            if old != UNKNOWN:
                span_ms = at_ms + delays[series] - then_ms - old_delays[series]
                return (commit - old) * 1000 / span_ms if span_ms > 0 and commit >= old else None
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
