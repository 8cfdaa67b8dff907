"""The main table: a row for each cell, medians with their range, the best cell marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from highwater.common.units import NONE, count_text, plural
from highwater.reports.blocks import Block, Column, Field, Row, Table, Tone
from highwater.reports.cells import Cell, Run, delivery_total
from highwater.reports.measures import ACHIEVED, BYTES, FEWEST_SAMPLES_ABOVE, TABLE, Measure
from highwater.results.analysis.best import decided_best
from highwater.results.analysis.cells import scalar_text
from highwater.results.models import Scalar

_DELIVERY: Final = (("failed", "failed"), ("lost", "lost"), ("duplicated", "dup."))
STATE_TONES: Final[dict[str, Tone]] = {"valid": "good", "invalid": "bad", "no result": "bad", "none finished": "bad"}


def overview_blocks(run: Run) -> list[Block]:
    """One row per cell, one column per measure that at least one cell has."""
    measures = [m for m in TABLE if any(cell.spread(m) is not None for cell in run.cells)] or list(TABLE)
    best = {(cell.key, m.key) for m in measures for cell in _best_cells(run, m)}
    columns = [Column(m.title, m.unit, group=m.group) for m in measures]
    delivery = [Column(title, "sum", group="Records, all trials") for _, title in _DELIVERY]
    latency_end = next((i for i, m in enumerate(measures) if m.group == "CPU"), len(measures))
    named = [Column(short, hint=full, text=True) for full, short in run.factors.items()]
    factors = named or [Column("cell", text=True)]
    rows = []
    for cell in run.cells:
        values = [_value(run, cell, m, (cell.key, m.key) in best) for m in measures]
        counts = [_count(cell, field) for field, _ in _DELIVERY]
        valid = Field(
            f"{len(cell.valid)} of {len(cell.wanted)}",
            small=(state := _state(cell)),
            sort=len(cell.valid),
            tone=STATE_TONES.get(state, "warn"),
        )
        fields = [*_factors(run, cell), valid, *values[:latency_end], *counts, *values[latency_end:]]
        rows.append(Row(fields, faint=not cell.sound))
    return [
        Table(
            [
                *factors,
                Column("valid", "of planned", group="Trials"),
                *columns[:latency_end],
                *delivery,
                *columns[latency_end:],
            ],
            rows,
            label="One row for each cell",
            note=_note(run, rows),
            wide=True,
            sortable=True,
        )
    ]


def _note(run: Run, rows: Sequence[Row]) -> str:
    looks = {field.look for row in rows for field in row.fields}
    parts = ["Median of the usable trials (all but the invalid ones), with lowest–highest beneath."]
    if run.analysis is not None:
        beneath = "beneath it the 95 % interval in brackets, or else lowest–highest"
        parts = [f"Median of the usable trials (all but the invalid ones); {beneath}."]
    if "best" in looks:
        level = " at its offered load" if run.load_axes else ""
        parts.append(f"▲ is the best cell{level}, decided as in the answer.")
    if "weak" in looks:
        parts.append(
            f"Grey and underlined: fewer than {FEWEST_SAMPLES_ABOVE} samples lie above that percentile, or the trials "
            "differ too much for their median to be quoted alone."
        )
    if any(row.faint and cell.trials for row, cell in zip(rows, run.cells, strict=True)):
        parts.append("Rows in grey have no usable trial: their figures are shown for diagnosis, not for use.")
    if run.result.trials:
        parts.append("Generator CPU is that of the busiest worker process.")
    return " ".join(parts)


def _best_cells(run: Run, measure: Measure) -> list[Cell]:
    """The best cell of each load level, where the trials decide that it is better than each other one."""
    found: list[Cell] = []
    if measure.better is None:
        return found
    for _, cells in run.levels:
        measured = {cell.key: cell for cell in cells if run.figures.of(cell.key, measure.key)}
        if len(measured) < 2:
            continue
        if measure in (ACHIEVED, BYTES) and all(cell.kept_up for cell in measured.values()):
            continue  # their throughput is the offered load, which is the same for all cells
        if (best := decided_best(run.figures, measure.key, list(measured))) is not None:
            found.append(measured[best])
    return found


def _factors(run: Run, cell: Cell) -> list[Field]:
    tags = [*(["baseline"] if cell is run.baseline and len(run.cells) > 1 else [])]
    tags += ["emulated"] if cell.emulated else []
    if not run.factors:
        return [Field(cell.label, tags=tags)]
    first, *others = (cell.factors.get(axis) for axis in run.factors)
    return [replace(_factor(first), tags=tags), *map(_factor, others)]


def _factor(value: Scalar | None) -> Field:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return Field(scalar_text(value), sort=float(value) if numeric and value is not None else scalar_text(value))


def _state(cell: Cell) -> str:
    if not cell.trials:
        return "none finished"
    if len(cell.valid) == len(cell.wanted):
        return "valid"
    if not cell.valid:
        return "inconclusive" if cell.used else "invalid"
    return "partly valid"


def _value(run: Run, cell: Cell, measure: Measure, best: bool) -> Field:
    spread = cell.spread(measure)
    if spread is None:
        return Field(NONE)
    show, hint = measure.figure, ""
    interval = run.interval(cell, measure)
    low, high = map(show, interval or (spread.low, spread.high))
    beneath = "" if low == high else f"[{low}, {high}]" if interval else f"{low}–{high}"
    above = [a for trial in cell.shown if (a := measure.samples_above(trial.summary)) is not None]
    if above and min(above) < FEWEST_SAMPLES_ABOVE:
        fewest = plural(int(min(above)), "sample")
        hint = f"Only {fewest} above it in a trial, fewer than {FEWEST_SAMPLES_ABOVE}: luck as much as system"
    elif run.unstable(cell, measure):
        hint = "The trials differ too much for their median to be quoted alone"
    look: Literal["", "best", "weak"] = "weak" if hint else "best" if best else ""
    return Field(show(spread.median), beneath, spread.median, look=look, hint=hint)


def _count(cell: Cell, field: str) -> Field:
    if not cell.trials:
        return Field(NONE)
    total = delivery_total((trial.summary for trial in cell.trials), field)
    return Field(count_text(total), sort=total, look="bad" if total else "")
