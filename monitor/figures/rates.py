"""Rates per second, between the newest answer and the oldest one of the last minute."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.monitor.figures.memory import RATE_SPAN_MS, UNKNOWN, Memory, Points

Rates = Sequence[float | None]
"""A rate for the number of each series; None until it has two answers, or while the newest is missing."""


def produced_per_s(memory: Memory) -> Rates:
    """Rates of end offsets. Never negative, as a series ends where the end offset drops."""
    ticks = memory.ticks
    return _rates(memory, [tick.ends for tick in ticks], [tick.end_delays for tick in ticks])


def consumed_per_s(memory: Memory) -> Rates:
    """Rates of committed offsets; None if the group went back meanwhile."""
    ticks = memory.ticks
    return _rates(memory, [tick.commits for tick in ticks], [tick.commit_delays for tick in ticks])


def _rates(memory: Memory, offsets: Sequence[Sequence[int]], delays: Sequence[Sequence[int]]) -> Rates:
    """Return rates from the offsets of each tick, and from the delays of the answers with them."""
    at_ms = memory.ticks[-1].at_ms
    first = memory.first_tick_since(at_ms - RATE_SPAN_MS)
    earlier = [
        (tick.at_ms, offsets[index], delays[index], len(offsets[index]))
        for index, tick in enumerate(memory.ticks[first:-1], first)
    ]
    rates: list[float | None] = []
    for number, (newest, delay) in enumerate(zip(offsets[-1], delays[-1], strict=True)):
        rate = None
        if newest != UNKNOWN:
            for then_ms, old_offsets, old_delays, count in earlier:
                if number < count and (old := old_offsets[number]) != UNKNOWN:
                    span_ms = at_ms + delay - then_ms - old_delays[number]
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
        if last_ms > then_ms >= last_ms - RATE_SPAN_MS:
            return (last - then) * 1000 / (last_ms - then_ms)
    return None
