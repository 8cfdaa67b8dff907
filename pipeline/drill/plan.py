"""Plans a drill: which victim dies at which crash point in each round. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Final, TypeVar

from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.model import Moment, PlannedStop, RoundPlan, Victim

Value = TypeVar("Value")

_REPLAYING: Final = (CrashPoint.SINK_COMMITTED, CrashPoint.SINK_SKIPPED)
"""Kills here make Spark repeat a batch that the sink has committed: they come twice as often."""
_ENDS_THE_QUERY: Final = (Victim.DRIVER, Victim.JVM, Victim.SUCCESSOR)
ROUNDS_OF_A_QUERY: Final = 20
"""The most rounds before a query with a new checkpoint takes over."""


def plan_rounds(
    moments: Sequence[Moment], victims: Sequence[Victim], rounds: int, rng: random.Random
) -> list[RoundPlan]:
    """Each moment equally often, its victims in turn, in random order; those of _REPLAYING twice as often.

    A query begins where the moment is that its first offsets are known. A batch can be skipped only after a kill that
    followed its commit.
    """
    weighted = [moment for moment in moments for _ in range(2 if moment in _REPLAYING else 1)]
    turns = {moment: cycle(_shuffled(_victims_at(moment, victims), rng)) for moment in moments}
    order: list[Moment] = []
    while len(order) < rounds:
        order += _shuffled(weighted, rng)
    plans: list[RoundPlan] = []
    since_beginning = 0
    for moment in islice(order, rounds):
        begins = not plans or moment is CrashPoint.SOURCE_FIRST_OFFSETS or since_beginning >= ROUNDS_OF_A_QUERY
        since_beginning = 1 if begins else since_beginning + 1
        earlier = PlannedStop(CrashPoint.SINK_COMMITTED, Victim.DRIVER) if moment is CrashPoint.SINK_SKIPPED else None
        plans.append(RoundPlan(PlannedStop(moment, next(turns[moment])), begins, earlier))
    return plans


def _victims_at(moment: Moment, victims: Sequence[Victim]) -> list[Victim]:
    """A second driver needs a first that waits; a query that has no checkpoint yet cannot lose it.

    Spark repeats a committed batch if its query ends: more of that.
    """
    never = {None: Victim.SUCCESSOR, CrashPoint.SOURCE_FIRST_OFFSETS: Victim.CHECKPOINT}.get(moment)
    fitting = [victim for victim in victims if victim is not never]
    if moment in _REPLAYING:
        fitting += [victim for victim in fitting if victim in _ENDS_THE_QUERY]
    return fitting or list(victims)


def _shuffled(values: Sequence[Value], rng: random.Random) -> list[Value]:
    return rng.sample(values, len(values))
