"""Which trial comes next: the plan's blocks in order, without what is done or decided.

A run asks its agenda before every trial, with `trials.at_once` before every block; so a search can be one as well
(`highwater.bench.runs.searching`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from highwater.bench.trials.plan import Plan, PlannedTrial
from highwater.bench.workload.sections import StopWhen
from highwater.common.units import percent_text
from highwater.results.analysis.conclusions import halfwidth_ratio
from highwater.results.models import Scalar, TrialPlan, TrialSummary


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """A trial that has ended. `summary` is None when the trial failed or was skipped; the plan's `error` says why."""

    plan: TrialPlan
    summary: TrialSummary | None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A planned trial that does not need to run any more."""

    planned: PlannedTrial
    reason: str


# Summaries of all finished trials of whole blocks -> the cells that need no more trials, with the reason.
FinishedCells = Callable[[Sequence[TrialSummary]], Mapping[str, str]]


class Agenda(Protocol):
    """Decides which trial a run executes next."""

    @property
    def planned(self) -> Sequence[PlannedTrial]:
        """All trials known so far, in order."""
        ...

    @property
    def axes(self) -> dict[str, list[Scalar]]:
        """The factors of the trials known so far, with their values."""
        ...

    def next(self, outcomes: Sequence[TrialOutcome]) -> Sequence[PlannedTrial] | Skipped | None:
        """The next step after these outcomes: a trial, several at once, or None when the run is over.

        A trial that has an outcome is not returned again.
        """
        ...


class BlockAgenda:
    """The trials of a plan, block by block. `finished_cells` is called before every block except the first."""

    def __init__(self, plan: Plan, finished_cells: FinishedCells | None = None) -> None:
        self.planned: Sequence[PlannedTrial] = plan.trials
        self.axes = plan.specification.axes
        self._at_once = plan.specification.workload.trials.at_once
        self._finished_cells = finished_cells
        self._finished: Mapping[str, str] = {}
        self._asked_before_block = 1

    def next(self, outcomes: Sequence[TrialOutcome]) -> Sequence[PlannedTrial] | Skipped | None:
        ended = {outcome.plan.trial_id for outcome in outcomes}
        left = [trial for trial in self.planned if trial.plan.trial_id not in ended]
        if not left:
            return None
        planned = left[0]
        if self._finished_cells is not None and planned.plan.block > self._asked_before_block:
            self._asked_before_block = planned.plan.block
            self._finished = self._finished_cells(
                [
                    outcome.summary
                    for outcome in outcomes
                    if outcome.summary is not None and outcome.summary.block < planned.plan.block
                ]
            )
        if (reason := self._finished.get(planned.plan.cell)) is not None:
            return Skipped(planned, reason)
        if not self._at_once:
            return [planned]
        return [
            trial for trial in left if trial.plan.block == planned.plan.block and trial.plan.cell not in self._finished
        ]


def decided_by(stop_when: StopWhen, seed: int) -> FinishedCells:
    """Stops cells whose interval is narrow enough. Only the width stops a cell, never the direction of its figures."""

    def finished(summaries: Sequence[TrialSummary]) -> Mapping[str, str]:
        cells: dict[str, str] = {}
        for cell in dict.fromkeys(summary.cell for summary in summaries):
            measured = [s for s in summaries if s.cell == cell and s.role == "measure"]
            if len(measured) < stop_when.min:
                continue
            halfwidth = halfwidth_ratio(measured, stop_when.of, seed)
            if halfwidth is not None and halfwidth <= stop_when.ci_halfwidth_ratio:
                cells[cell] = (
                    f"decided: {stop_when.of} is known to ±{percent_text(halfwidth)} after {len(measured)} trials "
                    f"(trials.stop_when: ±{percent_text(stop_when.ci_halfwidth_ratio)})"
                )
        return cells

    return finished
