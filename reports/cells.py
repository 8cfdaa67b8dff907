"""The cells of a run as the report sees them: labels, which trials may be quoted, medians and paired ratios."""

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
from highwater.reports.measures import PRODUCE_P99, Measure
from highwater.reports.quantity import NONE, axis_number

# Where a factor lives in the workload file says little once the factor itself is named.
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
# What such a name says without its last part is still plain: compression.type, batch.size.
_NEEDLESS_ENDS: Final = (".type", ".size")
_LONGEST_LABEL: Final = 36

KEPT_UP: Final = 0.995
"""Achieved over offered from which a cell is said to have carried the load: the constant of the validity check."""


class Spread(NamedTuple):
    """Of one measure over the trials of a cell. A median of percentiles is not a percentile of all trials merged."""

    median: float
    low: float
    high: float
    trials: int

    def apart(self, other: Spread) -> bool:
        """Whether no trial of the one lies within the range of the other."""
        return self.low > other.high or self.high < other.low

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        return cls(statistics.median(values), min(values), max(values), len(values)) if values else None


@dataclass(frozen=True)
class Cell:
    """One combination of factors. `trials` are the finished ones."""

    key: str
    label: str
    short: str
    """The label without the names of factors, for where there is little room and the full label stands near."""
    factors: Mapping[str, Scalar]
    trials: Sequence[TrialResult]
    planned: Sequence[TrialPlan]

    @cached_property
    def valid(self) -> list[TrialResult]:
        return [trial for trial in self.trials if trial.summary.verdict.state == "valid"]

    @cached_property
    def used(self) -> list[TrialResult]:
        """The usable trials: all but the invalid ones, as in the run's own analysis.

        Nothing is known to be wrong with an inconclusive trial, and leaving out just those that something disturbed
        would be choosing by the outcome.
        """
        return [trial for trial in self.trials if trial.summary.verdict.state != "invalid"]

    @property
    def wanted(self) -> list[TrialPlan]:
        """The trials that were to be run, without those that early stopping left out."""
        return [plan for plan in self.planned if plan.status != "skipped"]

    @cached_property
    def shown(self) -> list[TrialResult]:
        """The trials whose figures stand for the cell: the usable ones, or for want of any all that finished."""
        return self.used or list(self.trials)

    @property
    def sound(self) -> bool:
        return bool(self.used)

    @property
    def caption(self) -> str:
        """The label, with a warning where only invalid trials stand for the cell."""
        return self.label if self.sound else f"{self.label} (invalid)"

    @property
    def kept_up(self) -> bool:
        """Whether every shown trial carried what was offered, so that its throughput is the load's and not its own.

        A closed loop offers nothing of its own: what it carried is what the system took.
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
        """None where nothing finished, and in a closed loop."""
        offered = [t.summary.offered_per_s for t in self.trials if t.summary.offered_per_s is not None]
        return statistics.median(offered) if offered else None

    def spread(self, measure: Measure) -> Spread | None:
        return Spread.of(values(self.shown, measure))

    def median_text(self, measure: Measure) -> str:
        """The median of the shown trials as people read it."""
        spread = self.spread(measure)
        return measure.figure(spread.median) if spread else NONE

    def typical(self, measure: Measure = PRODUCE_P99) -> TrialResult | None:
        """The trial that lies in the middle of the shown ones by `measure`: a real trial, nothing averaged."""
        ranked = sorted((v, i) for i, t in enumerate(self.shown) if (v := measure.value(t.summary)) is not None)
        return self.shown[ranked[(len(ranked) - 1) // 2][1]] if ranked else None


def values(trials: Iterable[TrialResult], measure: Measure) -> list[float]:
    return [value for trial in trials if (value := measure.value(trial.summary)) is not None]


def paired_ratios(cell: Cell, baseline: Cell, measure: Measure) -> list[float]:
    """`cell` divided by `baseline` within each block that holds usable trials of both, in the order of blocks.

    Trials of one block ran close together, so what drifts on the host from block to block drops out of the ratio.
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
    """A result directory, arranged for the report."""

    result: RunResult
    factors: Mapping[str, str]
    """Factors that vary, by their full name, with the short name that people read."""
    cells: Sequence[Cell]
    naming: str
    """How labels are made up, where they hold values without the factors' names; otherwise empty."""
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
        """The 95 % interval of the median of the usable trials, in the measure's unit; None where none is known."""
        estimate = self._estimates.get((cell.key, measure.key))
        if estimate is None or estimate.ci95 is None or not cell.sound:
            return None
        low, high = estimate.ci95
        return low / measure.scale, high / measure.scale

    def comparison(self, base: Cell, head: Cell, measure: Measure) -> Comparison | None:
        """What the run's analysis found between two cells; None where it did not compare them."""
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
        """Cells that differ in the offered load alone, by what they have in common, each in order of that load."""
        grouped: dict[str, list[Cell]] = {}
        for cell in self.cells:
            if cell.trials:
                grouped.setdefault(self.common_label(cell), []).append(cell)
        return {name: sorted(cells, key=lambda c: c.offered_per_s or 0.0) for name, cells in grouped.items()}

    def common_label(self, cell: Cell) -> str:
        """What the cell is apart from its offered load."""
        others = {axis: name for axis, name in self.factors.items() if axis not in self.load_axes}
        return _label(cell.factors, others, not self.naming, cell.emulated)

    @cached_property
    def levels(self) -> list[tuple[str, list[Cell]]]:
        """Cells under the same offered load: only these may be compared. Without a load axis there is one level."""
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
    """Each factor as people call it, without its section of the workload file, unless two would become the same."""
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
    """Summed over trials: a median would hide the one trial that lost records."""
    return sum(getattr(trial.delivery, field) for trial in trials)
