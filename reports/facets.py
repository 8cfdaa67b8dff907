"""The facet grid: a matrix of several factors as a grid of small charts.

The x axis shows the load or the factor with the most values; colours, columns and rows show one further factor each.
The reader may choose other factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.drawing import axes
from highwater.drawing.downsample import Point
from highwater.drawing.plot import MOST_SERIES, SMALL, Series, Size, Whisker, line_panel, swatch
from highwater.reports.blocks import Figure, LegendItem, Panel, View, table
from highwater.reports.cells import Cell, Run, values
from highwater.reports.measures import ACHIEVED, E2E_P99, PRODUCE_P99, Measure
from highwater.results.analysis.cells import scalar_text
from highwater.results.models import Scalar

_MOST_COLUMNS: Final = 6
_WIDE: Final = Size(580, 260)
_ALL: Final = ""
_DODGE: Final = 0.07


@dataclass(frozen=True)
class FacetKeys:
    """The factors of x axis, colours, columns and rows; an empty name = no factor."""

    x: str = ""
    colour: str = ""
    columns: str = ""
    rows: str = ""


class UnknownFactorError(Exception):
    """A factor does not vary in this run; the text names the factors that do."""


def facet_figures(run: Run, wanted: FacetKeys) -> list[Figure]:
    """The grid; empty with fewer than two factors unless `wanted` names one. Raises UnknownFactorError."""
    keys = chosen_keys(run, wanted)
    if len(run.factors) < 2 and wanted == FacetKeys():
        return []
    found = [m for m in (PRODUCE_P99, E2E_P99, ACHIEVED) if any(values(c.trials, m) for c in run.cells)]
    if not found or not keys.x:
        return []
    grid = _grid(run, keys)
    names = [scalar_text(v) for v in _values(run, keys.x)]
    x = axes.categories(run.factors[keys.x], names)
    colours = [scalar_text(v) for v in _values(run, keys.colour)] if keys.colour else [_ALL]
    views = [View(m.name, _panels(run, keys, m, grid, x, colours)) for m in found]
    columns = len({column for _, column in grid})
    aligned = 1 < columns <= _MOST_COLUMNS
    title = "Every cell by its factors"
    finding = _reading(run, keys)
    rows = [
        [*(scalar_text(cell.factors.get(f)) for f in run.factors), *(cell.median_text(m) for m in found)]
        for cell in run.cells
        if cell.trials
    ]
    legend = (
        [
            LegendItem(i, f"{run.factors[keys.colour]} {c}", swatch(i, solid=False, line=True))
            for i, c in enumerate(colours, start=1)
        ]
        if keys.colour
        else []
    )
    return [
        Figure(
            "facets",
            title,
            finding,
            views,
            table([*run.factors.values(), *(f"{m.name}, {m.unit}" for m in found)], rows),
            legend,
            note="Small dots are trials, the line joins their medians, brackets are 95 % intervals; a cross is a cell "
            "without a usable trial. All panels have the same axes.",
            layout="half" if len(grid) == 1 else "full" if aligned else "many",
            columns=columns if aligned else 0,
        )
    ]


def chosen_keys(run: Run, wanted: FacetKeys) -> FacetKeys:
    """The factors that the reader named, the others chosen automatically. Raises UnknownFactorError."""
    named = {place: _factor(run, name) for place, name in vars(wanted).items() if name}
    free = [f for f in run.factors if f not in named.values()]
    counts = {f: len(_values(run, f)) for f in free}
    if "x" not in named and free:
        loads = [f for f in free if f in run.load_axes]
        named["x"] = loads[0] if loads else max(free, key=lambda f: (counts[f], -free.index(f)))
        free.remove(named["x"])
    if "colour" not in named and (few := [f for f in free if counts[f] <= MOST_SERIES]):
        named["colour"] = few[0]
        free.remove(few[0])
    for place in ("columns", "rows"):
        if place not in named and free:
            named[place] = free.pop(0)
    return FacetKeys(**named)


def _factor(run: Run, name: str) -> str:
    found = next((full for full, short in run.factors.items() if name in (full, short)), None)
    if found is None:
        known = ", ".join(run.factors) or "none: it has one cell"
        raise UnknownFactorError(f'"{name}" is not a factor of this run; its factors are {known}')
    return found


def _values(run: Run, factor: str) -> list[Scalar | None]:
    """Return the factor's values in the order of the workload file."""
    return list({repr(v): v for v in (c.factors.get(factor) for c in run.cells)}.values())


def _grid(run: Run, keys: FacetKeys) -> Mapping[tuple[str, str], list[Cell]]:
    """Cells by (row, column). Factors without a dimension of their own become rows, too."""
    placed = {keys.x, keys.colour, keys.columns}
    row_factors = [f for f in run.factors if f not in placed]
    grid: dict[tuple[str, str], list[Cell]] = {}
    for row in dict.fromkeys(_words(run, c, row_factors) for c in run.cells):
        for column in dict.fromkeys(_words(run, c, [keys.columns] if keys.columns else []) for c in run.cells):
            grid[row, column] = []
    for cell in run.cells:
        place = _words(run, cell, row_factors), _words(run, cell, [keys.columns] if keys.columns else [])
        grid[place].append(cell)
    return grid


def _words(run: Run, cell: Cell, factors: Sequence[str]) -> str:
    return " · ".join(f"{run.factors[f]} {scalar_text(cell.factors.get(f))}" for f in factors)


def _panels(
    run: Run,
    keys: FacetKeys,
    measure: Measure,
    grid: Mapping[tuple[str, str], list[Cell]],
    x: axes.Axis,
    colours: Sequence[str],
) -> list[Panel]:
    measured = [v for cells in grid.values() for c in cells for v in values(c.trials, measure)]
    make = axes.logarithmic if measure.unit == "ms" else axes.linear
    y = make(f"{measure.title}, {measure.unit}", measure.unit, measured)
    places = [scalar_text(v) for v in _values(run, keys.x)]
    large = len(grid) == 1 or len({column for _, column in grid}) == 2
    size = _WIDE if large else SMALL
    panels = []
    for number, ((row, column), cells) in enumerate(grid.items(), start=1):
        title = " · ".join(filter(None, (row, column)))
        series = [
            _series(run, keys, measure, cells, slot, colour, places) for slot, colour in enumerate(colours, start=1)
        ]
        name = f"facets-{measure.key.replace('.', '-')}-{number}"
        heading = f"{measure.name} by {run.factors[keys.x]}{f': {title}' if title else ''}"
        drawing = line_panel(name, heading, _reading(run, keys), series, x, y, size, end_labels=False)
        panels.append(Panel(title, drawing))
    return panels


def _series(
    run: Run, keys: FacetKeys, measure: Measure, cells: Sequence[Cell], slot: int, colour: str, places: Sequence[str]
) -> Series:
    here = [c for c in cells if not keys.colour or scalar_text(c.factors.get(keys.colour)) == colour]
    # Colours are shifted a little, so that no mark hides another at the same place.
    at = {c.key: places.index(scalar_text(c.factors.get(keys.x))) + (slot - 1) * _DODGE for c in here}
    medians = {c.key: s.median for c in here if (s := c.spread(measure)) is not None}
    sound = [c for c in here if c.sound and c.key in medians]
    return Series(
        slot,
        f"{run.factors[keys.colour]} {colour}" if keys.colour else measure.name,
        sorted((Point(at[c.key], medians[c.key]) for c in sound), key=lambda p: p.x),
        markers=True,
        crosses=[Point(at[c.key], medians[c.key]) for c in here if not c.sound and c.key in medians],
        dots=[Point(at[c.key], v) for c in sound for v in values(c.used, measure)],
        whiskers=[Whisker(at[c.key], *i) for c in sound if (i := run.interval(c, measure)) is not None],
    )


def _reading(run: Run, keys: FacetKeys) -> str:
    places = {"along x": keys.x, "by colour": keys.colour, "by column": keys.columns, "by row": keys.rows}
    return "; ".join(f"{run.factors[f]} {place}" for place, f in places.items() if f).capitalize() + "."
