"""The main table: one row per cell, medians over trials with their range, the best marked where the trials bear it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from reports.cells import Cell, Run, delivery_total, scalar_text
from reports.measures import ACHIEVED, BYTES, FEWEST_SAMPLES_ABOVE, TABLE, Measure
from reports.quantity import NONE, plural, whole

_DELIVERY = (("failed", "failed"), ("lost", "lost"), ("duplicated", "dup."))


@dataclass(frozen=True)
class Column:
    group: str
    title: str
    unit: str
    hint: str = ""


@dataclass(frozen=True)
class Value:
    """One field of the table. `sort` is what the script sorts by; `hint` says why a figure is greyed."""

    text: str
    range: str = ""
    sort: float | str = ""
    best: bool = False
    hint: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Row:
    label: str
    sound: bool
    baseline: bool
    emulated: bool
    factors: Sequence[Value]
    values: Sequence[Value]
    trials: Value
    state: str


@dataclass(frozen=True)
class Overview:
    factors: Sequence[Column]
    columns: Sequence[Column]
    rows: Sequence[Row]
    any_best: bool
    any_weak: bool
    any_unsound: bool

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The upper line of the header: group and how many columns it spans."""
        return [(name, len(list(found))) for name, found in groupby(self.columns, key=lambda c: c.group)]


def overview(run: Run) -> Overview:
    measures = [m for m in TABLE if any(cell.spread(m) is not None for cell in run.cells)] or list(TABLE)
    latency_end = next((i for i, m in enumerate(measures) if m.group == "CPU"), len(measures))
    best = {(cell.key, m.key) for m in measures for cell in _best_cells(run, m)}
    rows = [_row(run, cell, measures, latency_end, best) for cell in run.cells]
    columns = [Column(m.group, m.title, m.unit) for m in measures]
    delivery = [Column("Records, all trials", title, "sum") for _, title in _DELIVERY]
    return Overview(
        factors=[Column("", short, "", hint=full) for full, short in run.factors.items()],
        columns=[*columns[:latency_end], *delivery, *columns[latency_end:]],
        rows=rows,
        any_best=any(v.best for row in rows for v in row.values),
        any_weak=any(v.hint for row in rows for v in row.values),
        any_unsound=any(not row.sound and cell.trials for row, cell in zip(rows, run.cells, strict=True)),
    )


def _best_cells(run: Run, measure: Measure) -> list[Cell]:
    """The best median of each load level, where another cell's range lies wholly apart; one trial has no range."""
    found: list[Cell] = []
    for _, cells in run.levels:
        spreads = [(spread, cell) for cell in cells if cell.sound and (spread := cell.spread(measure)) is not None]
        if measure.better is None or len(spreads) < 2:
            continue
        if measure in (ACHIEVED, BYTES) and all(cell.kept_up for _, cell in spreads):
            continue  # their throughput is the offered load, which tells no cell from another
        pick = max if measure.better == "higher" else min
        best, _ = pick(spreads, key=lambda pair: pair[0].median)
        if best.trials > 1 and any(best.apart(other) for other, _ in spreads if other.trials > 1):
            found += [cell for spread, cell in spreads if measure.figure(spread.median) == measure.figure(best.median)]
    return found


def _row(run: Run, cell: Cell, measures: Sequence[Measure], latency_end: int, best: set[tuple[str, str]]) -> Row:
    values = [_value(cell, m, (cell.key, m.key) in best) for m in measures]
    delivery = [_count(cell, field) for field, _ in _DELIVERY]
    return Row(
        label=cell.label,
        sound=cell.sound,
        baseline=cell is run.baseline and len(run.cells) > 1,
        emulated=cell.emulated,
        factors=[_factor(cell, axis) for axis in run.factors],
        values=[*values[:latency_end], *delivery, *values[latency_end:]],
        trials=Value(f"{len(cell.valid)} of {len(cell.planned)}", sort=len(cell.valid)),
        state=_state(cell),
    )


def _factor(cell: Cell, axis: str) -> Value:
    value = cell.factors.get(axis)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return Value(scalar_text(value), sort=float(value) if numeric and value is not None else scalar_text(value))


def _state(cell: Cell) -> str:
    if not cell.trials:
        return "none finished"
    states = {trial.summary.verdict.state for trial in cell.trials}
    if len(cell.valid) == len(cell.planned):
        return "valid"
    if not cell.valid:
        return "invalid" if "invalid" in states else "inconclusive"
    return "partly valid"


def _value(cell: Cell, measure: Measure, best: bool) -> Value:
    spread = cell.spread(measure)
    if spread is None:
        return Value(NONE)
    show, hint = measure.figure, ""
    shown_range = f"{show(spread.low)}–{show(spread.high)}" if show(spread.low) != show(spread.high) else ""
    above = [a for trial in cell.shown if (a := measure.samples_above(trial.summary)) is not None]
    if above and min(above) < FEWEST_SAMPLES_ABOVE:
        fewest = plural(int(min(above)), "sample")
        hint = f"Only {fewest} above it in a trial, fewer than {FEWEST_SAMPLES_ABOVE}: luck as much as system"
    return Value(show(spread.median), shown_range, spread.median, best and not hint, hint)


def _count(cell: Cell, field: str) -> Value:
    if not cell.trials:
        return Value(NONE)
    total = delivery_total((trial.summary for trial in cell.trials), field)
    return Value(whole(total), sort=total, bad=total > 0)
