"""The cells of a run: their names for people, and which of them were offered the same load. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final

from highwater.common.units import NONE, exact_text
from highwater.results.models import Manifest, Scalar, TrialSummary

KEPT_UP: Final = 0.995
"""A cell carried the offered load if achieved ÷ offered is at least this: the constant of the validity check."""

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

Factors = Mapping[str, Scalar]


def factors_of(manifest: Manifest) -> dict[str, Factors]:
    """The factors of every planned cell."""
    return {planned.cell: planned.factors for planned in manifest.trials}


def varying_factors(manifest: Manifest) -> list[str]:
    """The factors that have several values, in the order of the axes."""
    cells = factors_of(manifest).values()
    axes = list(manifest.axes) or list(dict.fromkeys(factor for factors in cells for factor in factors))
    return [axis for axis in axes if len({repr(factors.get(axis)) for factors in cells}) > 1]


def cell_labels(cells: Mapping[str, Factors], names: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """A label for each cell, and whether the labels have the short names of factors, which long labels leave out."""
    labels = {cell: cell_label(factors, names, named=True) for cell, factors in cells.items()}
    if max(map(len, labels.values()), default=0) <= _LONGEST_LABEL:
        return labels, True
    return {cell: cell_label(factors, names, named=False) for cell, factors in cells.items()}, False


def cell_label(factors: Factors, names: Mapping[str, str], *, named: bool) -> str:
    """The values of the factors in `names` (full name to short name), with their short names if `named`."""
    values = {name: scalar_text(factors.get(factor)) for factor, name in names.items()}
    return " · ".join(f"{name} {value}" if named else value for name, value in values.items()) or "all trials"


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
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    return exact_text(value) if isinstance(value, int | float) else value


def offered_per_s(trials: Iterable[TrialSummary]) -> float | None:
    """The offered load of a cell; None without a trial, and in a closed loop."""
    offered = [trial.offered_per_s for trial in trials if trial.offered_per_s is not None]
    return median(offered) if offered else None


def kept_up(trials: Iterable[TrialSummary]) -> bool:
    """Whether every trial carried the offered load: its throughput then says nothing about the system.

    A closed loop has no offered load; its throughput is always that of the system.
    """
    return all(
        trial.offered_per_s is not None and trial.achieved_per_s >= KEPT_UP * trial.offered_per_s for trial in trials
    )


def load_axes(axes: Sequence[str], cells: Mapping[str, Factors], offered: Mapping[str, float | None]) -> list[str]:
    """The axes that change how much load is offered when nothing else changes."""

    def changes_load(axis: str) -> bool:
        alike: dict[str, list[float]] = {}
        for cell, factors in cells.items():
            if (rate_per_s := offered[cell]) is not None:
                others = [factors.get(other) for other in axes if other != axis]
                alike.setdefault(repr(others), []).append(rate_per_s)
        return any(max(rates) > min(rates) * 1.001 for rates in alike.values())

    return [axis for axis in axes if changes_load(axis)]


def levels(names: Mapping[str, str], of_load: Sequence[str], cells: Mapping[str, Factors]) -> dict[str, list[str]]:
    """Cells by offered load: only cells of one level may be compared. Without an axis of load there is one level.

    names: full name to short name. of_load: what `load_axes` returned.
    """
    grouped: dict[str, list[str]] = {}
    for cell, factors in cells.items():
        level = ", ".join(f"{names[axis]} {scalar_text(factors.get(axis))}" for axis in of_load)
        grouped.setdefault(level, []).append(cell)
    return grouped
