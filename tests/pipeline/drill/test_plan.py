"""The plan of a drill: moments equally often, victims in turn, queries that begin, kills that come before."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.kinds import KINDS
from highwater.pipeline.drill.model import PlannedStop, Victim
from highwater.pipeline.drill.plan import ROUNDS_OF_A_QUERY, plan_rounds

ALL = tuple(Victim)
MOMENTS = (*CrashPoint, None)


@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_rounds_come_to_each_moment_ten_times(kind: str) -> None:
    moments = (*KINDS[kind].points, None)
    plans = plan_rounds(moments, ALL, 200, random.Random(1))
    times = Counter(plan.stop.moment for plan in plans)
    assert len(plans) == 200
    assert min(times[moment] for moment in moments) >= 10
    assert times[CrashPoint.SINK_COMMITTED] + times[CrashPoint.SINK_SKIPPED] >= 50


def test_each_victim_dies_at_each_point() -> None:
    plans = plan_rounds(MOMENTS, ALL, 400, random.Random(2))
    seen = {(plan.stop.moment, plan.stop.victim) for plan in plans}
    missing = {(moment, victim) for moment in MOMENTS for victim in ALL} - seen
    assert missing == {(None, Victim.SUCCESSOR), (CrashPoint.SOURCE_FIRST_OFFSETS, Victim.CHECKPOINT)}


def test_the_same_seed_makes_the_same_plan() -> None:
    first, again, other = (plan_rounds(MOMENTS, ALL, 50, random.Random(seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_longer_plan_begins_as_the_shorter_one() -> None:
    """A drill that was stopped goes on in its plan."""
    assert plan_rounds(MOMENTS, ALL, 50, random.Random(3)) == plan_rounds(MOMENTS, ALL, 90, random.Random(3))[:50]


def test_a_query_begins_where_its_first_offsets_are_the_moment_and_after_many_rounds() -> None:
    plans = plan_rounds(MOMENTS, ALL, 100, random.Random(5))
    assert plans[0].begins_query
    assert all(plan.begins_query for plan in plans if plan.stop.moment is CrashPoint.SOURCE_FIRST_OFFSETS)
    others = plan_rounds([None], [Victim.DRIVER], 50, random.Random(6))
    beginnings = [number for number, plan in enumerate(others) if plan.begins_query]
    assert beginnings == [0, ROUNDS_OF_A_QUERY, 2 * ROUNDS_OF_A_QUERY]


def test_a_batch_is_skipped_only_after_a_kill_that_followed_its_commit() -> None:
    for plan in plan_rounds(MOMENTS, ALL, 100, random.Random(7)):
        needs_one = plan.stop.moment is CrashPoint.SINK_SKIPPED
        assert plan.earlier == (PlannedStop(CrashPoint.SINK_COMMITTED, Victim.DRIVER) if needs_one else None)


def test_a_second_driver_alone_cannot_strike_at_random() -> None:
    plans = plan_rounds([None], [Victim.SUCCESSOR, Victim.JVM], 10, random.Random(8))
    assert {plan.stop.victim for plan in plans} == {Victim.JVM}
