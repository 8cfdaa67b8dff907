"""A search as a run: each probe is a trial on a fresh system with fresh topics.

A probe passes when the trial kept its rate without errors, met every objective, and its consumers did not fall behind.
search.json is written after every trial, so a killed search can be resumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import ValidationError

from highwater.bench.runs.agenda import TrialOutcome
from highwater.bench.runs.search import NextProbe, SearchRange, bracket_of, next_probe, probes_expected, target_at_fault
from highwater.bench.trials.plan import Plan, PlannedTrial, chosen_seed, planned_trial
from highwater.bench.trials.progress import slo_text
from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import BASE_CELL, Cell, Specification
from highwater.common.errors import UsageError
from highwater.common.exit_codes import EXIT_DAMAGE, EXIT_INVALID, EXIT_OK
from highwater.common.quantities import RATE, format_rate
from highwater.common.units import count_text, duration_ns_text
from highwater.results.analysis.conclusions import analyse
from highwater.results.analysis_file import Search, SearchProbe
from highwater.results.bounds import parse_bound
from highwater.results.metrics import percentile_text
from highwater.results.models import Reason, Scalar, SloResult, TrialSummary, Window
from highwater.results.reader import RunResult, TrialResult
from highwater.results.writer import ResultWriter

RATE_FACTOR: Final = "load.rate"
# A slope is significant when it is this many standard errors away from 0.
_STANDARD_ERRORS: Final = 2.0
_GENERATOR: Final = "generator."
# Latencies that begin when a record is due, and so contain the lateness of the generator.
_RESPONSES: Final = ("produce", "e2e")


def searchable(specification: Specification, cell_name: str | None = None) -> Specification:
    """The cell to search. Raises UsageError when several cells match, or the cell's rate cannot be changed."""
    cells = {cell.name: cell for cell in specification.cells}
    if cell_name is not None and cell_name not in cells:
        raise UsageError(f"--cell: {cell_name!r} is not one of {', '.join(cells)}")
    if cell_name is None and len(cells) > 1:
        raise UsageError(f"{specification.file}: a search is of one cell; name it with --cell: {', '.join(cells)}")
    cell = next(iter(cells.values())) if cell_name is None else cells[cell_name]
    workload = cell.workload.model_copy(update={"matrix": {}, "variants": {}, "exclude": []})
    load = workload.load
    if load.model == "closed" or load.schedule is not None or load.trace is not None:
        raise UsageError(f"{specification.file}: a search chooses the rate; give load a rate: to begin with")
    return replace(specification, workload=workload, axes={}, cells=[Cell(BASE_CELL, {}, workload)])


def search_plan(specification: Specification, wanted: SearchRange, seed: int | None) -> Plan:
    """A plan with the expected number of trials of a search; for estimates only."""
    highest = wanted.max_per_s or wanted.min_per_s
    cell = cell_at(specification.workload, highest)
    trials = [planned_trial(number, cell, block=number, order=1) for number in range(1, probes_expected(wanted) + 1)]
    return Plan(specification, chosen_seed(specification, seed), trials)


def cell_at(workload: Workload, rate_per_s: int) -> Cell:
    """The workload at another rate. Raises UsageError when the rate is not possible."""
    document = workload.as_document()
    rate = format_rate(rate_per_s)
    document["load"]["rate"] = rate
    try:
        return Cell(f"{RATE_FACTOR}={rate}", {RATE_FACTOR: rate}, Workload.model_validate(document))
    except ValidationError as error:
        raise UsageError(f"the workload cannot run at {rate}: {error.errors()[0]['msg']}") from None


@dataclass(slots=True)
class SearchAgenda:
    """Chooses the next trial from the outcomes so far; `conclude` and `exit_code` compute the answer."""

    specification: Specification
    wanted: SearchRange
    seed: int
    writer: ResultWriter
    planned: list[PlannedTrial] = field(default_factory=list, init=False)
    _probes: dict[str, SearchProbe] = field(default_factory=dict, init=False)
    _tried_per_s: set[int] = field(default_factory=set, init=False)
    """Also before the search was taken up again."""

    @property
    def axes(self) -> dict[str, list[Scalar]]:
        rates = {trial.cell.workload.load.steps[0].rate_per_s for trial in self.planned}
        return {RATE_FACTOR: [format_rate(rate) for rate in sorted(rates | self._tried_per_s)]}

    def next(self, outcomes: Sequence[TrialOutcome]) -> Sequence[PlannedTrial] | None:
        self._tried_per_s = {_rate_of(outcome) for outcome in outcomes}
        probe = next_probe(self.wanted, self._history(outcomes))
        if probe is None:
            return None
        number = len(outcomes) + 1
        planned = planned_trial(number, cell_at(self.specification.workload, probe.rate_per_s), block=number, order=1)
        self.planned = [*(trial for trial in self.planned if trial.plan.block < number), planned]
        return [planned]

    def conclude(self, outcomes: Sequence[TrialOutcome], complete: bool) -> None:
        self.writer.write_search(self.answer(outcomes, complete))
        factors = {o.plan.cell: o.plan.factors for o in sorted(outcomes, key=_rate_of)}
        summaries = [outcome.summary for outcome in outcomes if outcome.summary is not None]
        if factors:
            self.writer.write_analysis(analyse(factors, summaries, seed=self.seed, complete=complete))

    def answer(self, outcomes: Sequence[TrialOutcome], complete: bool) -> Search:
        history = self._history(outcomes)
        bracket = bracket_of(history)
        over = next_probe(self.wanted, history) is None
        failure = bracket.failure
        return Search(
            status="answered" if over else "interrupted" if complete else "running",
            slo={name: str(bound) for name, bound in self.specification.workload.slo.items()},
            min_per_s=self.wanted.min_per_s,
            max_per_s=self.wanted.max_per_s,
            precision_ratio=self.wanted.precision_ratio,
            last_passing_per_s=bracket.last_passing_per_s,
            first_failing_per_s=bracket.first_failing_per_s,
            limit=failure.limit if failure else None,
            text=failure.text if failure else None,
            generator_limited=bool(failure and failure.limit and failure.limit.startswith(_GENERATOR)),
            confirmed=bracket.confirmed,
            confirmations=self.wanted.confirmations,
            probes=history,
        )

    def exit_code(self, outcomes: Sequence[TrialOutcome]) -> int:
        """Overload is expected in a search, but a system that loses records or dies has failed."""
        search = self.answer(outcomes, complete=True)
        if any(target_at_fault(probe) for probe in search.probes):
            return EXIT_DAMAGE
        return EXIT_OK if search.last_passing_per_s is not None else EXIT_INVALID

    def _history(self, outcomes: Sequence[TrialOutcome]) -> list[SearchProbe]:
        history: list[SearchProbe] = []
        for outcome in outcomes:
            trial_id = outcome.plan.trial_id
            if trial_id not in self._probes:
                asked = next_probe(self.wanted, history)
                assert asked is not None, "no trial is run that was not asked for"
                self._probes[trial_id] = self._probe(outcome, asked)
            history.append(self._probes[trial_id])
        return history

    def _probe(self, outcome: TrialOutcome, asked: NextProbe) -> SearchProbe:
        windows: list[Window] = []
        if outcome.summary is not None:
            directory = self.writer.directory / "trials" / outcome.plan.trial_id
            windows = TrialResult(directory, outcome.summary).windows()
        limit, text = failed_limit(outcome, windows, self.specification.workload.validity.achieved_ratio_min)
        return SearchProbe(
            trial_id=outcome.plan.trial_id,
            stage=asked.stage,
            rate_per_s=asked.rate_per_s,
            passed=limit is None,
            limit=limit,
            text=text,
            verdict=outcome.summary.verdict if outcome.summary is not None else None,
        )


def check_same_range(directory: Path, wanted: SearchRange) -> None:
    """Raises UsageError when the search in `directory` was begun with another range or precision."""
    begun = RunResult(directory).search()
    if begun is None:
        raise UsageError(f"--resume: {directory} holds no search")
    found = SearchRange(begun.min_per_s, begun.max_per_s, begun.precision_ratio, begun.confirmations)
    if found != wanted:
        raise UsageError(f"--resume: {directory} was begun with other options ({found}); give it the same")


def failed_limit(
    outcome: TrialOutcome, windows: Sequence[Window], achieved_ratio_min: float
) -> tuple[str | None, str | None]:
    """The first limit that a trial broke, and a sentence about it; None when it passed.

    In this order: lost records, an overloaded generator, the rate, the objectives. A busy or oversubscribed host is not
    a limit: near the highest rate of one machine it always is busy. An objective that the lateness of the generator
    alone breaks is a limit of the generator.
    """
    summary = outcome.summary
    if summary is None:
        check = f"{_GENERATOR}failed" if outcome.plan.generator_failed else "trial.failed"
        return check, outcome.plan.error or outcome.plan.status
    reasons = {reason.check: reason for reason in summary.verdict.reasons}

    def found(*checks: str) -> Reason | None:
        return next((reason for check, reason in reasons.items() if check.startswith(checks)), None)

    if (reason := found("delivery.", "loss.")) is not None:
        return reason.check, reason.text
    if (reason := found("generator.cpu", "generator.ceiling", "generator.consumer_ceiling", "load.")) is not None:
        return reason.check, reason.text
    for result in summary.slo:
        if not result.met:
            return _lateness(summary, result) or (result.metric, slo_text(result))
    behind = lag_growth(windows)
    measured = [window for window in windows if window.phase == "measure"]
    allowed = (1 - achieved_ratio_min) * sum(window.acked for window in measured)
    if behind is not None and behind > allowed:
        return "lag.slope", (
            f"consumers fell {count_text(behind)} records behind in {len(measured)} s "
            f"(at most {count_text(allowed)} may be)"
        )
    if (reason := found("drain.", "steady.", "generator.send_delay", "host.profile")) is not None:
        return reason.check, reason.text
    return None, None


def _lateness(summary: TrialSummary, missed: SloResult) -> tuple[str, str] | None:
    """The generator as the limit, if its records left later than the objective allows them to arrive.

    None while the client's queue was full: then the records waited for the system.
    """
    prefix, _, percentile = missed.metric.rpartition(".")
    written = percentile_text(percentile)
    if prefix not in _RESPONSES or written is None or any(task.backpressure for task in summary.generator.tasks):
        return None
    bound, delay_ns = parse_bound(missed.bound), getattr(summary.produce.send_delay_ns, percentile)
    if not bound.comparison.startswith("<") or delay_ns <= bound.value:
        return None
    return f"{_GENERATOR}send_delay_{percentile}_ns", (
        f"the load generator was late by {duration_ns_text(delay_ns)} at {written}, more than the "
        f"objective of {duration_ns_text(bound.value)}: it is the limit, not the system"
    )


def lag_growth(windows: Sequence[Window]) -> float | None:
    """The growth of the lag over the measured phase in records, from a line fitted through the lag.

    0 when the slope is not significant; None without consumers or with fewer than three seconds.
    """
    lags = [float(window.lag) for window in windows if window.phase == "measure" and window.lag is not None]
    if len(lags) < 3:
        return None
    seconds = np.arange(len(lags), dtype=np.float64)
    centred = seconds - seconds.mean()
    squares = float(centred @ centred)
    slope = float(centred @ np.asarray(lags)) / squares
    residuals = np.asarray(lags) - np.mean(lags) - slope * centred
    error = (float(residuals @ residuals) / (len(lags) - 2) / squares) ** 0.5
    return slope * len(lags) if slope > _STANDARD_ERRORS * error else 0.0


def _rate_of(outcome: TrialOutcome) -> int:
    return RATE.integer(outcome.plan.factors[RATE_FACTOR])
