"""The plan of a drill: it aims at what has counted least, so that enough rounds are a proof."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import pytest

from highwater.common.exit_codes import EXIT_OK
from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.kinds import KINDS
from highwater.pipeline.drill.model import Moment, PlannedStop, RoundPlan, RoundResult, Victim, moment_name
from highwater.pipeline.drill.plan import ROUNDS_OF_A_QUERY, Planner
from highwater.pipeline.drill.verdict import judge

ALL = tuple(Victim)
MOMENTS = (*CrashPoint, None)


def always(_plan: RoundPlan) -> bool:
    return True


def carried_out(
    moments: Sequence[Moment],
    victims: Sequence[Victim],
    rounds: int,
    seed: int,
    comes: Callable[[RoundPlan], bool] = always,
) -> tuple[list[RoundPlan], list[RoundResult]]:
    """Rounds of one query in which only those have a replay that cannot be without one."""
    results: list[RoundResult] = []
    planner = Planner(moments, victims, [(victims, results)], random.Random(seed))
    plans = []
    for number in range(rounds):
        plans.append(plan := planner.next_round())
        results.append(result_of(number, plan, plan.stop.victim, comes(plan)))
    return plans, results


def result_of(number: int, plan: RoundPlan, victim: Victim, reached: bool) -> RoundResult:
    ends = victim in (Victim.DRIVER, Victim.JVM, Victim.SUCCESSOR)
    is_committed = plan.stop.moment is CrashPoint.SINK_COMMITTED
    replays = int(plan.stop.moment is CrashPoint.SINK_SKIPPED or (is_committed and ends))
    moment = moment_name(plan.stop.moment)
    return RoundResult(number, moment, victim.value, reached, replays, 1, 160, 0, 0, 0, 1.0)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("victims", [ALL, [Victim.EXECUTOR]], ids=["all victims", "executors"])
@pytest.mark.parametrize(("rounds", "times_min"), [(13, 1), (20, 1), (40, 2), (200, 10)])
def test_rounds_that_are_enough_are_a_proof(victims: Sequence[Victim], rounds: int, times_min: int, seed: int) -> None:
    """Thirteen come to eleven moments, and three of them repeat a batch."""
    _, results = carried_out(MOMENTS, victims, rounds, seed)
    verdict = judge(results, MOMENTS, times_min=times_min, skips=True)
    assert (verdict.exit_status, verdict.missing) == (EXIT_OK, ())


@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_rounds_come_to_each_moment_ten_times(kind: str) -> None:
    moments = (*KINDS[kind].points, None)
    times = Counter(result.moment for result in carried_out(moments, ALL, 200, 1)[1])
    assert min(times[moment_name(moment)] for moment in moments) >= 10


def test_a_moment_that_was_missed_comes_again() -> None:
    missed = iter([False])

    def comes(plan: RoundPlan) -> bool:
        return plan.stop.moment is not CrashPoint.SINK_BEFORE_COMMIT or next(missed, True)

    _, results = carried_out(MOMENTS, ALL, 14, 1, comes)
    assert {each.moment for each in results if each.reached} == {moment_name(moment) for moment in MOMENTS}


@pytest.mark.parametrize("never", MOMENTS, ids=moment_name)
def test_a_moment_that_never_comes_takes_a_part_of_the_rounds(never: Moment) -> None:
    """A drill tries half as many rounds again as it was asked for."""
    _, results = carried_out(MOMENTS, ALL, 300, 1, lambda plan: plan.stop.moment is not never)
    times = Counter(each.moment for each in results if each.reached)
    assert sum(times.values()) >= 150
    assert min(times[moment_name(moment)] for moment in MOMENTS if moment is not never) >= 10


def test_each_victim_dies_at_each_point() -> None:
    plans, _ = carried_out(MOMENTS, ALL, 130, 2)
    seen = {(plan.stop.moment, plan.stop.victim) for plan in plans}
    missing = {(moment, victim) for moment in MOMENTS for victim in ALL} - seen
    assert missing == {(None, Victim.SUCCESSOR), (CrashPoint.SOURCE_FIRST_OFFSETS, Victim.CHECKPOINT)}


def test_few_rounds_have_all_victims() -> None:
    plans, _ = carried_out(MOMENTS, ALL, 13, 2)
    assert {plan.stop.victim for plan in plans} == set(ALL)


def test_a_query_without_a_victim_says_nothing_about_it() -> None:
    """Where one loses the database, the other loses the broker instead: the first must lose its broker as well."""
    queries: list[tuple[Collection[Victim], list[RoundResult]]] = [
        ((Victim.BROKER, Victim.DATABASE), []),
        ((Victim.BROKER,), []),
    ]
    planner = Planner([None], [Victim.BROKER, Victim.DATABASE], queries, random.Random(3))
    for number in range(6):
        plan = planner.next_round()
        for victims, results in queries:
            victim = plan.stop.victim if plan.stop.victim in victims else Victim.BROKER
            results.append(result_of(number, plan, victim, reached=True))
    assert Counter(each.victim for each in queries[0][1]) == {"broker": 3, "database": 3}


def test_the_same_seed_makes_the_same_plan() -> None:
    first, again, other = (carried_out(MOMENTS, ALL, 50, seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_drill_that_goes_on_aims_at_what_is_missing() -> None:
    _, results = carried_out(MOMENTS, ALL, 10, 5)
    missing = {moment_name(moment) for moment in MOMENTS} - {each.moment for each in results}
    planner = Planner(MOMENTS, ALL, [(ALL, results)], random.Random(6))
    for number in range(10, 14):
        plan = planner.next_round()
        results.append(result_of(number, plan, plan.stop.victim, reached=True))
    assert missing
    assert missing <= {each.moment for each in results[10:]}


def test_a_query_begins_where_its_first_offsets_are_the_moment_and_after_many_rounds() -> None:
    plans, _ = carried_out(MOMENTS, ALL, 100, 5)
    assert plans[0].begins_query
    assert all(plan.begins_query for plan in plans if plan.stop.moment is CrashPoint.SOURCE_FIRST_OFFSETS)
    others, _ = carried_out([None], [Victim.DRIVER], 50, 6)
    beginnings = [number for number, plan in enumerate(others) if plan.begins_query]
    assert beginnings == [0, ROUNDS_OF_A_QUERY, 2 * ROUNDS_OF_A_QUERY]


def test_a_batch_is_skipped_only_after_a_kill_that_followed_its_commit() -> None:
    for plan in carried_out(MOMENTS, ALL, 100, 7)[0]:
        needs_one = plan.stop.moment is CrashPoint.SINK_SKIPPED
        assert plan.earlier == (PlannedStop(CrashPoint.SINK_COMMITTED, Victim.DRIVER) if needs_one else None)


def test_a_second_driver_alone_cannot_strike_at_random() -> None:
    plans, _ = carried_out([None], [Victim.SUCCESSOR, Victim.JVM], 10, 8)
    assert {plan.stop.victim for plan in plans} == {Victim.JVM}
