"""Marks of charts: close events share one, and each has words."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from highwater.monitor.events import Event, EventKind
from highwater.monitor.web.event_marks import grouped, trial_bands

SPAN = (1_800_000_000_000, 1_800_000_360_000)


def event(
    at_ms: int, kind: EventKind = EventKind.LEADER_CHANGE, text: str = "orders-0: the leader is broker 1"
) -> Event:
    return Event(SPAN[0] + at_ms, kind, "partition", "orders-0", text)


@given(st.lists(st.integers(0, 360_000), max_size=60), st.integers(1, 30))
def test_no_event_is_lost_and_marks_do_not_overlap(times: list[int], most: int) -> None:
    groups = grouped([event(at_ms) for at_ms in times], SPAN, most)
    assert sorted(each.at_ms - SPAN[0] for group in groups for each in group.events) == sorted(times)
    assert len(groups) <= most + 1
    assert [group.number for group in groups] == list(range(1, len(groups) + 1))
    begins = [group.events[0].at_ms for group in groups]
    assert all(later - earlier >= (SPAN[1] - SPAN[0]) / most for earlier, later in pairwise(begins))


def test_a_single_event_is_its_sentence_and_several_are_counted() -> None:
    shrink = [event(9_000 + number, EventKind.ISR_SHRINK) for number in range(2)]
    alone, several = grouped([event(120_000), event(8_000), *shrink], SPAN, 10)[::-1]
    assert alone.summary == "orders-0: the leader is broker 1"
    assert several.summary == "isr shrink ×2, leader change"
    assert several.when == "2027-01-15 08:00:08 – 08:00:09 UTC"
    assert several.mark.words == f"{several.when}: {several.summary}"


def test_the_worst_event_gives_the_tone_of_its_mark() -> None:
    calm = event(0, EventKind.CONFIG_CHANGE)
    assert [group.tone for group in grouped([calm], SPAN, 1)] == [""]
    assert [group.tone for group in grouped([calm, event(1)], SPAN, 1)] == ["warn"]
    assert [group.tone for group in grouped([calm, event(1), event(2, EventKind.BROKER_GONE)], SPAN, 1)] == ["bad"]


def test_trials_of_the_bench_are_bands_also_where_one_end_is_outside() -> None:
    def trial(at_ms: int, kind: EventKind, before: str = "", after: str = "") -> Event:
        return Event(SPAN[0] + at_ms, kind, "cluster", "c", "", before, after)

    bands = trial_bands(
        [
            trial(1_000, EventKind.BENCH_TRIAL_ENDED, before="first"),
            trial(2_000, EventKind.BENCH_TRIAL_BEGAN, after="second"),
            trial(5_000, EventKind.BENCH_TRIAL_ENDED, before="second"),
            trial(6_000, EventKind.BENCH_TRIAL_BEGAN, after="third"),
        ],
        SPAN,
    )
    begin = SPAN[0] / 1000
    assert [(band.start - begin, band.end - begin) for band in bands] == [(0, 1), (2, 5), (6, 360)]


def test_a_name_that_turns_text_cannot_do_so_in_a_title() -> None:
    (group,) = grouped([event(0, text="group \u202egnirts" + "x" * 500)], SPAN, 1)
    assert "\u202e" not in group.mark.words
    assert len(group.mark.words) == 200
