"""The cells of a run as a report shows them: labels, usable trials, medians."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from highwater.common.units import NONE
from highwater.reports.measures import PRODUCE_P99, Measure
from highwater.results.analysis.best import Figures
from highwater.results.analysis.cells import (
    cell_label,
    cell_labels,
    factors_of,
    kept_up,
    levels,
    load_axes,
    offered_per_s,
    short_names,
    varying_factors,
)
from highwater.results.analysis_file import Analysis, Comparison, MetricEstimate
from highwater.results.models import Scalar, TrialPlan, TrialSummary
from highwater.results.reader import RunResult, TrialResult


class Spread(NamedTuple):
    """Lowest, median and highest value of one measure over the trials of a cell.

    A median of percentiles is not a percentile of all trials merged.
    """

    median: float
    low: float
    high: float
    trials: int

    def apart(self, other: Spread) -> bool:
        """Whether the two ranges do not overlap."""
        return self.low > other.high or self.high < other.low

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        return cls(statistics.median(values), min(values), max(values), len(values)) if values else None


@dataclass(frozen=True)
class Cell:
    """One combination of factor values. `trials` are the finished ones."""

    key: str
    label: str
    short: str
    """The label without the names of factors, for narrow places near the full label."""
    factors: Mapping[str, Scalar]
    trials: Sequence[TrialResult]
    planned: Sequence[TrialPlan]

    @cached_property
    def valid(self) -> list[TrialResult]:
        return [trial for trial in self.trials if trial.summary.verdict.state == "valid"]

    @cached_property
    def used(self) -> list[TrialResult]:
        """The usable trials: all except the invalid ones, as in the run's own analysis.

        Inconclusive trials stay, because no check has failed for them, and to leave out only disturbed trials would be
        to select by outcome.
        """
        return [trial for trial in self.trials if trial.summary.verdict.state != "invalid"]

    @property
    def wanted(self) -> list[TrialPlan]:
        """The planned trials, without those that early stopping left out."""
        return [plan for plan in self.planned if plan.status != "skipped"]

    @cached_property
    def shown(self) -> list[TrialResult]:
        """The trials that represent the cell: the usable ones; if there are none, all finished ones."""
        return self.used or list(self.trials)

    @property
    def sound(self) -> bool:
        return bool(self.used)

    @property
    def caption(self) -> str:
        """The label, with a warning when the cell has only invalid trials."""
        return self.label if self.sound else f"{self.label} (invalid)"

    @property
    def kept_up(self) -> bool:
        """Whether every shown trial carried the offered load: its throughput then says nothing about the system."""
        return kept_up(t.summary for t in self.shown)

    @property
    def emulated(self) -> bool:
        return any(trial.summary.storage.emulated for trial in self.trials)

    @property
    def offered_per_s(self) -> float | None:
        """The offered load; None when no trial finished, and in a closed loop."""
        return offered_per_s(t.summary for t in self.trials)

    def spread(self, measure: Measure) -> Spread | None:
        return Spread.of(values(self.shown, measure))

    def median_text(self, measure: Measure) -> str:
        """The median of the shown trials, formatted with its unit."""
        spread = self.spread(measure)
        return measure.figure(spread.median) if spread else NONE

    def typical(self, measure: Measure = PRODUCE_P99) -> TrialResult | None:
        """The shown trial with the median of `measure`: a real trial, no average."""
        ranked = sorted((v, i) for i, t in enumerate(self.shown) if (v := measure.value(t.summary)) is not None)
        return self.shown[ranked[(len(ranked) - 1) // 2][1]] if ranked else None


def values(trials: Iterable[TrialResult], measure: Measure) -> list[float]:
    return [value for trial in trials if (value := measure.value(trial.summary)) is not None]


@dataclass(frozen=True)
class Run:
    """A run, arranged for the report."""

    result: RunResult
    factors: Mapping[str, str]
    """Factors that vary: full name -> short name."""
    cells: Sequence[Cell]
    naming: str
    """How to read labels that have values without the factors' names; otherwise empty."""
    analysis: Analysis | None = None

    @classmethod
    def of(cls, result: RunResult) -> Run:
        planned: dict[str, list[TrialPlan]] = {key: [] for key in result.cells()}
        for plan in result.manifest.trials:
            if plan.role == "measure":
                planned[plan.cell].append(plan)
        names = short_names(varying_factors(result.manifest))
        factors = factors_of(result.manifest)
        labels, named = cell_labels(factors, names)
        cells = []
        for key, trials in result.cells().items():
            emulated = " (emulated)" if any(trial.summary.storage.emulated for trial in trials) else ""
            short = cell_label(factors[key], names, named=False)
            cells.append(Cell(key, labels[key] + emulated, short, factors[key], trials, planned[key]))
        return cls(result, names, cells, "" if named else " · ".join(names.values()), result.analysis())

    @cached_property
    def figures(self) -> Figures:
        """The figures of the usable trials, as the answer compares them."""
        return Figures(self.result)

    @property
    def baseline(self) -> Cell:
        return self.cells[0]

    @cached_property
    def _estimates(self) -> dict[tuple[str, str], MetricEstimate]:
        cells = self.analysis.cells if self.analysis else []
        return {(cell.cell, estimate.metric): estimate for cell in cells for estimate in cell.metrics}

    def interval(self, cell: Cell, measure: Measure) -> tuple[float, float] | None:
        """The 95 % interval of the median of the usable trials, in the measure's unit; None when unknown."""
        estimate = self._estimates.get((cell.key, measure.key))
        if estimate is None or estimate.ci95 is None or not cell.sound:
            return None
        low, high = estimate.ci95
        return low / measure.scale, high / measure.scale

    def comparison(self, base: Cell, head: Cell, measure: Measure) -> Comparison | None:
        """The comparison of two cells in the run's analysis; None when it has none."""
        wanted = (base.key, head.key, measure.key)
        found = self.analysis.comparisons if self.analysis else []
        return next((c for c in found if (c.base, c.head, c.metric) == wanted), None)

    def unstable(self, cell: Cell, measure: Measure) -> bool:
        """Whether the trials differ so much that their median should not be quoted alone."""
        estimate = self._estimates.get((cell.key, measure.key))
        return estimate is not None and estimate.unstable

    def label(self, key: str) -> str:
        return next((cell.label for cell in self.cells if cell.key == key), key)

    @cached_property
    def load_axes(self) -> list[str]:
        """The factors that change how much load is offered when nothing else changes."""
        return load_axes(list(self.factors), self._factors, {cell.key: cell.offered_per_s for cell in self.cells})

    @cached_property
    def _factors(self) -> dict[str, Mapping[str, Scalar]]:
        return {cell.key: cell.factors for cell in self.cells}

    @cached_property
    def curves(self) -> dict[str, list[Cell]]:
        """Cells that differ only in the offered load, keyed by their common label, each list in order of load."""
        grouped: dict[str, list[Cell]] = {}
        for cell in self.cells:
            if cell.trials:
                grouped.setdefault(self.common_label(cell), []).append(cell)
        return {name: sorted(cells, key=lambda c: c.offered_per_s or 0.0) for name, cells in grouped.items()}

    def common_label(self, cell: Cell) -> str:
        """The label of the cell without its offered load."""
        others = {axis: name for axis, name in self.factors.items() if axis not in self.load_axes}
        return cell_label(cell.factors, others, named=not self.naming) + (" (emulated)" if cell.emulated else "")

    @cached_property
    def levels(self) -> list[tuple[str, list[Cell]]]:
        """Cells grouped by offered load: only cells of one group may be compared. Without a load axis, one group."""
        by_key = {cell.key: cell for cell in self.cells}
        found = levels(self.factors, self.load_axes, self._factors)
        return [(level, [by_key[key] for key in keys]) for level, keys in found.items()]


def delivery_total(trials: Iterable[TrialSummary], field: str) -> int:
    """The sum over trials: a median would hide a single trial that lost records."""
    return sum(getattr(trial.delivery, field) for trial in trials)
