"""The search as a run: each candidate is a cell of the question's workload.

The agenda turns outcomes into the history that `search` decides from. It keeps no state of its own beyond that, so a
run that was killed goes on from its result directory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Final

from highwater.bench.runs.agenda import TrialOutcome
from highwater.bench.trials.plan import PlannedTrial, planned_trial, trial_duration_s
from highwater.bench.workload.specification import Cell
from highwater.common.exit_codes import EXIT_INVALID, EXIT_OK
from highwater.results.analysis.conclusions import analyse
from highwater.results.bounds import Bound
from highwater.results.metrics import METRICS
from highwater.results.models import Scalar, TrialPlan, TrialRole, TrialSummary
from highwater.results.writer import ResultWriter
from highwater.studies.advise.budget import Budget
from highwater.studies.advise.question import Asked
from highwater.studies.advise.search import Block, TrialOfSearch, next_block
from highwater.studies.advise.space import DEFAULT, Candidate, spell

# A bound on a count that is broken, such as errors: "==0", has no ratio: it counts as this one.
_BROKEN: Final = 1.0


@dataclass(slots=True)
class AdviceAgenda:
    """Chooses the trials of a search, block by block."""

    asked: Asked
    budget: Budget
    seed: int
    writer: ResultWriter
    planned: list[PlannedTrial] = field(default_factory=list, init=False)
    _blocks: dict[int, Block | None] = field(default_factory=dict, init=False)

    @property
    def axes(self) -> dict[str, list[Scalar]]:
        found: dict[str, dict[Scalar, None]] = {key: {} for key in self.asked.space.keys}
        for trial in self.planned:
            for key, value in trial.plan.factors.items():
                found[key][value] = None
        return {key: list(values) for key, values in found.items()}

    def next(self, outcomes: Sequence[TrialOutcome]) -> Sequence[PlannedTrial] | None:
        """The next trial: of the block that is not complete, else the first one of the next block."""
        number = max((outcome.plan.block for outcome in outcomes), default=1)
        while True:
            before = [outcome for outcome in outcomes if outcome.plan.block < number]
            block = self._block(number, before)
            if block is None:
                return None
            trials = self._trials(block, len(before))
            ended = {outcome.plan.trial_id for outcome in outcomes}
            left = [trial for trial in trials if trial.plan.trial_id not in ended]
            if left:
                self.planned = [*(trial for trial in self.planned if trial.plan.block < number), *trials]
                return left[:1]
            number += 1

    def conclude(self, outcomes: Sequence[TrialOutcome], complete: bool) -> None:
        """Write the analysis at the end: with its many cells it takes too long to be written after each block."""
        if not complete:
            return
        factors = {outcome.plan.cell: outcome.plan.factors for outcome in outcomes}
        summaries = [outcome.summary for outcome in outcomes if outcome.summary is not None]
        if factors:
            self.writer.write_analysis(analyse(factors, summaries, seed=self.seed, complete=complete))

    def exit_code(self, outcomes: Sequence[TrialOutcome]) -> int:
        """A candidate that cannot be measured is expected in a search; that none can be is not."""
        return EXIT_OK if any(trial.costs is not None for trial in history_of(outcomes, self.asked)) else EXIT_INVALID

    def _block(self, number: int, before: Sequence[TrialOutcome]) -> Block | None:
        """The block with this number. before: the outcomes of all earlier blocks."""
        if number not in self._blocks:
            self._blocks[number] = next_block(
                self.asked.space,
                self.asked.references,
                history_of(before, self.asked),
                self._trials_left(before),
                self.seed,
                self.asked.allows,
            )
        return self._blocks[number]

    def _trials_left(self, outcomes: Sequence[TrialOutcome]) -> int:
        """How many trials there is time for: by number, and by what the trials so far took."""
        by_number = self.budget.search_trials - len(outcomes)
        took_s = [sum(outcome.plan.steps_s.values()) for outcome in outcomes if outcome.plan.steps_s]
        if not took_s:
            return by_number
        return min(by_number, max(0, int((self.budget.search_s - sum(took_s)) / max(mean(took_s), 1e-3))))

    def _trials(self, block: Block, trials_before: int) -> list[PlannedTrial]:
        roles: list[tuple[Candidate, TrialRole]] = []
        for candidate in block.candidates:
            roles.append((candidate, "measure"))
            if candidate == block.twin:
                roles.append((candidate, "a_a"))
        cells = {candidate: cell_of(self.asked, candidate) for candidate in block.candidates}
        return [
            planned_trial(trials_before + order, cells[candidate], block=block.number, order=order, role=role)
            for order, (candidate, role) in enumerate(roles, start=1)
        ]


def cell_of(asked: Asked, candidate: Candidate) -> Cell:
    """The cell that runs a candidate; its factors are the settings."""
    factors: dict[str, Scalar] = {
        key: DEFAULT if value is None else value for key, value in zip(asked.space.keys, candidate, strict=True)
    }
    name = ",".join(f"{asked.locations[key][-1]}={spell(value)}" for key, value in factors.items())
    return Cell(name, factors, asked.workload_of(candidate))


def candidate_of(plan: TrialPlan, asked: Asked) -> Candidate:
    """The candidate of a trial, from the factors that its result directory has."""
    return tuple(
        None if (value := plan.factors[key]) == DEFAULT and DEFAULT not in setting.values else value
        for key, setting in zip(asked.space.keys, asked.space.settings, strict=True)
    )


def history_of(outcomes: Sequence[TrialOutcome], asked: Asked) -> list[TrialOfSearch]:
    """What a search decides from. Failed and invalid trials have no cost."""
    return [
        TrialOfSearch(
            candidate_of(outcome.plan, asked),
            outcome.plan.block,
            None if outcome.summary is None else costs_of(outcome.summary, asked.metrics),
            () if outcome.summary is None else excesses_of(outcome.summary, asked.bounds),
            twin=outcome.plan.role == "a_a",
        )
        for outcome in outcomes
    ]


def costs_of(summary: TrialSummary, metrics: Sequence[str]) -> tuple[float, ...] | None:
    """The cost of each aim; None for a trial that is invalid or lacks a figure."""
    if summary.verdict.state == "invalid":
        return None
    costs = []
    for name in metrics:
        value = METRICS[name].read(summary)
        if value is None or value <= 0:
            return None
        costs.append(math.log(value) if METRICS[name].better == "lower" else -math.log(value))
    return tuple(costs)


def excesses_of(summary: TrialSummary, bounds: Mapping[str, Bound]) -> tuple[float, ...]:
    """The logarithm of how far each bound is exceeded; below 0 if the bound is met."""
    return tuple(_excess(METRICS[name].read(summary), bound) for name, bound in bounds.items())


def _excess(value: float | None, bound: Bound) -> float:
    if value is None:
        return _BROKEN
    if value <= 0 or bound.value <= 0 or bound.comparison == "==":
        return -_BROKEN if bound.met(value) else _BROKEN
    ratio = math.log(value / bound.value)
    return ratio if bound.comparison.startswith("<") else -ratio


def expected_trial_s(asked: Asked) -> int:
    return trial_duration_s(asked.workload_of(asked.in_use))
