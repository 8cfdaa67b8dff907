"""The cells of a run as a report shows them: labels, usable trials, medians, paired ratios."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from highwater.bench.results import (
    Analysis,
    Comparison,
    MetricEstimate,
    RunResult,
    Scalar,
    TrialPlan,
    TrialResult,
    TrialSummary,
)
from highwater.common.units import NONE
from highwater.reports.measures import PRODUCE_P99, Measure
from highwater.reports.quantity import axis_number

# Sections of the workload file that labels leave out: the factor's own name is enough.
_SECTIONS: Final = (
    "producers.client.",
    "consumers.client.",
    "topics.config.",
    "system.config.",
    "producers.",
    "consumers.",
    "topics.",
    "records.",
    "storage.",
    "load.",
    "system.",
)
# Last parts of names that labels leave out: compression.type and batch.size are plain without them.
_NEEDLESS_ENDS: Final = (".type", ".size")
_LONGEST_LABEL: Final = 36

KEPT_UP: Final = 0.995
"""A cell carried the offered load if achieved ÷ offered is at least this: the constant of the validity check."""


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
        """Whether every shown trial carried the offered load: its throughput then says nothing about the system.

        A closed loop has no offered load; its throughput is always that of the system.
        """
        return all(
            t.summary.offered_per_s is not None and t.summary.achieved_per_s >= KEPT_UP * t.summary.offered_per_s
            for t in self.shown
        )

    @property
    def emulated(self) -> bool:
        return any(trial.summary.storage.emulated for trial in self.trials)

    @property
    def offered_per_s(self) -> float | None:
        """The offered load; None when no trial finished, and in a closed loop."""
        offered = [t.summary.offered_per_s for t in self.trials if t.summary.offered_per_s is not None]
        return statistics.median(offered) if offered else None

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


def paired_ratios(cell: Cell, baseline: Cell, measure: Measure) -> list[float]:
    """`cell` ÷ `baseline` within each block that has usable trials of both, in the order of blocks.

    The trials of a block ran close together, so a drift of the host from block to block cancels out in the ratio.
    """
    of_cell, of_baseline = (_by_block(c.used, measure) for c in (cell, baseline))
    return [of_cell[b] / of_baseline[b] for b in sorted(of_cell.keys() & of_baseline.keys()) if of_baseline[b]]


def _by_block(trials: Iterable[TrialResult], measure: Measure) -> dict[int, float]:
    blocks: dict[int, list[float]] = {}
    for trial in trials:
        if (value := measure.value(trial.summary)) is not None:
            blocks.setdefault(trial.summary.block, []).append(value)
    return {block: statistics.median(found) for block, found in blocks.items()}


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
        by_cell = result.cells()
        planned: dict[str, list[TrialPlan]] = {key: [] for key in by_cell}
        factors_of: dict[str, Mapping[str, Scalar]] = {}
        for plan in result.manifest.trials:
            factors_of.setdefault(plan.cell, plan.factors)
            if plan.role == "measure":
                planned[plan.cell].append(plan)
        axes = list(result.manifest.axes) or list(dict.fromkeys(f for factors in factors_of.values() for f in factors))
        varying = [a for a in axes if len({repr(factors.get(a)) for factors in factors_of.values()}) > 1]
        names = short_names(varying)
        labels = {key: _label(factors_of[key], names, named=True) for key in by_cell}
        named = max(map(len, labels.values()), default=0) <= _LONGEST_LABEL
        cells = []
        for key, trials in by_cell.items():
            emulated = any(trial.summary.storage.emulated for trial in trials)
            label = _label(factors_of[key], names, named, emulated)
            short = _label(factors_of[key], names, named=False)
            cells.append(Cell(key, label, short, factors_of[key], trials, planned[key]))
        return cls(result, names, cells, "" if named else " · ".join(names.values()), result.analysis())

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
        return [axis for axis in self.factors if self._changes_load(axis)]

    def _changes_load(self, axis: str) -> bool:
        alike: dict[str, list[float]] = {}
        for cell in self.cells:
            if cell.offered_per_s is not None:
                alike.setdefault(repr(self._without(cell, [axis])), []).append(cell.offered_per_s)
        return any(max(offered) > min(offered) * 1.001 for offered in alike.values())

    def _without(self, cell: Cell, axes: Iterable[str]) -> list[Scalar | None]:
        left_out = set(axes)
        return [cell.factors.get(axis) for axis in self.factors if axis not in left_out]

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
        return _label(cell.factors, others, not self.naming, cell.emulated)

    @cached_property
    def levels(self) -> list[tuple[str, list[Cell]]]:
        """Cells grouped by offered load: only cells of one group may be compared. Without a load axis, one group."""
        grouped: dict[str, list[Cell]] = {}
        for cell in self.cells:
            name = ", ".join(f"{self.factors[axis]} {scalar_text(cell.factors.get(axis))}" for axis in self.load_axes)
            grouped.setdefault(name, []).append(cell)
        return list(grouped.items())


def _label(factors: Mapping[str, Scalar], names: Mapping[str, str], named: bool, emulated: bool = False) -> str:
    parts = [
        f"{name} {scalar_text(factors.get(f))}" if named else scalar_text(factors.get(f)) for f, name in names.items()
    ]
    return (" · ".join(parts) or "all trials") + (" (emulated)" if emulated else "")


def short_names(factors: Sequence[str]) -> dict[str, str]:
    """A short name for each factor, without its section of the workload file unless names would become equal."""
    short = {}
    for factor in factors:
        name = next((factor.removeprefix(s) for s in _SECTIONS if factor.startswith(s)), factor) or factor
        short[factor] = next((name.removesuffix(end) for end in _NEEDLESS_ENDS if name.endswith(end)), name) or factor
    taken = list(short.values())
    return {f: name if taken.count(name) == 1 else f for f, name in short.items()}


def scalar_text(value: Scalar | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return axis_number(value) if isinstance(value, int | float) else value


def delivery_total(trials: Iterable[TrialSummary], field: str) -> int:
    """The sum over trials: a median would hide a single trial that lost records."""
    return sum(getattr(trial.delivery, field) for trial in trials)
