"""Verdicts on lag without thresholds of lag: Burrow's rules, on offsets sampled by time.

Burrow (its evaluator `caching`) judges the last ten commits of a partition against a clock. Its users report false
STOPs for quiet topics and for groups that commit in bursts. Four things are different here: offsets are taken in each
tick, commit and end offset together; a group must have had something to read for as long as it is said to stand still;
what counts as long depends on how often the group was seen to commit; and lag must rise for certain, not merely not
fall.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import compress
from operator import ne, sub
from statistics import median
from typing import Final, NamedTuple

from highwater.common.units import count_text, rate_text, wait_text
from highwater.monitor.figures.rows import LagVerdict
from highwater.monitor.figures.trend import Slope, slope

LEAST_WINDOW_MS: Final = 10 * 60 * 1000
LEAST_STANDSTILL_MS: Final = 60 * 1000
_COMMITS_OF_A_WINDOW: Final = 10
_COMMITS_OF_A_STANDSTILL: Final = 3
# Of fewer intervals the median says little of how often a group commits.
_LEAST_INTERVALS: Final = 3


class Readers(Enum):
    """Who could read the partition."""

    OWNER = "owner"
    """A member that the partition is assigned to, or members whose assignment is not known."""
    OTHERS = "others"
    """The group has members, but no one has this partition."""
    NOBODY = "nobody"


class Track(NamedTuple):
    """What was seen of a group on a partition, the oldest first; the newest is from this tick."""

    times_ms: Sequence[int]
    end_offsets: Sequence[int]
    committed_offsets: Sequence[int]


@dataclass(frozen=True, slots=True)
class Rewind:
    """The commit went back: between which ticks, and from where to where."""

    from_ms: int
    to_ms: int
    old_offset: int
    new_offset: int


class Judgement(NamedTuple):
    verdict: LagVerdict
    sentence: str
    rewind: Rewind | None = None


def judge(track: Track, readers: Readers, owner: str = "") -> Judgement:
    """Return the verdict on a partition whose commit and end offset are known in this tick.

    `owner` is the client that the sentence names.
    """
    lag = track.end_offsets[-1] - track.committed_offsets[-1]
    if lag <= 0:
        return Judgement(LagVerdict.OK, "It has read everything.")
    stands_ms = _standstill_ms(track)
    if stands_ms < LEAST_STANDSTILL_MS and _reads_evenly(track, lag):
        return _well(track, stands_ms, lag)
    moves = _moves(track)
    interval_ms = _commit_interval_ms(track, moves)
    window_ms = max(LEAST_WINDOW_MS, _COMMITS_OF_A_WINDOW * (interval_ms or 0))
    first = bisect_left(track.times_ms, track.times_ms[-1] - window_ms)
    window = Track(track.times_ms[first:], track.end_offsets[first:], track.committed_offsets[first:])
    limit_ms = _limit_ms(interval_ms, window_ms, readers)
    stands_still = stands_ms >= limit_ms
    records = f"{count_text(lag)} records are unread"
    if stands_still and readers is Readers.NOBODY:
        return Judgement(LagVerdict.STOP, f"Nobody reads: {records}, and no commit came for {_time(stands_ms)}.")
    if stands_still and readers is Readers.OTHERS:
        sentence = f"No member has this partition: {records}, and no commit came for {_time(stands_ms)}."
        return Judgement(LagVerdict.STOP, sentence)
    rewind = find_rewind(window)
    if rewind is not None:
        back = count_text(rewind.old_offset - rewind.new_offset)
        ago = _time(track.times_ms[-1] - rewind.to_ms)
        sentence = f"The commit went back by {back}, from {rewind.old_offset} to {rewind.new_offset}, {ago} ago."
        return Judgement(LagVerdict.REWIND, sentence, rewind)
    if stands_still:
        who = f"Member {owner} has this partition, but" if owner else "The group has members, but"
        return Judgement(LagVerdict.STALL, f"{who} no commit came for {_time(stands_ms)}: {records}.")
    rise = _rise(window, moves[first:])
    if rise is not None:
        seen = _time(window.times_ms[-1] - window.times_ms[0])
        interval = f"{rate_text(rise.low)} to {rate_text(rise.high)} at 95 %"
        sentence = f"It reads, but lag rises by {rate_text(rise.median)} ({interval}) over {seen}: {records}."
        return Judgement(LagVerdict.WARN, sentence)
    return _well(track, stands_ms, lag)


def _well(track: Track, stands_ms: int, lag: int) -> Judgement:
    records = f"{count_text(lag)} records are unread"
    seen_ms = track.times_ms[-1] - track.times_ms[0]
    if seen_ms < LEAST_STANDSTILL_MS:
        return Judgement(LagVerdict.UNKNOWN, f"Seen for {_time(seen_ms)} only: too short for a verdict. {records}.")
    if stands_ms:
        return Judgement(LagVerdict.OK, f"No commit came for {_time(stands_ms)}, which is not long for it: {records}.")
    return Judgement(LagVerdict.OK, f"It reads, and lag does not rise for certain: {records}.")


def _reads_evenly(track: Track, lag: int) -> bool:
    """Neither a rewind nor a rise is possible, whatever the window: most groups, and cheap to see."""
    commits = track.committed_offsets
    return (
        len(commits) > 1
        and commits[-1] > commits[-2]
        and lag <= min(map(sub, track.end_offsets, commits))
        and sorted(commits) == commits
    )


def _commit_interval_ms(track: Track, moves: Sequence[bool]) -> float | None:
    """Return the median time between ticks in which the commit was seen to move; None if that was seldom."""
    moved = list(compress(track.times_ms[1:], moves))
    intervals = list(map(sub, moved[1:], moved))
    return median(intervals) if len(intervals) >= _LEAST_INTERVALS else None


def _rise(window: Track, moves: Sequence[bool]) -> Slope | None:
    """The trend of lag per second if lag rises for certain, and never was 0. `moves` are those after the first tick.

    Taken where the commit moved: between two commits lag rises in every group.
    """
    all_lags = list(map(sub, window.end_offsets, window.committed_offsets))
    if min(all_lags) <= 0:
        return None
    lags = list(compress(all_lags[1:], moves))
    if not lags or lags[-1] <= lags[0]:
        return None
    trend = slope([time_ms / 1000 for time_ms in compress(window.times_ms[1:], moves)], lags)
    return trend if trend is not None and trend.low > 0 else None


def _moves(track: Track) -> list[bool]:
    """For each tick but the first, whether the commit differs from that of the tick before."""
    return list(map(ne, track.committed_offsets[1:], track.committed_offsets))


def find_rewind(track: Track) -> Rewind | None:
    """Return the first step back of the commit that no later commit made good."""
    offsets = list(track.committed_offsets)
    if sorted(offsets) == offsets:
        return None
    highest_after = offsets[-1]
    found: Rewind | None = None
    for index in range(len(offsets) - 1, 0, -1):
        highest_after = max(highest_after, offsets[index])
        before = offsets[index - 1]
        if offsets[index] < before and highest_after < before:
            found = Rewind(track.times_ms[index - 1], track.times_ms[index], before, offsets[index])
    return found


def _standstill_ms(track: Track) -> int:
    """How long there was something to read in every tick, and the commit did not move."""
    newest = track.committed_offsets[-1]
    index = len(track.times_ms) - 1
    while index > 0 and track.committed_offsets[index - 1] == newest < track.end_offsets[index - 1]:
        index -= 1
    return track.times_ms[-1] - track.times_ms[index]


def _limit_ms(interval_ms: float | None, window_ms: float, readers: Readers) -> float:
    if interval_ms is not None:
        return max(_COMMITS_OF_A_STANDSTILL * interval_ms, LEAST_STANDSTILL_MS)
    # Members that are there may commit in bursts, and nobody has seen how often yet.
    return window_ms if readers is Readers.OWNER else LEAST_STANDSTILL_MS


def _time(duration_ms: float) -> str:
    return wait_text(duration_ms / 1000)
