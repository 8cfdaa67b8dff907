"""Lines to compare: up to four in one chart, more as small multiples with a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from highwater.drawing import axes
from highwater.drawing.downsample import Point
from highwater.drawing.plot import HALF, MOST_SERIES, SMALL, Level, Series, Whisker, line_panel, swatch
from highwater.reports.blocks import LegendItem, Panel


@dataclass(frozen=True)
class Drawn:
    """One named line: the line itself, thin lines behind it, invalid points, and its knee."""

    name: str
    short: str
    main: Sequence[Point]
    thin: Sequence[Sequence[Point]] = ()
    crosses: Sequence[Point] = ()
    knee: Level | None = None
    whiskers: Sequence[Whisker] = ()


def comparison_panels(
    name: str,
    title: str,
    finding: str,
    lines: Sequence[Drawn],
    x: axes.Axis,
    y: axes.Axis,
    levels: Sequence[Level] = (),
) -> list[Panel]:
    """Up to four lines in one chart; more lines as small multiples, each with the first line in grey."""
    if len(lines) <= MOST_SERIES:
        series = [s for slot, line in enumerate(lines, start=1) for s in _series(slot, line)]
        moments = [line.knee for line in lines if line.knee]
        return [Panel("", line_panel(name, title, finding, series, x, y, HALF, levels=levels, moments=moments))]
    reference = lines[0]
    panels = []
    for index, line in enumerate(lines):
        series = [Series(0, f"{reference.name} (reference)", reference.main)] if index else []
        series += _series(1, line)
        drawing = line_panel(
            f"{name}-{index + 1}",
            f"{title}: {line.name}",
            finding,
            series,
            x,
            y,
            SMALL,
            levels=levels,
            moments=[line.knee] if line.knee else [],
            end_labels=False,
        )
        panels.append(Panel(line.name, drawing))
    return panels


def comparison_legend(lines: Sequence[Drawn]) -> list[LegendItem]:
    if len(lines) <= MOST_SERIES:
        return [LegendItem(i, d.name, swatch(i, solid=False, line=True)) for i, d in enumerate(lines, start=1)]
    return [
        LegendItem(1, "the cell named above the panel", swatch(1, solid=False, line=True)),
        LegendItem(0, f"{lines[0].name} (reference)", swatch(0, solid=False, line=True)),
    ]


def _series(slot: int, line: Drawn) -> list[Series]:
    return [
        *(Series(slot, line.name, points, thin=True) for points in line.thin),
        Series(
            slot, line.name, line.main, markers=True, short=line.short, crosses=line.crosses, whiskers=line.whiskers
        ),
    ]
