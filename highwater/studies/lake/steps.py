"""What follows the SQL of a question: pure functions from its rows to those of the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from highwater.studies.history.otava import ChangePoint, change_points, may_change, otava_command

Rows = Sequence[Mapping[str, Any]]
Parameters = Mapping[str, Any]
# From series by name and the least change to the change points of each.
FindChanges = Callable[[Mapping[str, Sequence[float]], float], dict[str, list[ChangePoint]]]

_SERIES: Final = ("workload", "environment", "cell")


def changes_in(rows: Rows, find: FindChanges, floor_ratio: float) -> list[dict[str, Any]]:
    """The change points of each series, which is the rows of one cell in one environment in their order."""
    series: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        series.setdefault(tuple(str(row[name]) for name in _SERIES), []).append(row)
    names = {"\n".join(key): key for key in series}
    found = find({name: [row["value"] for row in series[key]] for name, key in names.items()}, floor_ratio)
    changes = [_change(series[key], point) for name, key in names.items() for point in found[name]]
    return sorted(changes, key=lambda change: (change["time"], *(change[name] for name in _SERIES)))


def _change(series: Rows, point: ChangePoint) -> dict[str, Any]:
    at = series[point.index]
    return {
        **{name: at[name] for name in (*_SERIES, "time", "run", "commit")},
        "before": point.before,
        "after": point.after,
        "unit": at["unit"],
        "change_ratio": point.ratio,
        "p_value": point.p_value,
    }


def _change_points(rows: Rows, parameters: Parameters) -> list[dict[str, Any]]:
    return changes_in(rows, _with_otava, float(parameters["floor"]))


def _with_otava(series: Mapping[str, Sequence[float]], floor_ratio: float) -> dict[str, list[ChangePoint]]:
    """Otava is asked, and installed if it is missing, only if a series is long enough to change."""
    if not any(map(may_change, series.values())):
        return {name: [] for name in series}
    return change_points(otava_command(), series, floor_ratio)


STEPS: Final[Mapping[str, Callable[[Rows, Parameters], list[dict[str, Any]]]]] = {"change_points": _change_points}
"""The value of `then` in a question -> the function."""
