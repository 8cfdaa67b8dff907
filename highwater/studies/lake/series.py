"""Histories from a lake: the series that `bench history add` of the same runs would make.

Acknowledged changes are the one thing that a lake does not get from runs; they are in LAKE/history, by environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from highwater.bench.exports.otava import COLUMNS
from highwater.common.errors import UsageError
from highwater.results import environment_key
from highwater.results.analysis.compare import ONLY_CELL
from highwater.studies.history.series import WORKLOAD_COLUMN, Series
from highwater.studies.lake import storage
from highwater.studies.lake.manifest import Manifest
from highwater.studies.lake.runs import result_of

HISTORY: Final = "history"
_DIGITS_OF_WORKLOAD: Final = 12

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class LakeSeries(Series):
    """A series whose rows come from a lake; its acknowledgements are files, as those of every series."""

    lake: Manifest
    runs: tuple[str, ...]
    """Oldest first."""
    _rows: tuple[Row, ...] = field(repr=False)

    @property
    def environment(self) -> str:
        return self.directory.name

    def rows(self) -> list[Row]:
        return list(self._rows)

    def facts(self) -> dict[str, environment_key.Scalar]:
        return environment_key.key_of(result_of(self.lake, self.runs[-1])).facts

    def noise(self) -> dict[str, float]:
        """The noise that A/A pairs show, in the newest run that has some."""
        for run in reversed(self.runs):
            analysis = result_of(self.lake, run).analysis()
            noise = (
                {item.metric: item.bound95_ratio for item in analysis.noise if item.bound95_ratio} if analysis else {}
            )
            if noise:
                return noise
        return {}


def series_of(manifest: Manifest) -> list[LakeSeries]:
    """A series for each workload and environment, by these. Raises UsageError when the lake cannot be read."""
    groups = manifest.groups()

    def rows(table: str, columns: list[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            storage.dataset_of(manifest.directory, table, groups).to_table(columns=columns).to_pylist()
        )
        return found

    about = ["run", "environment", "workload", "created_utc", "commit", "workload_sha256", "usable_trials"]
    runs = sorted((run for run in rows("runs", about) if run["usable_trials"]), key=lambda run: str(run["created_utc"]))
    labels = dict(_labels(rows("trials", ["run", "cell", "label", "role", "usable", "emulated"])))
    figures: dict[str, dict[str, list[float]]] = {}
    for figure in rows("figures", ["run", "cell", "role", "usable", "metric", "value"]):
        if figure["usable"] and figure["role"] == "measure":
            label = labels[figure["run"], figure["cell"]]
            column = figure["metric"] if label == ONLY_CELL else f"{label}:{figure['metric']}"
            figures.setdefault(figure["run"], {}).setdefault(column, []).append(figure["value"])
    series: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        series.setdefault((run["environment"], run["workload"]), []).append(run)
    return [
        LakeSeries(
            manifest.directory / HISTORY / environment,
            workload,
            manifest,
            tuple(run["run"] for run in found),
            tuple(_with_all_columns([_row(run, figures.get(run["run"], {})) for run in found])),
        )
        for (environment, workload), found in sorted(series.items())
    ]


def kept_series(lake: Path) -> list[LakeSeries]:
    """The series of the lake in this directory. Raises UsageError when it has none."""
    if not (found := series_of(Manifest(lake))):
        raise UsageError(f"{lake}: nothing stored yet; start with: highwater bench lake add DIR --lake {lake}")
    return found


def _labels(trials: list[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], str]]:
    """What the columns of a cell begin with, as `exports.estimates` names it."""
    emulated = {
        (trial["run"], trial["cell"]) for trial in trials if trial["emulated"] and trial["usable"] and _measured(trial)
    }
    for trial in trials:
        cell = trial["run"], trial["cell"]
        yield cell, trial["label"] + (" (emulated disk)" if cell in emulated else "")


def _measured(trial: dict[str, Any]) -> bool:
    return bool(trial["role"] == "measure")


def _row(run: dict[str, Any], figures: dict[str, list[float]]) -> Row:
    time = run["created_utc"].replace("Z", "+00:00")
    leading = dict(zip(COLUMNS, (time, run["commit"] or "", ""), strict=True))
    leading[WORKLOAD_COLUMN] = run["workload_sha256"][:_DIGITS_OF_WORKLOAD]
    return leading | {column: f"{median(values):.10g}" for column, values in figures.items()}


def _with_all_columns(rows: list[Row]) -> Iterator[Row]:
    columns = dict.fromkeys(column for row in rows for column in row)
    yield from ({column: row.get(column, "") for column in columns} for row in rows)
