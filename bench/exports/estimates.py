"""The values of valid trials and their median, by cell and metric; most formats start from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from highwater.common.errors import UsageError
from highwater.results.analysis.compare import ONLY_CELL
from highwater.results.analysis.statistics import bootstrap_median_ci
from highwater.results.metrics import METRICS, MetricDefinition
from highwater.results.reader import RunResult, TrialResult


@dataclass(frozen=True, slots=True)
class Estimate:
    """One metric of one cell over its usable trials, in the order of running."""

    cell: str
    metric: MetricDefinition
    values: list[float]
    ci95: tuple[float, float] | None

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def name(self) -> str:
        """Cell and metric as one name, for formats that have only one."""
        return self._in_cell(self.metric.name)

    @property
    def column(self) -> str:
        """`name` with the unit, for formats that have no other place for it."""
        return self._in_cell(self.metric.column)

    def _in_cell(self, metric: str) -> str:
        return metric if self.cell == ONLY_CELL else f"{self.cell}:{metric}"


def usable(trials: list[TrialResult]) -> list[TrialResult]:
    """All trials except the invalid ones."""
    return [trial for trial in trials if trial.summary.verdict.state != "invalid"]


def estimates(result: RunResult) -> Iterator[Estimate]:
    """Metrics in the order of the table, cell by cell; a metric that no trial has is left out.

    Raises UsageError when no trial may be used.
    """
    if not usable(result.trials):
        raise UsageError(f"{result.directory} has no usable trial to export")
    cells = result.cells()
    for cell, trials in cells.items():
        summaries = [trial.summary for trial in usable(trials)]
        label = ONLY_CELL if len(cells) == 1 else cell
        if any(summary.storage.emulated for summary in summaries):
            # In the name, because every format has a name.
            label += " (emulated disk)"
        for definition in METRICS.values():
            values = [float(value) for summary in summaries if (value := definition.read(summary)) is not None]
            if values:
                yield Estimate(label, definition, values, bootstrap_median_ci(values, seed=result.manifest.seed))
