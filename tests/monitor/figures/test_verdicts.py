"""Verdicts on lag: Burrow's published cases and the offsets of its users' reports, sampled as a monitor sees them.

Burrow's cases are from the table of its evaluator's test, its users' from issues 38, 123, 195, 237 and 303. The script
of a case says when the group committed what, and where the end offset was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.monitor.figures.rows import LagVerdict, Level
from highwater.monitor.figures.verdicts import Company, Readers, Track, find_rewind, judge

TICK_S = 15

Step = tuple[float, int]
"""Seconds, and an offset that holds from then on."""


def sampled(commits: Sequence[Step], ends: Sequence[Step], now_s: float) -> Track:
    """What ticks of 15 seconds saw of it up to `now_s`; the first tick is at the first commit."""

    def at(steps: Sequence[Step], time_s: float) -> int:
        return [offset for when, offset in steps if when <= time_s][-1]

    times: list[float] = []
    time_s = now_s
    while time_s >= commits[0][0]:
        times.insert(0, time_s)
        time_s -= TICK_S
    return Track(
        [round(time * 1000) for time in times],
        [max(at(ends, time), at(commits, time)) for time in times],
        [at(commits, time) for time in times],
    )


@dataclass(frozen=True)
class Case:
    """`burrow` is its own verdict at `now_s`, for the record."""

    commits: list[Step]
    ends: list[Step]
    now_s: float
    burrow: str
    owned: LagVerdict
    """With a member that has the partition."""
    abandoned: LagVerdict
    """Without members."""


OK, WARN, STOP, STALL, REWIND = (
    LagVerdict.OK,
    LagVerdict.WARN,
    LagVerdict.STOP,
    LagVerdict.STALL,
    LagVerdict.REWIND,
)


def rising(lags: Sequence[int]) -> tuple[list[Step], list[Step]]:
    """A commit of 1000 more each 100 seconds, with these lags."""
    commits: list[Step] = [(100.0 * number, 1000 * number) for number in range(1, len(lags) + 1)]
    return commits, [(when, offset + lag) for (when, offset), lag in zip(commits, lags, strict=True)]


def standing(lags: Sequence[int]) -> tuple[list[Step], list[Step]]:
    """The same commit of 1000 each 100 seconds."""
    return [(100.0, 1000)], [(100.0 * number, 1000 + lag) for number, lag in enumerate(lags, 1)]


SECONDLY: list[Step] = [(float(second), 792748079 + second) for second in range(15)]

CASES = {
    "0, lag rises from zero": Case(*rising([0, 50, 100, 150, 200]), 600, "OK", OK, OK),
    # Burrow waits until the silence is longer than its window; three of the group's own intervals are enough.
    "1, silent for four intervals": Case(*rising([0, 50, 100, 150, 200]), 900, "OK", STALL, STOP),
    "2, silent for longer than the window": Case(*rising([0, 50, 100, 150, 200]), 1000, "STOP", STALL, STOP),
    "3, the same with lag all the time": Case(*rising([50, 100, 150, 200, 250]), 1000, "STOP", STALL, STOP),
    "4, stands still, lag was zero": Case(*standing([0, 50, 100, 150, 200]), 600, "OK", OK, STOP),
    # Nobody saw yet how often the group commits, so that ten minutes must pass.
    "5, stands still, lag rises": Case(*standing([100, 150, 200, 250, 300]), 600, "STALL", OK, STOP),
    "5, a while later": Case(*standing([100, 150, 200, 250, 300]), 700, "STALL", STALL, STOP),
    "6, stands still, lag stays": Case(*standing([100] * 5), 700, "STALL", STALL, STOP),
    # Burrow says REWIND; the group has long caught up with where it was.
    "7, goes back and makes it good": Case(
        [(100.0, 1000), (200.0, 2000), (300.0, 3000), (400.0, 2000), (500.0, 4000)],
        [(100.0, 1100), (200.0, 2150), (300.0, 3200), (400.0, 3250), (500.0, 4300)],
        600,
        "REWIND",
        OK,
        OK,
    ),
    "7, goes back and stays there": Case(
        [(100.0, 1000), (200.0, 2000), (300.0, 3000), (400.0, 2000), (500.0, 2500)],
        [(100.0, 1100), (200.0, 2150), (300.0, 3200), (400.0, 3250), (500.0, 4300)],
        600,
        "REWIND",
        REWIND,
        REWIND,
    ),
    "8, has read everything": Case(*rising([0] * 5), 1000, "OK", OK, OK),
    # Twenty seconds are no time for a monitor, and are for nobody else.
    "9, commits each second, then new data": Case(
        SECONDLY, [(0.0, 792748094), (15.0, 792749024)], 32, "STOP", LagVerdict.UNKNOWN, LagVerdict.UNKNOWN
    ),
    "9, a minute later": Case(SECONDLY, [(0.0, 792748094), (15.0, 792749024)], 92, "STOP", OK, STOP),
    "10, one record since the last commit": Case(SECONDLY, [(0.0, 792748093), (82.0, 792748094)], 92, "OK", OK, OK),
    # Users' reports.
    "38, a slow topic": Case([(0.0, 645750), (11_862.0, 645853)], [(0.0, 645853)], 12_600, "STOP", OK, OK),
    "123, caught up for a month": Case([(0.0, 124848), (40.0, 124857)], [(0.0, 124857)], 1_700, "STOP", OK, OK),
    "195, nothing came": Case([(0.0, 5059598)], [(0.0, 5059598)], 1_200, "STOP", OK, OK),
    "237, reads in bursts": Case(
        [(90.0 * number, 7952519 + 215 * number) for number in range(12)],
        [(0.0, 7952519 + 2107), (480.0, 7952519 + 2800)],
        12 * 90 - 1,
        "STOP",
        OK,
        OK,
    ),
    "303, commits all five minutes": Case(
        [(300.0 * number, 3_000 * number) for number in range(6)],
        [(10.0 * number, 100 + 100 * number) for number in range(200)],
        1_790,
        "STOP",
        OK,
        OK,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_of_a_case(name: str) -> None:
    case = CASES[name]
    track = sampled(case.commits, case.ends, case.now_s)
    assert judge(track, Readers.OWNER).verdict is case.owned
    assert judge(track, Readers.NOBODY).verdict is case.abandoned


def test_a_group_that_only_assigns_has_no_members_and_reads() -> None:
    commits: list[Step] = [(15.0 * number, 100 * number) for number in range(80)]
    ends: list[Step] = [(15.0 * number, 100 * number + 50) for number in range(80)]
    assert judge(sampled(commits, ends, 79 * 15), Readers.NOBODY).verdict is OK


def test_lag_that_rises_for_certain_is_a_warning_with_its_interval() -> None:
    commits: list[Step] = [(15.0 * number, 80 * 15 * number) for number in range(80)]
    ends: list[Step] = [(15.0 * number, 100 * 15 * number + 10) for number in range(80)]
    found = judge(sampled(commits, ends, 79 * 15), Readers.OWNER)
    assert found.verdict is WARN
    assert found.sentence == (
        "It reads, but lag rises by 20/s (20/s to 20/s at 95 %) over 10 min: 23,710 records are unread."
    )


def test_lag_of_less_than_arrives_between_two_commits_is_well_though_it_rises() -> None:
    commits: list[Step] = [(5.0 * number, 160 * number) for number in range(40)]
    ends: list[Step] = [(5.0 * number, 160 * number + 10 + number) for number in range(40)]
    assert judge(sampled(commits, ends, 39 * 5), Readers.OWNER).verdict is OK
    ends = [(when, 40 * end - 39 * 160 * number) for number, (when, end) in enumerate(ends)]
    assert judge(sampled(commits, ends, 39 * 5), Readers.OWNER).verdict is WARN


def test_lag_that_goes_up_and_down_between_commits_is_well() -> None:
    commits: list[Step] = [(60.0 * number, 6_000 * number) for number in range(20)]
    ends: list[Step] = [(5.0 * number, 500 * number + 700) for number in range(240)]
    for now_s in range(1_000, 1_195, 15):
        assert judge(sampled(commits, ends, now_s), Readers.OWNER).verdict is OK


def test_sentences_name_the_member_and_the_numbers() -> None:
    stands = sampled([(0.0, 1000)], [(0.0, 1250)], 900)
    assert judge(stands, Readers.OWNER, "billing-7").sentence == (
        "Member billing-7 has this partition, but there was no commit for 15 min: 250 records are unread."
    )
    assert judge(stands, Readers.NOBODY).sentence == (
        "No consumer reads: 250 records are unread, and there was no commit for 15 min."
    )
    assert judge(stands, Readers.OTHERS).sentence == (
        "No member has this partition: 250 records are unread, and there was no commit for 15 min."
    )
    back = sampled([(0.0, 1000), (100.0, 3000), (700.0, 2000)], [(0.0, 4000)], 750)
    assert judge(back, Readers.OWNER).sentence == "The commit went back by 1,000, from 3000 to 2000, 45 s ago."


STANDS: list[Step] = [(0.0, 1000)]
UNREAD: list[Step] = [(0.0, 5000)]


def again(now_s: float, owner: str, others: Sequence[tuple[str, list[Step]]], own: list[Step] = STANDS) -> str:
    """The verdict and the sentence of partition 0 of `owner`, after a second look at partitions of others."""
    commits = [own, *(steps for _, steps in others)]
    tracks = {("orders", number): sampled(steps, UNREAD, now_s) for number, steps in enumerate(commits)}
    assert judge(tracks["orders", 0], Readers.OWNER).verdict is STALL
    owners = {("orders", number): each for number, each in enumerate([owner, *(name for name, _ in others)])}
    found = Company(tracks, owners).look_again(("orders", 0), "me")
    return "STALL" if found is None else f"{found.verdict.value} {found.sentence}"


def test_a_member_that_reads_one_partition_after_the_other_does_not_stall() -> None:
    each_minute: list[Step] = [(60.0 * number, 10 * number) for number in range(15)]
    assert again(900, "a", [("a", each_minute)]) == (
        "WARN Member me commits in its other partitions, but not in this one for 15 min: 4,000 records are unread."
    )
    assert again(900, "a", [("b", each_minute)]) == "STALL"
    # When the other stands for three of its minutes, too, the member does nothing.
    assert again(840 + 181, "a", [("a", each_minute)]) == "STALL"


def test_a_member_of_a_slow_group_is_waited_for_as_long_as_the_others_take() -> None:
    slow: list[Step] = [(0.0, 0), (700.0, 10), (1400.0, 20)]
    assert again(900, "a", [("b", slow)]) == (
        "OK There was no commit for 15 min, and others of the group commit as rarely: 4,000 records are unread."
    )
    assert again(1400, "a", [("b", slow)]).startswith("OK")
    # Half an hour is all that the monitor remembers.
    assert again(1500, "a", [("b", slow)]) == "STALL"
    # Others that have read everything are not slow, and a pace of its own says more than that of others.
    assert again(900, "a", [("b", [(0.0, 0), (700.0, 5000)])]) == "STALL"
    assert again(900, "a", [("b", slow)], [(20.0 * number, number) for number in range(10)]) == "STALL"
    assert again(900, "a", []) == "STALL"


def test_one_record_is_unread_and_two_are() -> None:
    for end, text in ((101, "1 record is unread"), (102, "2 records are unread")):
        track = Track((0, 15_000), (end, end), (99, 100))
        assert text in judge(track, Readers.OWNER).sentence


def test_errors_are_worse_than_warnings() -> None:
    assert [verdict.level for verdict in (OK, LagVerdict.UNKNOWN, WARN, REWIND, STALL, STOP)] == [
        Level.OK,
        Level.UNKNOWN,
        Level.WARN,
        Level.ERROR,
        Level.ERROR,
        Level.ERROR,
    ]


TRACKS = st.lists(st.tuples(st.integers(0, 500), st.integers(-200, 500)), min_size=1, max_size=60)


@given(TRACKS, st.sampled_from(Readers))
def test_every_track_has_a_verdict_and_a_sentence(steps: list[tuple[int, int]], readers: Readers) -> None:
    ends, commits = [1000], [500]
    for produced, consumed in steps:
        ends.append(ends[-1] + produced)
        commits.append(min(ends[-1], max(0, commits[-1] + consumed)))
    track = Track([15_000 * number for number in range(len(ends))], ends, commits)
    found = judge(track, readers)
    assert found.sentence
    assert found.sentence[-1] == "."
    assert (found.verdict is OK) or commits[-1] < ends[-1]
    assert found.verdict is not WARN or all(end > commit for end, commit in zip(ends[-41:], commits[-41:], strict=True))


@given(st.lists(st.integers(0, 100), min_size=1, max_size=50))
def test_commits_that_only_rise_are_no_rewind(commits: list[int]) -> None:
    offsets = sorted(commits)
    assert find_rewind(Track(range(len(offsets)), [1000] * len(offsets), offsets)) is None
