"""Looks for the change points of a series, or says why it did not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from highwater.bench.gate.policy import Policy, default_policy, load_policy, metrics_of
from highwater.common.units import change_text, plural
from highwater.results.analysis.comparison_answer import SIX_HEADLINES
from highwater.results.metrics import METRICS, value_text
from highwater.studies.history.otava import LEAST_POINTS, change_points, may_change
from highwater.studies.history.series import Change, Series, cell_of, metric_of

_FLOOR_RATIO: Final = 0.05
"""The smallest change that matters of a metric for which the policy has no floor."""

OtavaCommand = Callable[[], Sequence[str] | None]
"""The command line of Apache Otava; None when it is not installed."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Which metrics are looked at, and how large a change has to be."""

    policy: Policy
    floor_ratio: float | None = None
    """For all metrics, in place of the policy's floors."""
    metrics: Sequence[str] = ()
    """Empty: the metrics of the policy."""

    @classmethod
    def of_file(cls, policy: Path | None) -> Rules:
        """The rules of a policy file, or of the default policy. Raises UsageError with file and line."""
        return cls(default_policy() if policy is None else load_policy(policy))

    def floor_of(self, metric: str) -> float:
        if self.floor_ratio is not None:
            return self.floor_ratio
        gated = self.policy.gate.get(metric)
        return gated.floor_ratio if gated is not None else _FLOOR_RATIO

    def columns(self, series: Series) -> list[str]:
        """The columns of these metrics."""
        wanted = self.metrics or metrics_of(self.policy)
        return [name for name in series.columns() if metric_of(name) in wanted]


@dataclass(frozen=True, slots=True)
class Detection:
    """The change points that were found; `not_looked` says why nothing was looked for, and is empty otherwise."""

    changes: list[Change] = field(default_factory=list)
    not_looked: str = ""


def shown_columns(series: Series, rules: Rules, *, brief: bool = False) -> list[str]:
    """The columns of the gated and the headline metrics. brief: with several cells, those of the gated ones alone."""
    columns = series.columns()
    gated_alone = brief and len({*map(cell_of, columns)}) > 1
    wanted = {*(rules.metrics or (*rules.policy.gate, *(() if gated_alone else SIX_HEADLINES)))}
    return [name for name in columns if metric_of(name) in wanted]


def detect(series: Series, rules: Rules, columns: list[str], otava: OtavaCommand) -> Detection:
    """Look for change points in these columns. `otava` is called only if there are runs enough to need it."""
    rows = series.rows()
    if len(rows) < LEAST_POINTS:
        return Detection(not_looked=f"too few: {plural(len(rows), 'run')}; change points need {LEAST_POINTS}")
    command: Sequence[str] = ()
    if any(may_change([float(row[column]) for row in rows if row.get(column)]) for column in columns):
        found = otava()
        if found is None:
            return Detection(not_looked="Apache Otava is not installed; highwater bench history changes installs it")
        command = found
    better = {name: gated.better for name, gated in rules.policy.gate.items() if gated.better}
    return Detection(series.changes(partial(change_points, command), rules.floor_of, columns, better))


def sentence(series: Series, columns: Sequence[str], detection: Detection) -> str:
    """The answer of a series: its runs, the last figure of the first column, and the last change that is open."""
    rows = series.rows()
    first, last = rows[0]["time"][:10], rows[-1]["time"][:10]
    runs = f"{plural(len(rows), 'run')} " + (f"on {first}" if first == last else f"from {first} to {last}")
    # No cell of several stands for the others.
    shown = next((name for name in columns if not cell_of(name) and rows[-1].get(name)), None)
    parts = [runs if shown is None else f"{runs}, the last with {shown} {_last_text(rows[-1], shown)}"]
    if detection.not_looked:
        parts.append(f"change points: {detection.not_looked}")
    elif not detection.changes:
        parts.append("no change point")
    else:
        open_ = [change for change in detection.changes if change.acknowledged is None]
        parts.append(change_sentence((open_ or detection.changes)[-1]))
        if others := len(detection.changes) - 1:
            parts.append(f"{plural(others, 'more change point')}")
    return "; ".join(parts)


def _last_text(row: Mapping[str, str], column: str) -> str:
    return value_text(float(row[column]), unit_of(column))


def change_sentence(change: Change) -> str:
    """`produce.p99 is worse since 2026-01-05 (commit c05): 4 ms → 5.2 ms, +30 %`."""
    unit = unit_of(change.column)
    at = f"{change.time[:10]} (commit {change.commit[:12]})" if change.commit else change.time[:10]
    point = change.point
    before, after = value_text(point.before, unit), value_text(point.after, unit)
    text = f"{change.column} {word_of(change)} since {at}: {before} → {after}, {change_text(point.ratio)}"
    return text + (f"; acknowledged: {change.acknowledged}" if change.acknowledged is not None else "")


def word_of(change: Change) -> str:
    return "is worse" if change.is_worse else "is better" if change.better != "none" else "differs"


def unit_of(column: str) -> str:
    """The unit of a column's metric; empty if the metric is not known."""
    definition = METRICS.get(metric_of(column))
    return definition.unit if definition else ""
