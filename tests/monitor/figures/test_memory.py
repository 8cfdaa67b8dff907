"""What is remembered of earlier ticks: rates that are never negative, new series, few bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.common.topic_partition import TopicPartition
from highwater.monitor.figures.lag import deleted_per_s
from highwater.monitor.figures.memory import FULL_MS, SPARSE_MS, STARTS_MS, WINDOW_MS, Memory
from highwater.monitor.figures.rates import consumed_per_s, produced_per_s
from highwater.monitor.model import Commit, Group, GroupState, Snapshot
from tests.monitor.clusters import TICK_MS, group, partition, snapshot, topic

KEY: TopicPartition = ("t", 0)


def tick(number: int, end: int | None, *, start: int | None = 0, commit: int | None = None, **more: str) -> Snapshot:
    at_ms = number * TICK_MS
    groups = [] if commit is None else [group("g", {KEY: commit}, at_ms=at_ms)]
    only = topic("t", partition("t", start=start, end=end, at_ms=at_ms), topic_id=more.get("topic_id"))
    return snapshot(number=number, topics=[only], groups=groups)


def filled(*ticks: Snapshot) -> Memory:
    memory = Memory()
    for one in ticks:
        memory.add(one)
    return memory


def produced(memory: Memory) -> float | None:
    series = memory.partition_series(KEY)
    assert series is not None
    return produced_per_s(memory)[series]


def consumed(memory: Memory) -> float | None:
    return consumed_per_s(memory)[memory.commit_series("g")[KEY]]


def test_a_rate_needs_two_answers() -> None:
    assert produced(filled(tick(0, 100))) is None
    assert produced(filled(tick(0, 100), tick(1, 250))) == 10


def test_a_rate_is_that_of_the_last_minute() -> None:
    assert produced(filled(*(tick(number, 1000 * number) for number in range(5)), tick(5, 4000), tick(6, 4000))) == (
        2000 / 60
    )


def test_the_time_is_that_of_the_answers() -> None:
    """One broker answers late."""
    late = snapshot(number=1, topics=[topic("t", partition("t", end=1_000, at_ms=TICK_MS + 5_000))])
    assert produced(filled(tick(0, 0), late)) == 50


def test_no_rate_while_the_newest_answer_is_missing() -> None:
    memory = filled(tick(0, 0), tick(1, 150), tick(2, None))
    assert produced(memory) is None
    memory.add(tick(3, 450))
    assert produced(memory) == 10


def test_a_truncated_log_begins_a_new_series() -> None:
    memory = filled(tick(0, 1000), tick(1, 2000), tick(2, 500))
    assert produced(memory) is None
    memory.add(tick(3, 650))
    assert produced(memory) == 10


def test_a_topic_that_was_made_again_begins_a_new_series_though_it_has_more_records() -> None:
    memory = filled(tick(0, 1000, commit=900, topic_id="one"), tick(1, 9_000, commit=900, topic_id="two"))
    assert produced(memory) is None
    assert consumed(memory) is None


def test_a_group_that_goes_back_has_no_rate() -> None:
    assert consumed(filled(tick(0, 1000, commit=100), tick(1, 1000, commit=250))) == 10
    assert consumed(filled(tick(0, 1000, commit=100), tick(1, 1000, commit=50))) is None


@given(st.lists(st.none() | st.integers(0, 10**6), min_size=1, max_size=20))
def test_a_rate_is_never_negative(ends: list[int | None]) -> None:
    memory = Memory()
    for number, end in enumerate(ends):
        memory.add(tick(number, end))
        rate = produced(memory)
        assert rate is None or rate >= 0


def test_half_an_hour_is_kept_and_its_older_part_by_the_minute() -> None:
    memory = filled(*(tick(number, number) for number in range(400)))
    newest = memory.ticks[-1].at_ms
    ages = [newest - one.at_ms for one in memory.ticks]
    assert WINDOW_MS - SPARSE_MS <= ages[0] <= WINDOW_MS
    gaps = [older - younger for older, younger in pairwise(ages)]
    assert all(gap == TICK_MS for age, gap in zip(ages, gaps, strict=False) if age <= FULL_MS)
    assert all(gap >= SPARSE_MS for age, gap in zip(ages, gaps, strict=False) if age > FULL_MS + SPARSE_MS)
    assert len(memory.ticks) <= FULL_MS // TICK_MS + (WINDOW_MS - FULL_MS) // SPARSE_MS + 2


def test_topics_and_groups_that_come_and_go_leave_nothing() -> None:
    memory = Memory()
    for number in range(300):
        at_ms = number * TICK_MS
        stays = topic("t", partition("t", end=100 * number, at_ms=at_ms))
        passing = topic(f"passing-{number}", *(partition(f"passing-{number}", each, end=5) for each in range(20)))
        groups = [
            group("g", {KEY: 90 * number}, at_ms=at_ms),
            group(f"console-{number}", {KEY: number, (passing.name, 0): 1}, at_ms=at_ms),
        ]
        memory.add(snapshot(number=number, topics=[stays, passing], groups=groups))
        assert len(memory.ticks[-1].ends) < 3_500
    # Packing moves the numbers of series, and not what they say.
    assert produced(memory) == pytest.approx(100 / 15)
    assert consumed(memory) == pytest.approx(90 / 15)


def test_log_start_offsets_are_remembered_every_five_minutes() -> None:
    memory = filled(*(tick(number, 10**6, start=100 * number) for number in range(200)))
    ages = [memory.newest.at_ms - each.at_ms for each in memory.starts]
    assert WINDOW_MS - STARTS_MS <= ages[0] <= WINDOW_MS
    assert all(older - younger == STARTS_MS for older, younger in pairwise(ages))
    series = memory.partition_series(KEY)
    assert series is not None
    assert deleted_per_s(memory.starts, series, 19_900, memory.newest.at_ms) == pytest.approx(100 / 15)
    assert deleted_per_s(memory.starts[:0], series, 19_900, memory.newest.at_ms) is None


def test_a_series_that_is_younger_than_a_tick_is_not_known_there() -> None:
    """Its topic was made between two ticks, and is read at once."""
    late = topic("late", *(partition("late", number, end=50) for number in range(3)))
    memory = filled(tick(0, 0), tick(1, 150))
    memory.add(snapshot(number=2, topics=[late], groups=[group("g", {("late", 2): 20}, at_ms=2 * TICK_MS)]))
    series = memory.partition_series(("late", 2))
    assert series is not None
    assert memory.ends(series) == [-1, -1, 50]
    assert memory.commits(memory.commit_series("g")["late", 2]) == [-1, -1, 20]
    assert deleted_per_s(memory.starts, series, 0, memory.newest.at_ms) is None
    assert consumed_per_s(memory)[memory.commit_series("g")["late", 2]] is None


@pytest.mark.parametrize("end", [2**15, 2**31 - 1, 2**31, 2**62])
def test_offsets_of_any_size_are_remembered(end: int) -> None:
    """A tick takes as many bytes as its largest offset needs."""
    memory = filled(tick(0, end - 150, commit=5), tick(1, end, commit=end))
    series = memory.partition_series(KEY)
    assert series is not None
    assert memory.ends(series) == [end - 150, end]
    assert memory.commits(memory.commit_series("g")[KEY]) == [5, end]
    assert produced(memory) == 10


@pytest.mark.parametrize("late_ms", [0, 32_767, 32_768, 10**7])
def test_delays_of_any_length_are_remembered(late_ms: int) -> None:
    late = snapshot(number=1, topics=[topic("t", partition("t", end=1_000, at_ms=TICK_MS + late_ms))])
    assert produced(filled(tick(0, 0), late)) == pytest.approx(1_000 * 1000 / (TICK_MS + late_ms))


def test_a_snapshot_of_the_past_is_refused() -> None:
    memory = filled(tick(5, 100))
    with pytest.raises(ValueError, match="tick 4 is older than tick 5"):
        memory.add(tick(4, 100))
    with pytest.raises(ValueError, match="one snapshot at least"):
        _ = Memory().newest


def test_it_knows_when_a_group_had_no_member() -> None:
    def at(number: int, state: GroupState, error: str = "") -> Snapshot:
        return snapshot(number=number, groups=[Group("g", state, 0, commits={KEY: Commit(1, 0)}, error=error)])

    memory = filled(at(0, GroupState.EMPTY), at(1, GroupState.UNKNOWN, "coordinator 2 did not answer"))
    assert memory.was_memberless("g", 0, TICK_MS)
    assert not memory.was_memberless("g", TICK_MS, TICK_MS)
    assert not memory.was_memberless("other", 0, TICK_MS)
