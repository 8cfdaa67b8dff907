"""The table behind CSV and Parquet: a row per finished trial, a column per metric and unit."""

from __future__ import annotations

from typing import Final

from highwater.bench.exports.estimates import usable
from highwater.results.metrics import METRICS
from highwater.results.models import Scalar
from highwater.results.reader import RunResult

METRIC_COLUMNS: Final = {definition.column: definition for definition in METRICS.values()}
COUNTS: Final = "counts"
"""Whether the figures of the report are of this trial: it is no A/A twin, and not invalid."""
_FACTOR: Final = "factor."


def columns(result: RunResult) -> list[str]:
    return [
        "run",
        "trial_id",
        "cell",
        *(f"{_FACTOR}{axis}" for axis in result.manifest.axes),
        "trial",
        "block",
        "order_in_block",
        "role",
        "started_utc",
        "verdict",
        COUNTS,
        "system",
        "version",
        "storage",
        "medium",
        "emulated",
        *METRIC_COLUMNS,
    ]


def rows(result: RunResult) -> list[dict[str, Scalar | None]]:
    """The rows in the order of running; None when a trial does not have the figure."""
    counted = {trial.summary.trial_id for trials in result.cells().values() for trial in usable(trials)}
    found = []
    for trial in result.trials:
        summary = trial.summary
        row: dict[str, Scalar | None] = {
            "run": result.manifest.name,
            "trial_id": summary.trial_id,
            "cell": summary.cell,
            **{f"{_FACTOR}{axis}": summary.factors.get(axis) for axis in result.manifest.axes},
            "trial": summary.trial,
            "block": summary.block,
            "order_in_block": summary.order_in_block,
            "role": summary.role,
            "started_utc": summary.started_utc,
            "verdict": summary.verdict.state,
            COUNTS: summary.trial_id in counted,
            "system": summary.system.kind,
            "version": summary.system.version,
            "storage": summary.storage.name,
            "medium": summary.storage.medium,
            "emulated": summary.storage.emulated,
        }
        for name, definition in METRIC_COLUMNS.items():
            value = definition.read(summary)
            row[name] = None if value is None else float(value)
        found.append(row)
    return found
