"""The throughput–latency curve: percentiles by offered load, and the knee."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from highwater.common.units import count_text
from highwater.drawing import axes
from highwater.drawing.downsample import Point
from highwater.drawing.plot import MOST_SERIES, Level, Whisker
from highwater.reports.blocks import Figure, View, table
from highwater.reports.cells import Cell, Run, values
from highwater.reports.charts import Drawn, comparison_legend, comparison_panels
from highwater.reports.measures import (
    ACHIEVED,
    E2E_P50,
    E2E_P99,
    E2E_P999,
    PRODUCE_P50,
    PRODUCE_P99,
    PRODUCE_P999,
    Measure,
)

_CLEAR_KNEE = 0.25
"""A knee must lie this far below the curve's chord, as a share of the curve's height."""


def curve_figures(run: Run) -> list[Figure]:
    """Latency over the offered load; empty when there was only one load."""
    if not run.load_axes:
        return []
    pairs = [
        ("load-produce", "Produce latency over load", (PRODUCE_P50, PRODUCE_P99, PRODUCE_P999)),
        ("load-e2e", "End-to-end latency over load", (E2E_P50, E2E_P99, E2E_P999)),
    ]
    return [figure for pair in pairs if (figure := _curve(run, *pair)) is not None]


def knee(points: Sequence[Point]) -> Point | None:
    """The point of a rising curve that lies farthest below the line from its first to its last point.

    This is Kneedle's definition (V. Satopää et al., "Finding a 'Kneedle' in a Haystack", 2011). None when the curve has
    fewer than four points, or bends so little that the knee may be chance.
    """
    known = [(p.x, p.y) for p in points if p.y is not None and p.y > 0]
    if len(known) < 4:
        return None
    (x0, _), (x1, _) = known[0], known[-1]
    low, high = min(y for _, y in known), max(y for _, y in known)
    if x1 <= x0 or high <= low:
        return None
    drops = [((x - x0) / (x1 - x0) - (y - low) / (high - low), x, y) for x, y in known]
    drop, x, y = max(drops)
    return Point(x, y) if drop >= _CLEAR_KNEE else None


def _curve(run: Run, name: str, title: str, percentiles: Sequence[Measure]) -> Figure | None:
    """One line per percentile if there is one curve; otherwise one view per percentile."""
    measured = [v for cell in run.cells for m in percentiles for v in values(cell.shown, m)]
    offered = [cell.offered_per_s for cell in run.cells if cell.offered_per_s is not None]
    if not measured:
        return None
    x, y = axes.linear("offered, records/s", "/s", offered), axes.logarithmic("latency, ms", "ms", measured)
    finding = _finding(run, percentiles[1])
    if len(run.curves) == 1:
        ((_, cells),) = run.curves.items()
        lines = [_line(run, m.title, cells, m, with_knee=m is percentiles[1]) for m in percentiles]
        views = [View("", comparison_panels(name, title, finding, lines, x, y))]
    else:
        views = []
        for measure in (percentiles[1], percentiles[0], percentiles[2]):
            lines = [_line(run, label, cells, measure, with_knee=True) for label, cells in run.curves.items()]
            panels = comparison_panels(
                f"{name}-{measure.title.replace('.', '')}", f"{title}, {measure.title}", finding, lines, x, y
            )
            views.append(View(measure.title, panels))
    rows = [
        [
            label,
            count_text(c.offered_per_s or 0),
            *(c.median_text(m) for m in (ACHIEVED, *percentiles)),
            f"{len(c.used)} of {len(c.wanted)}",
        ]
        for label, cells in run.curves.items()
        for c in cells
    ]
    header = ["cells", "offered /s", "achieved /s", *(f"{m.title} ms" for m in percentiles), "usable trials"]
    return Figure(
        name,
        title,
        finding,
        views,
        table(header, rows),
        comparison_legend(lines),
        note="Each point is the median of a cell's usable trials; a cross is a load that has none. "
        "Knee: where the curve lies farthest below the line from its first to its last point.",
        layout="many" if len(lines) > MOST_SERIES else "half",
    )


def _line(run: Run, name: str, cells: Sequence[Cell], measure: Measure, with_knee: bool) -> Drawn:
    found = knee(_points(cells, measure, lambda _: True)) if with_knee else None
    return Drawn(
        name,
        name,
        _points(cells, measure, lambda c: c.sound),
        crosses=_points(cells, measure, lambda c: not c.sound),
        knee=Level("knee", found.x) if found else None,
        whiskers=[
            Whisker(c.offered_per_s or 0.0, *interval)
            for c in cells
            if (interval := run.interval(c, measure)) is not None
        ],
    )


def _points(cells: Sequence[Cell], measure: Measure, wanted: Callable[[Cell], bool]) -> list[Point]:
    return [
        Point(c.offered_per_s or 0.0, s.median) for c in cells if wanted(c) and (s := c.spread(measure)) is not None
    ]


def _finding(run: Run, measure: Measure) -> str:
    parts = []
    for name, cells in run.curves.items():
        points = _points(cells, measure, lambda c: c.sound)
        if len(points) > 1:
            (low, at_low), (high, at_high) = points[0], points[-1]
            parts.append(
                f"{name}: {measure.text(at_low or 0)} at {count_text(low)}/s offered, "
                f"{measure.text(at_high or 0)} at {count_text(high)}/s"
            )
            if bend := knee(_points(cells, measure, lambda _: True)):
                parts[-1] += f", knee at {count_text(bend.x)}/s"
    return f"{measure.title}. " + "; ".join(parts) + "." if parts else f"{measure.title} at each offered load."
