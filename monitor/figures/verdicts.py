"""Verdicts on lag without thresholds of lag: Burrow's rules, on offsets sampled by time.

Burrow (its evaluator `caching`) judges the last ten commits of a partition against a clock. Its users report false
STOPs for quiet topics and for groups that commit in bursts. Four things are different here: offsets are taken in each
tick, commit and end offset together; a group must have had something to read for as long as it is said to stand still;
what counts as long depends on how often the group was seen to commit; and lag must rise for certain, not merely not
fall.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from heapq import nlargest
from itertools import compress
from operator import ne, sub
from statistics import median
from typing import Final, NamedTuple

from highwater.common.topic_partition import TopicPartition
from highwater.common.units import count_text, plural, rate_text, wait_text
from highwater.monitor.figures.rows import LagVerdict, Sentence
from highwater.monitor.figures.trend import Pairs, Slope

LEAST_WINDOW_MS: Final = 10 * 60 * 1000
LEAST_STANDSTILL_MS: Final = 60 * 1000
# Of the half an hour that a monitor remembers.
_LONGEST_STANDSTILL_MS: Final = 25 * 60 * 1000
_COMMITS_OF_A_WINDOW: Final = 10
_COMMITS_OF_A_STANDSTILL: Final = 3
# Of fewer intervals the median says little of how often a group commits.
_LEAST_INTERVALS: Final = 3
# Groups that commit by chance move in ticks of their own, and share nothing.
_MOST_PACES: Final = 100


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
    reason: Sentence
    rewind: Rewind | None = None

    @property
    def sentence(self) -> str:
        return str(self.reason)


class Pace:
    """When a commit moved, and what follows from this alone."""

    def __init__(self, times_ms: Sequence[int], moves: bytes) -> None:
        """moves: for each tick but the first, 1 if the commit differs from that of the tick before."""
        moved = list(compress(times_ms[1:], moves))
        intervals = list(map(sub, moved[1:], moved))
        self.interval_ms: Final[float | None] = median(intervals) if len(intervals) >= _LEAST_INTERVALS else None
        """The median time between ticks in which it was seen to move; None if that was seldom."""
        self.window_ms: Final[float] = max(LEAST_WINDOW_MS, _COMMITS_OF_A_WINDOW * (self.interval_ms or 0))
        self.first: Final = bisect_left(times_ms, times_ms[-1] - self.window_ms)
        """The first tick of the window."""
        self.moves: Final = moves[self.first :]
        """The part of `moves` in the window."""
        self.last_ms: Final = moved[-1] if moved else None
        """The last tick in which it was seen to move."""
        self.count: Final = len(moved)
        self._times_ms: Final = times_ms

    @cached_property
    def pairs(self) -> Pairs:
        """Pairs of the window's ticks in which the commit moved, in seconds."""
        return Pairs([time_ms / 1000 for time_ms in compress(self._times_ms[self.first + 1 :], self.moves)])


class Paces:
    """The paces of tracks with the same times. Most groups commit in every tick, or in none, and share theirs."""

    def __init__(self, times_ms: Sequence[int]) -> None:
        self._times_ms = times_ms
        self._kept: dict[bytes, Pace] = {}

    def of(self, committed_offsets: Sequence[int]) -> Pace:
        moves = _moves(committed_offsets)
        pace = self._kept.get(moves)
        if pace is None:
            pace = Pace(self._times_ms, moves)
            if len(self._kept) < _MOST_PACES:
                self._kept[moves] = pace
        return pace


def _moves(committed_offsets: Sequence[int]) -> bytes:
    """For each tick but the first, 1 if the commit differs from that of the tick before."""
    return bytes(map(ne, committed_offsets[1:], committed_offsets))


def judge(track: Track, readers: Readers, owner: str = "", paces: Paces | None = None) -> Judgement:
    """Return the verdict on a partition whose commit and end offset are known in this tick.

    owner: the client that the sentence names. paces: of all tracks with the times of this one.
    """
    lag = track.end_offsets[-1] - track.committed_offsets[-1]
    if lag <= 0:
        return READ_ALL
    stands_ms = _standstill_ms(track)
    if stands_ms < LEAST_STANDSTILL_MS and _reads_evenly(track, lag):
        return _well(track, stands_ms, lag)
    pace = (Paces(track.times_ms) if paces is None else paces).of(track.committed_offsets)
    window = Track(*(each[pace.first :] for each in track))
    stands_still = stands_ms >= _limit_ms(pace, readers)
    if stands_still and readers is not Readers.OWNER:
        return Judgement(LagVerdict.STOP, Sentence(_stops, (readers, lag, stands_ms)))
    rewind = find_rewind(window)
    if rewind is not None:
        ago_ms = track.times_ms[-1] - rewind.to_ms
        return Judgement(LagVerdict.REWIND, Sentence(_went_back, (rewind, ago_ms)), rewind)
    if stands_still:
        return Judgement(LagVerdict.STALL, Sentence(_stalls, (owner, lag, stands_ms)))
    rise = _rise(window, pace)
    if rise is not None:
        return Judgement(LagVerdict.WARN, Sentence(_rises, (rise, window.times_ms[-1] - window.times_ms[0], lag)))
    return _well(track, stands_ms, lag)


class Company:
    """All partitions of a group, for a second look at those that seem to stall: is it only their turn that is missing?

    A member may read one of its partitions after the other. And where others of the group are seen to be slow, a member
    whose pace nobody knows yet may be as slow as they are.
    """

    def __init__(self, tracks: Mapping[TopicPartition, Track], owners: Mapping[TopicPartition, str]) -> None:
        """owners: the ids of members, where they are known."""
        self._tracks = tracks
        self._owners = owners
        self._busy: set[str] = set()
        """Members that commit in one of their partitions."""
        intervals: list[tuple[float, TopicPartition]] = []
        for key, track in tracks.items():
            pace = Paces(track.times_ms).of(track.committed_offsets)
            if pace.last_ms is None:
                continue
            now_ms = track.times_ms[-1]
            if key in owners and now_ms - pace.last_ms < _limit_ms(pace, Readers.OWNER):
                self._busy.add(owners[key])
            if track.end_offsets[-1] > track.committed_offsets[-1]:
                intervals.append((pace.interval_ms or (now_ms - track.times_ms[0]) / pace.count, key))
        # One of them may be that of the partition that is looked at.
        self._slowest = nlargest(2, intervals)

    def look_again(self, key: TopicPartition, client: str) -> Judgement | None:
        """Return what is true of the partition in place of STALL; None if STALL is. client: the name of its owner."""
        track = self._tracks[key]
        lag = track.end_offsets[-1] - track.committed_offsets[-1]
        stands_ms = _standstill_ms(track)
        if self._owners.get(key) in self._busy:
            return Judgement(LagVerdict.WARN, Sentence(_elsewhere, (client, lag, stands_ms)))
        if Paces(track.times_ms).of(track.committed_offsets).interval_ms is None:
            slow_ms = max((interval_ms for interval_ms, of in self._slowest if of != key), default=0.0)
            if stands_ms < min(_COMMITS_OF_A_STANDSTILL * slow_ms, _LONGEST_STANDSTILL_MS):
                return Judgement(LagVerdict.OK, Sentence(_others_are_slow, (lag, stands_ms)))
        return None


def _well(track: Track, stands_ms: int, lag: int) -> Judgement:
    seen_ms = track.times_ms[-1] - track.times_ms[0]
    if seen_ms < LEAST_STANDSTILL_MS:
        return Judgement(LagVerdict.UNKNOWN, Sentence(_too_short, (seen_ms, lag)))
    return Judgement(LagVerdict.OK, Sentence(_pauses, (stands_ms, lag)) if stands_ms else Sentence(_reads, (lag,)))


def _reads_evenly(track: Track, lag: int) -> bool:
    """Neither a rewind nor a rise is possible, whatever the window: most groups, and cheap to see."""
    ends, commits = track.end_offsets, track.committed_offsets
    return (
        len(commits) > 1
        and commits[-1] > commits[-2]
        and lag <= ends[-2] - commits[-2]
        and lag <= min(map(sub, ends, commits))
        and sorted(commits) == commits
    )


def _rise(window: Track, pace: Pace) -> Slope | None:
    """The trend of lag per second if lag rises for certain, never was 0, and is more than arrives between two commits.

    Taken where the commit moved: between two commits lag rises in every group.
    """
    all_lags = list(map(sub, window.end_offsets, window.committed_offsets))
    if min(all_lags) <= 0:
        return None
    lags = list(compress(all_lags[1:], pace.moves))
    if not lags or lags[-1] <= lags[0]:
        return None
    if lags[-1] * len(lags) <= window.end_offsets[-1] - window.end_offsets[0]:
        return None  # When it was asked can make as much of a difference.
    trend = pace.pairs.slope(lags)
    return trend if trend is not None and trend.low > 0 else None


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
    times_ms, ends, commits = track
    newest = commits[-1]
    index = len(times_ms) - 1
    while index > 0 and commits[index - 1] == newest < ends[index - 1]:
        index -= 1
    return times_ms[-1] - times_ms[index]


def _limit_ms(pace: Pace, readers: Readers) -> float:
    if pace.interval_ms is not None:
        return max(_COMMITS_OF_A_STANDSTILL * pace.interval_ms, LEAST_STANDSTILL_MS)
    # Members that are there may commit in bursts, and nobody has seen how often yet.
    return pace.window_ms if readers is Readers.OWNER else LEAST_STANDSTILL_MS


# -- Sentences ---------------------------------------------------------------------------------------------------------


def _time(duration_ms: float) -> str:
    return wait_text(duration_ms / 1000)


def _unread(lag: int) -> str:
    return f"{plural(lag, 'record')} {'is' if lag == 1 else 'are'} unread"


def _read_all() -> str:
    return "It has read everything."


def _reads(lag: int) -> str:
    return f"It reads, and its lag does not rise: {_unread(lag)}."


def _pauses(stands_ms: int, lag: int) -> str:
    return f"There was no commit for {_time(stands_ms)}, which is usual for it: {_unread(lag)}."


def _too_short(seen_ms: int, lag: int) -> str:
    return f"Watched for only {_time(seen_ms)}: too short for a verdict. {_unread(lag)}."


def _stops(readers: Readers, lag: int, stands_ms: int) -> str:
    who = "No consumer reads" if readers is Readers.NOBODY else "No member has this partition"
    return f"{who}: {_unread(lag)}, and there was no commit for {_time(stands_ms)}."


def _stalls(owner: str, lag: int, stands_ms: int) -> str:
    who = f"Member {owner} has this partition, but" if owner else "The group has members, but"
    return f"{who} there was no commit for {_time(stands_ms)}: {_unread(lag)}."


def _elsewhere(owner: str, lag: int, stands_ms: int) -> str:
    who = f"Member {owner}" if owner else "The member"
    return f"{who} commits in its other partitions, but not in this one for {_time(stands_ms)}: {_unread(lag)}."


def _others_are_slow(lag: int, stands_ms: int) -> str:
    return f"There was no commit for {_time(stands_ms)}, and others of the group commit as rarely: {_unread(lag)}."


def _went_back(rewind: Rewind, ago_ms: int) -> str:
    back = count_text(rewind.old_offset - rewind.new_offset)
    return f"The commit went back by {back}, from {rewind.old_offset} to {rewind.new_offset}, {_time(ago_ms)} ago."


def _rises(rise: Slope, seen_ms: int, lag: int) -> str:
    interval = f"{rate_text(rise.low)} to {rate_text(rise.high)} at 95 %"
    return f"It reads, but lag rises by {rate_text(rise.median)} ({interval}) over {_time(seen_ms)}: {_unread(lag)}."


READ_ALL: Final = Judgement(LagVerdict.OK, Sentence(_read_all, ()))
