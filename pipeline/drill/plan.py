"""Aims each round of a drill at the crash point, and the victim there, that have counted least so far. Pure."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.model import Moment, PlannedStop, RoundPlan, RoundResult, Victim, moment_name
from highwater.pipeline.drill.verdict import REPLAYING_SHARE_MIN

_ENDS_THE_QUERY: Final = (Victim.DRIVER, Victim.JVM, Victim.SUCCESSOR)
"""Spark then repeats a batch that the sink has committed and Spark has not."""
ROUNDS_OF_A_QUERY: Final = 20
"""The most rounds before a query with a new checkpoint takes over."""
_FAILURES_FOR_ONE: Final = 3
"""So many rounds in vain count as one: a moment that does not come must not keep the others from coming."""

Query = tuple[Collection[Victim], Sequence[RoundResult]]
"""What can be killed for a query, and its rounds so far."""


class _Seen:
    """What the rounds of one query came to."""

    def __init__(self, victims: Collection[Victim], rounds: Sequence[RoundResult]) -> None:
        self.victims = victims
        self._counted = sum(each.reached for each in rounds)
        self._replaying = sum(each.reached and each.replays_skipped > 0 for each in rounds)
        self._came = Counter((each.moment, each.reached) for each in rounds)
        self._stops = Counter((each.moment, each.victim) for each in rounds)
        self._victims = Counter(each.victim for each in rounds)

    @property
    def lacks_replays(self) -> bool:
        """One round more without a replay, and too few would have one."""
        return self._replaying < REPLAYING_SHARE_MIN * (self._counted + 1)

    def times(self, moment: Moment) -> int:
        name = moment_name(moment)
        return self._came[name, True] + self._came[name, False] // _FAILURES_FOR_ONE

    def times_tried(self, stop: PlannedStop) -> tuple[int, int]:
        """This victim at this moment, and anywhere."""
        return self._stops[moment_name(stop.moment), stop.victim.value], self._victims[stop.victim.value]


class Planner:
    """Plans one round after the other, for queries that are struck together; their rounds are read as they grow."""

    def __init__(
        self, moments: Sequence[Moment], victims: Sequence[Victim], queries: Sequence[Query], rng: random.Random
    ) -> None:
        self._stops = [PlannedStop(moment, victim) for moment in moments for victim in _victims_at(moment, victims)]
        self._repeating = [stop for stop in self._stops if stop.moment is CrashPoint.SINK_SKIPPED] or [
            stop for stop in self._stops if stop.moment is CrashPoint.SINK_COMMITTED and stop.victim in _ENDS_THE_QUERY
        ]
        """Where a batch is repeated for sure."""
        self._queries = queries
        self._rng = rng
        self._since_beginning = ROUNDS_OF_A_QUERY
        self._aimed_at_replay = False

    def next_round(self) -> RoundPlan:
        """A query begins where the moment is that its first offsets are known, and after many rounds.

        A batch can be skipped only after a kill that followed its commit.
        """
        stop = self._next_stop()
        begins = stop.moment is CrashPoint.SOURCE_FIRST_OFFSETS or self._since_beginning >= ROUNDS_OF_A_QUERY
        self._since_beginning = 1 if begins else self._since_beginning + 1
        is_skip = stop.moment is CrashPoint.SINK_SKIPPED
        return RoundPlan(stop, begins, PlannedStop(CrashPoint.SINK_COMMITTED, Victim.DRIVER) if is_skip else None)

    def _next_stop(self) -> PlannedStop:
        seen = [_Seen(*query) for query in self._queries]
        # Not twice in turn: what is in vain here must not take the rounds of all other moments.
        self._aimed_at_replay = not self._aimed_at_replay and any(each.lacks_replays for each in seen)
        stops = (self._repeating if self._aimed_at_replay else ()) or self._stops
        # Each as the query has it to which it came least; one without the victim loses another instead, and says
        # nothing of it.
        return min(
            self._rng.sample(stops, len(stops)),
            key=lambda stop: (
                min(each.times(stop.moment) for each in seen),
                min(each.times_tried(stop) for each in seen if stop.victim in each.victims),
            ),
        )


def _victims_at(moment: Moment, victims: Sequence[Victim]) -> Sequence[Victim]:
    """A second driver needs a first that waits; a query that has no checkpoint yet cannot lose it."""
    never = {None: Victim.SUCCESSOR, CrashPoint.SOURCE_FIRST_OFFSETS: Victim.CHECKPOINT}.get(moment)
    return [victim for victim in victims if victim is not never] or victims
