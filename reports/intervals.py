"""The interval plot: every trial as a dot, the median as a line, its 95 % interval below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.common.units import NONE, significant
from highwater.drawing import axes
from highwater.drawing.plot import Dot, DotGroup, DotRow, dot_panel, swatch
from highwater.reports.blocks import Figure, LegendItem, Panel, Table, View, table
from highwater.reports.cells import Cell, Run, values
from highwater.reports.measures import (
    ACHIEVED,
    E2E_P50,
    E2E_P99,
    PRODUCE_P50,
    PRODUCE_P99,
    SYSTEM_CPU,
    Measure,
)

MARKS_NOTE: Final = "A mark is a trial, the line their median; a cross is an invalid trial."
_INTERVAL_NOTE: Final = " The bracket beneath is the 95 % interval of the median."


def interval_figures(run: Run) -> list[Figure]:
    """Throughput and latency of every trial as dots."""
    specs: list[tuple[str, str, str, Sequence[Measure]]] = [
        ("dots-throughput", "Throughput", "records acknowledged per second", [ACHIEVED]),
        ("dots-cpu", "Broker CPU", "cores in use", [SYSTEM_CPU]),
        ("dots-produce", "Produce latency", "ms, logarithmic", [PRODUCE_P50, PRODUCE_P99]),
        ("dots-e2e", "End-to-end latency", "ms, logarithmic", [E2E_P50, E2E_P99]),
    ]
    return [figure for spec in specs if (figure := _dots(run, *spec)) is not None]


def _dots(run: Run, name: str, title: str, label: str, measures: Sequence[Measure]) -> Figure | None:
    cells = [cell for cell in run.cells if cell.trials]
    measured = [v for c in cells for m in measures for v in values(c.trials, m)]
    if not measured:
        return None
    unit = measures[0].unit
    x = axes.logarithmic(label, unit, measured) if unit == "ms" else axes.linear(label, unit, measured)
    rows = [DotRow(c.caption, [dot_group(run, c, i, m) for i, m in enumerate(measures, start=1)]) for c in cells]
    finding = medians_finding(cells, measures[-1])
    legend = [LegendItem(i, m.title, swatch(i, solid=True, line=False)) for i, m in enumerate(measures, start=1)]
    with_intervals = any(group.interval for row in rows for group in row.groups)
    return Figure(
        name,
        title,
        finding,
        [View("", [Panel("", dot_panel(name, f"{title} of every trial", finding, rows, x))])],
        _table(cells, measures),
        legend if len(legend) > 1 else [],
        note=MARKS_NOTE + (_INTERVAL_NOTE if with_intervals else ""),
    )


def dot_group(run: Run, cell: Cell, slot: int, measure: Measure) -> DotGroup:
    dots = []
    for trial in (t.summary for t in cell.trials):
        if (value := measure.value(trial)) is not None:
            state = trial.verdict.state
            name = f"{cell.label}, trial {trial.trial}: {measure.title} {measure.text(value)} ({state})"
            dots.append(Dot(value, name, state != "invalid"))
    spread = cell.spread(measure)
    return DotGroup(slot, measure.title, dots, spread.median if spread else None, run.interval(cell, measure))


def medians_finding(cells: Sequence[Cell], measure: Measure) -> str:
    ranked = sorted(
        ((s.median, c.label) for c in cells if c.sound and (s := c.spread(measure)) is not None),
        key=lambda pair: pair[0],
        reverse=measure.better == "higher",
    )
    if not ranked:
        return "No cell has a usable trial with this figure."
    (first, first_label), (last, last_label) = ranked[0], ranked[-1]
    one, other = measure.text(first), measure.text(last)
    if len(ranked) == 1:
        return f"{measure.name} of {first_label}: median {one}."
    if abs(first - last) < 0.01 * max(first, last):
        return f"{measure.name}: the medians of all cells lie within 1 % of each other, at about {one}."
    word, opposite = ("highest", "lowest") if measure.better == "higher" else ("lowest", "highest")
    return f"{measure.name}, medians of usable trials: {word} {one} ({first_label}), {opposite} {other} ({last_label})."


def _table(cells: Sequence[Cell], measures: Sequence[Measure]) -> Table:
    rows = [
        [cell.label, str(t.summary.trial), *(_text(m.value(t.summary)) for m in measures), t.summary.verdict.state]
        for cell in cells
        for t in cell.trials
    ]
    return table(["cell", "trial", *(f"{m.title}, {m.unit}" for m in measures), "verdict"], rows)


def _text(value: float | None) -> str:
    return NONE if value is None else significant(value)
