"""Lag in time: how old the first unread record is, from where the end offset was and when."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from highwater.monitor.figures.rows import Duration


def lag_time(committed_offset: int, times_ms: Sequence[int], end_offsets: Sequence[int]) -> Duration | None:
    """Return the time from when the end offset was at the commit to the newest answer.

    Between two answers the end offset is taken to rise evenly. Before the first answer nothing is known: the result
    is then the time since the first answer, and `is_least`. `end_offsets` never drop. None without an answer.
    """
    if not times_ms:
        return None
    now_ms = times_ms[-1]
    if committed_offset >= end_offsets[-1]:
        return Duration(0.0)
    right = bisect_right(end_offsets, committed_offset)
    if right == 0:
        return Duration(float(now_ms - times_ms[0]), is_least=True)
    left = right - 1
    share_after = (end_offsets[right] - committed_offset) / (end_offsets[right] - end_offsets[left])
    return Duration(now_ms - times_ms[right] + share_after * (times_ms[right] - times_ms[left]))


def catch_up_ms(lag: int, consumed_per_s: float | None, produced_per_s: float | None) -> float | None:
    """Return how long until lag is 0 at these rates: infinite if never, None if a rate is not known."""
    if lag <= 0:
        return 0.0
    if consumed_per_s is None or produced_per_s is None:
        return None
    gain_per_s = consumed_per_s - produced_per_s
    return lag * 1000 / gain_per_s if gain_per_s > 0 else float("inf")
