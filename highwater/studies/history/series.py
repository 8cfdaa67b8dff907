"""Results over time: a CSV for each workload and environment, and acknowledged changes.

    HISTORY/<environment key>/environment.json        the facts of the key, from which it is computed
    HISTORY/<environment key>/<workload>.csv          time, commit, branch, workload_sha256, a column per metric
    HISTORY/<environment key>/<workload>.noise.json   metric -> what A/A pairs of the newest run differed by
    HISTORY/<environment key>/<workload>.acknowledged.jsonl

A folder keeps its name, although a later version may compute another key from the same facts. Rows are appended and
never changed; a metric that is new gets a column, empty in the rows before. There is no baseline
to freeze: a change is looked for in the whole series, and what is known and accepted is acknowledged with a reason.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from highwater.bench.exports.otava import COLUMNS, row
from highwater.common.atomic_files import write_atomically
from highwater.common.csv_text import csv_text
from highwater.common.errors import NotComparableError, UsageError
from highwater.common.nearest import nearest
from highwater.common.units import plural
from highwater.results import environment_key
from highwater.results.analysis_file import Better
from highwater.results.metrics import METRICS
from highwater.results.reader import RunResult
from highwater.studies.history.otava import ChangePoint

WORKLOAD_COLUMN: Final = "workload_sha256"
_LEADING: Final = (*COLUMNS, WORKLOAD_COLUMN)

# From series by column and the least magnitude to the change points of each.
FindChanges = Callable[[Mapping[str, list[float]], float], dict[str, list[ChangePoint]]]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A change that somebody knows of. `place`: time or commit of the first run after it, for `acknowledge` its
    beginning."""

    column: str
    place: str
    reason: str
    acknowledged_utc: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change point of one metric, with the first run after the change."""

    column: str
    time: str
    commit: str
    better: Better
    point: ChangePoint
    acknowledged: str | None
    """The reason, if the change is acknowledged."""
    workload_changed: bool
    """The workload file changed with this run, so the system may not be the cause."""

    @property
    def is_worse(self) -> bool:
        return (self.point.ratio < 1) if self.better == "higher" else (self.better == "lower" and self.point.ratio > 1)


@dataclass(frozen=True, slots=True)
class Series:
    """The runs of one workload in one environment, oldest first."""

    directory: Path
    workload: str

    @property
    def environment(self) -> str:
        """The key of the facts, as this version computes it; the folder's name if the facts are not there."""
        facts = self.facts()
        return environment_key.EnvironmentKey(facts).name if facts else self.directory.name

    def facts(self) -> dict[str, environment_key.Scalar]:
        """The facts of the environment as this version names them; empty if they are not there."""
        path = self.directory / "environment.json"
        with _readable(path):
            known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
            if not isinstance(known, dict):
                raise ValueError("it is not a JSON object")
            return environment_key.renamed(known)

    @property
    def path(self) -> Path:
        return self.directory / f"{self.workload}.csv"

    @property
    def _noise_path(self) -> Path:
        return self.directory / f"{self.workload}.noise.json"

    @property
    def _acknowledged_path(self) -> Path:
        return self.directory / f"{self.workload}.acknowledged.jsonl"

    def rows(self) -> list[dict[str, str]]:
        """Raises UsageError for a file that is no such CSV."""
        with _readable(self.path), self.path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ())[: len(_LEADING)] != _LEADING:
                raise UsageError(f"{self.path}: is not a history; its columns are not {', '.join(_LEADING)}, …")
            return sorted(reader, key=lambda item: item["time"])

    def columns(self) -> list[str]:
        """The columns of the metrics."""
        rows = self.rows()
        return [name for name in rows[0] if name not in _LEADING] if rows else []

    def noise(self) -> dict[str, float]:
        """Metric to what A/A pairs of the newest run differed by."""
        with _readable(self._noise_path):
            text = self._noise_path.read_text("utf-8") if self._noise_path.is_file() else "{}"
            found: dict[str, float] = json.loads(text)
        return found

    def acknowledgements(self) -> list[Acknowledgement]:
        if not self._acknowledged_path.is_file():
            return []
        with _readable(self._acknowledged_path):
            lines = self._acknowledged_path.read_text("utf-8").splitlines()
            return [Acknowledgement(**json.loads(line)) for line in lines if line.strip()]

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Append an acknowledgement with its full place. Raises UsageError for an unknown metric or run."""
        if acknowledgement.column not in (columns := self.columns()):
            near = nearest(acknowledgement.column, columns)
            hint = f'did you mean "{near}"?' if near else "its first line names them"
            raise UsageError(f"{acknowledgement.column} is not a metric of {self.path}; {hint}")
        acknowledgement = replace(acknowledgement, place=self._in_full(acknowledgement.place))
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._acknowledged_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: getattr(acknowledgement, name) for name in Acknowledgement.__slots__}) + "\n")

    def _in_full(self, place: str) -> str:
        """The full commit or time of a unique prefix, so that the prefix cannot match a later run."""
        rows = self.rows()
        for column in ("commit", "time"):
            found = sorted({item[column] for item in rows if place and item[column].startswith(place)})
            if place in found or len(found) == 1:
                return place if place in found else found[0]
            if found:
                raise UsageError(f"{place} begins the {column} of {len(found)} runs in {self.path}; give more of it")
        raise UsageError(f"{place} is neither the time nor the commit of a run in {self.path}")

    def changes(
        self,
        find: FindChanges,
        floor_ratio: Callable[[str], float],
        columns: list[str] | None = None,
        better: Mapping[str, Better] | None = None,
    ) -> list[Change]:
        """Change points of at least max(floor, noise) of each metric, in order of time.

        better: metric -> better direction, where it differs from the table of metrics.
        """
        rows, noise, acknowledged = self.rows(), self.noise(), self.acknowledgements()
        by_magnitude: dict[float, dict[str, list[int]]] = {}
        for column in columns or self.columns():
            metric = metric_of(column)
            present = [index for index, item in enumerate(rows) if item.get(column)]
            magnitude = max(floor_ratio(metric), noise.get(metric, 0.0))
            by_magnitude.setdefault(magnitude, {})[column] = present
        found = []
        for magnitude, places in by_magnitude.items():
            values = {column: [float(rows[index][column]) for index in present] for column, present in places.items()}
            for column, points in find(values, magnitude).items():
                for point in points:
                    before, at = (rows[places[column][index]] for index in (point.index - 1, point.index))
                    reason = _reason(acknowledged, column, at)
                    other_workload = before[WORKLOAD_COLUMN] != at[WORKLOAD_COLUMN]
                    side = (better or {}).get(metric_of(column), _better(column))
                    found.append(Change(column, at["time"], at["commit"], side, point, reason, other_workload))
        return sorted(found, key=lambda change: (change.time, change.column))


def all_series(history: Path) -> Iterator[Series]:
    """Every series below a history directory."""
    for path in sorted(history.glob("*/*.csv")):
        yield Series(path.parent, path.stem)


def kept_series(history: Path) -> list[Series]:
    """Every series of a history. Raises UsageError when there is none."""
    if not (found := list(all_series(history))):
        raise UsageError(f"{history}: no such history; begin one with: highwater bench history add DIR")
    return found


def add(result: RunResult, history: Path, *, branch: str, commit: str | None, new_environment: bool) -> Series:
    """Append a run to the series of its workload and environment.

    Raises UsageError for a run without a valid trial, or one that is there already; NotComparableError when the
    workload has a history under another key only, unless a new one is asked for.
    """
    if not any(trial.summary.verdict.state != "invalid" for trial in result.trials):
        raise UsageError(f"{result.directory}: no trial is a valid measurement; nothing to keep")
    key = environment_key.key_of(result)
    others = [other for other in all_series(history) if other.workload == result.manifest.name]
    begun = next((other for other in others if other.environment == key.name), None)
    if others and begun is None and not new_environment:
        raise NotComparableError(_another_environment(others, key))
    series = begun or Series(history / key.name, result.manifest.name)
    cells = row(result, branch, commit)
    added = {name: cells[name] for name in COLUMNS} | {WORKLOAD_COLUMN: result.manifest.workload_sha256[:12]}
    added |= {name: value for name, value in cells.items() if name not in COLUMNS}
    rows = series.rows() if series.path.is_file() else []
    if any(item["time"] == added["time"] and item["commit"] == added["commit"] for item in rows):
        raise UsageError(f"{result.directory}: the run of {added['time']} is in {series.path} already")
    series.directory.mkdir(parents=True, exist_ok=True)
    write_atomically(series.directory / "environment.json", json.dumps(key.facts, indent=2) + "\n")
    write_atomically(series.path, _csv([*rows, added]))
    analysis = result.analysis()
    noise = {item.metric: item.bound95_ratio for item in analysis.noise if item.bound95_ratio} if analysis else {}
    if noise:
        write_atomically(series._noise_path, json.dumps(noise, indent=2) + "\n")
    return series


def doubts(result: RunResult, series: Series) -> list[str]:
    """What to know of the newest run of `series`, which is `result`, before it is compared with those before it."""
    found = []
    rows = series.rows()
    if len(rows) > 1 and rows[-1][WORKLOAD_COLUMN] != rows[-2][WORKLOAD_COLUMN]:
        found.append("the workload is not that of the run before: a change of figures may come from it")
    states = [trial.summary.verdict.state for trial in result.trials if trial.summary.role == "measure"]
    found += [
        f"{states.count(state)} of {plural(len(states), 'trial')} {'is' if states.count(state) == 1 else 'are'} {state}"
        for state in ("invalid", "inconclusive")
        if state in states
    ]
    return found


def chosen(history: Path, workload: str | None, environment: str | None) -> Series:
    """The one series that matches. Raises UsageError when none or several match."""
    if not history.is_dir():
        raise UsageError(f"{history}: no such history; begin one with: highwater bench history add DIR")
    return chosen_of(list(all_series(history)), history, workload, environment)


def chosen_of(series: Sequence[Series], place: Path, workload: str | None, environment: str | None) -> Series:
    """The one of these series of `place` that matches. Raises UsageError when none or several match."""
    found = [
        one
        for one in series
        if workload in (None, one.workload)
        if environment is None or one.environment.startswith(environment) or one.directory.name == environment
    ]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{one.workload} in {one.environment}" for one in (found or series))
    raise UsageError(
        f"{place}: {'several series' if found else 'no such series'}; name one with --workload and --environment "
        f"({known or 'there is none'})"
    )


def metric_of(column: str) -> str:
    """The metric of a column, whose name begins with the cell if the workload has several cells."""
    return column if column in METRICS else column.rpartition(":")[2]


def cell_of(column: str) -> str:
    """The cell of a column; empty for the only cell of a workload."""
    return column.removesuffix(metric_of(column)).removesuffix(":")


def _better(column: str) -> Better:
    definition = METRICS.get(metric_of(column))
    return definition.better if definition else "none"


def _reason(acknowledged: list[Acknowledgement], column: str, at: Mapping[str, str]) -> str | None:
    return next(
        (item.reason for item in acknowledged if item.column == column and _is_at(at, item.place)),
        None,
    )


def _is_at(at: Mapping[str, str], place: str) -> bool:
    return bool(place) and (at["time"].startswith(place) or at["commit"].startswith(place))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors about a damaged file of the history into one line."""
    try:
        yield
    except (csv.Error, TypeError, ValueError) as error:
        raise UsageError(f"{path}: is damaged ({error}); restore it from where the history is stored") from None


def _csv(rows: list[dict[str, str]]) -> str:
    columns = list(dict.fromkeys([*_LEADING, *(name for item in rows for name in item)]))
    return csv_text(columns, rows)


def _another_environment(others: list[Series], key: environment_key.EnvironmentKey) -> str:
    latest = max(others, key=lambda other: other.rows()[-1]["time"])
    differing = environment_key.unequal(latest.facts(), key.facts)
    return (
        f"{latest.workload} was measured in environment {latest.environment} so far, and this run in {key.name} "
        f"({'; '.join(map(environment_key.difference_text, differing))}): they cannot be one series; "
        "--new-environment begins another"
    )
