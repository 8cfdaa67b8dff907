"""The charts of a benchmark run: which series, on which axes, what the chart says in words, and the table behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from markupsafe import Markup

from bench.results import Latency, Metric, TrialResult, TrialSummary
from reports import axes
from reports.cells import Cell, Run, values
from reports.measures import (
    ACHIEVED,
    E2E_P50,
    E2E_P99,
    FEWEST_SAMPLES_ABOVE,
    PRODUCE_P50,
    PRODUCE_P99,
    SYSTEM_CPU,
    Measure,
    e2e_latency,
    produce_latency,
)
from reports.plot import HALF, MOST_SERIES, SMALL, Dot, DotGroup, DotRow, Point, Series, dot_panel, line_panel, swatch
from reports.quantity import NONE, NS_PER_MS, significant, whole


@dataclass(frozen=True)
class Table:
    """The data behind a chart, for those who cannot or would rather not look at it."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Panel:
    title: str
    drawing: Markup


@dataclass(frozen=True)
class View:
    """One way to draw a figure; a figure with several lets the reader choose."""

    name: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class LegendItem:
    slot: int
    name: str
    swatch: Markup


Layout = Literal["half", "pairs", "many"]
"""Half the page's width, or panels side by side over all of it: two large ones, or as many small ones as fit."""


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    finding: str
    views: Sequence[View]
    table: Table
    legend: Sequence[LegendItem] = ()
    note: str = ""
    layout: Layout = "half"


@dataclass(frozen=True)
class Drawn:
    """One named line of a comparison: the line, what stands thinly behind it, and points that are not valid."""

    name: str
    short: str
    main: Sequence[Point]
    thin: Sequence[Sequence[Point]] = ()
    crosses: Sequence[Point] = ()


def comparison_panels(
    name: str, title: str, finding: str, lines: Sequence[Drawn], x: axes.Axis, y: axes.Axis
) -> list[Panel]:
    """Up to four lines share one chart; more become small multiples, each against the first line in grey."""
    if len(lines) <= MOST_SERIES:
        series = [s for slot, line in enumerate(lines, start=1) for s in _series(slot, line)]
        return [Panel("", line_panel(name, title, finding, series, x, y, HALF))]
    reference = lines[0]
    panels = []
    for index, line in enumerate(lines):
        series = [Series(0, f"{reference.name} (reference)", reference.main)] if index else []
        series += _series(1, line)
        label = f"{title}: {line.name}"
        panels.append(
            Panel(line.name, line_panel(f"{name}-{index + 1}", label, finding, series, x, y, SMALL, end_labels=False))
        )
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
        Series(slot, line.name, line.main, markers=True, short=line.short, crosses=line.crosses),
    ]


def load_figures(run: Run) -> list[Figure]:
    """Latency over load where several loads were offered; otherwise every trial as a dot."""
    cells = [cell for cell in run.cells if cell.trials]
    if not cells:
        return []
    if run.load_axes:
        pairs = [
            ("load-produce", "Produce latency over load", PRODUCE_P50, PRODUCE_P99),
            ("load-e2e", "End-to-end latency over load", E2E_P50, E2E_P99),
        ]
        return [
            figure
            for name, title, p50, p99 in pairs
            if (figure := _load_latency(run, name, title, p50, p99)) is not None
        ]
    return _dot_figures(cells)


def _load_latency(run: Run, name: str, title: str, p50: Measure, p99: Measure) -> Figure | None:
    """One view for each percentile; a point is a cell's median over trials."""
    reached = [v for cell in run.cells for v in values(cell.shown, ACHIEVED)]
    measured = [v for cell in run.cells for m in (p50, p99) for v in values(cell.shown, m)]
    if not measured:
        return None
    x, y = axes.linear("achieved, records/s", "/s", reached), axes.logarithmic("latency, ms", "ms", measured)
    views, finding = [], ""
    for measure in (p99, p50):
        lines = [
            Drawn(
                curve,
                curve,
                _load_points(cells, measure, sound=True),
                crosses=_load_points(cells, measure, sound=False),
            )
            for curve, cells in run.curves.items()
        ]
        finding = finding or _load_finding(run, measure)
        panels = comparison_panels(f"{name}-{measure.title}", f"{title}, {measure.title}", finding, lines, x, y)
        views.append(View(measure.title, panels))
    rows = [
        [
            label,
            whole(c.offered_per_s or 0),
            *(_median(c, m) for m in (ACHIEVED, p50, p99)),
            f"{len(c.valid)} of {len(c.planned)}",
        ]
        for label, cells in run.curves.items()
        for c in cells
    ]
    return Figure(
        name,
        title,
        finding,
        views,
        Table(["cells", "offered /s", "achieved /s", "p50 ms", "p99 ms", "valid trials"], rows),
        comparison_legend(lines),
        note="Each point is the median of a cell's valid trials; a cross is a load that no valid trial carried.",
        layout="many" if len(lines) > MOST_SERIES else "half",
    )


def _load_points(cells: Sequence[Cell], measure: Measure, sound: bool) -> list[Point]:
    spreads = [(c.spread(ACHIEVED), c.spread(measure)) for c in cells if c.sound is sound]
    return [Point(x.median, y.median) for x, y in spreads if x is not None and y is not None]


def _load_finding(run: Run, measure: Measure) -> str:
    parts = []
    for name, cells in run.curves.items():
        ends = [(c.offered_per_s or 0.0, s.median) for c in cells if c.sound and (s := c.spread(measure)) is not None]
        if len(ends) > 1:
            (low, at_low), (high, at_high) = ends[0], ends[-1]
            parts.append(
                f"{name}: {measure.text(at_low)} at {whole(low)}/s offered, {measure.text(at_high)} at {whole(high)}/s"
            )
    return f"{measure.title}. " + "; ".join(parts) + "." if parts else f"{measure.title} at each offered load."


_DOTS_NOTE: Final = "A mark is a trial, the line their median; a cross is a trial that is not valid."


def _dot_figures(cells: Sequence[Cell]) -> list[Figure]:
    """Every trial as a dot: what was carried, what it cost, how long it took."""
    specs: list[tuple[str, str, str, Sequence[Measure]]] = [
        ("dots-throughput", "Throughput", "records acknowledged per second", [ACHIEVED]),
        ("dots-cpu", "Broker CPU", "cores in use", [SYSTEM_CPU]),
        ("dots-produce", "Produce latency", "ms, logarithmic", [PRODUCE_P50, PRODUCE_P99]),
        ("dots-e2e", "End-to-end latency", "ms, logarithmic", [E2E_P50, E2E_P99]),
    ]
    return [figure for spec in specs if (figure := _dots(cells, *spec)) is not None]


def _dots(cells: Sequence[Cell], name: str, title: str, label: str, measures: Sequence[Measure]) -> Figure | None:
    measured = [v for c in cells for m in measures for v in values(c.trials, m)]
    if not measured:
        return None
    unit = measures[0].unit
    x = axes.logarithmic(label, unit, measured) if unit == "ms" else axes.linear(label, unit, measured)
    rows = [DotRow(c.caption, [_dot_group(c, slot, m) for slot, m in enumerate(measures, start=1)]) for c in cells]
    finding = _medians_finding(cells, measures[-1])
    legend = [LegendItem(i, m.title, swatch(i, solid=True, line=False)) for i, m in enumerate(measures, start=1)]
    return Figure(
        name,
        title,
        finding,
        [View("", [Panel("", dot_panel(name, f"{title} of every trial", finding, rows, x))])],
        _dots_table(cells, measures),
        legend if len(legend) > 1 else [],
        note=_DOTS_NOTE,
    )


def _dot_group(cell: Cell, slot: int, measure: Measure) -> DotGroup:
    dots = []
    for trial in (t.summary for t in cell.trials):
        if (value := measure.value(trial)) is not None:
            state = trial.verdict.state
            name = f"{cell.label}, trial {trial.trial}: {measure.title} {measure.text(value)} ({state})"
            dots.append(Dot(value, name, state == "valid"))
    spread = cell.spread(measure)
    return DotGroup(slot, measure.title, dots, spread.median if spread else None)


def _medians_finding(cells: Sequence[Cell], measure: Measure) -> str:
    ranked = sorted(
        ((s.median, c.label) for c in cells if c.sound and (s := c.spread(measure)) is not None),
        key=lambda pair: pair[0],
        reverse=measure.better == "higher",
    )
    if not ranked:
        return "No cell has a valid trial with this figure."
    (first, first_label), (last, last_label) = ranked[0], ranked[-1]
    one, other = measure.text(first), measure.text(last)
    if len(ranked) == 1:
        return f"{measure.name} of {first_label}: median {one}."
    if abs(first - last) < 0.01 * max(first, last):
        return f"{measure.name}: the medians of all cells lie within 1 % of each other, at about {one}."
    word, opposite = ("highest", "lowest") if measure.better == "higher" else ("lowest", "highest")
    return f"{measure.name}, medians of valid trials: {word} {one} ({first_label}), {opposite} {other} ({last_label})."


def _dots_table(cells: Sequence[Cell], measures: Sequence[Measure]) -> Table:
    rows = [
        [cell.label, str(t.summary.trial), *(_text(m.value(t.summary)) for m in measures), t.summary.verdict.state]
        for cell in cells
        for t in cell.trials
    ]
    return Table(["cell", "trial", *(f"{m.title}, {m.unit}" for m in measures), "verdict"], rows)


def spectrum_figures(run: Run) -> list[Figure]:
    """HdrHistogram's percentile plot for produce and for end to end, as far out as enough samples remain."""
    specs: list[tuple[str, str, Metric, Measure, Callable[[TrialSummary], Latency | None]]] = [
        ("spectrum-produce", "Produce latency by percentile", "produce_response", PRODUCE_P99, produce_latency),
        ("spectrum-e2e", "End-to-end latency by percentile", "e2e_response", E2E_P99, e2e_latency),
    ]
    return [figure for spec in specs if (figure := _spectrum(run, *spec)) is not None]


def _spectrum(
    run: Run, name: str, title: str, metric: Metric, measure: Measure, latency: Callable[[TrialSummary], Latency | None]
) -> Figure | None:
    lines: list[Drawn] = []
    shown: list[tuple[Cell, TrialResult]] = []
    for cell in run.cells:
        middle = cell.typical(measure)
        if middle is None or not (main := _spectrum_points(middle, metric)):
            continue
        others = [t for t in cell.shown if t is not middle and measure.value(t.summary) is not None]
        lines.append(Drawn(cell.caption, cell.short, main, [_spectrum_points(t, metric) for t in others]))
        shown.append((cell, middle))
    if not lines:
        return None
    every = [p for line in lines for points in (line.main, *line.thin) for p in points]
    x = axes.percentile("percentile of records", max(p.x for p in every))
    heights = [p.y for p in every if p.y is not None]
    finding = _medians_finding([cell for cell, _ in shown], measure)
    scales = [
        ("linear", axes.linear("latency, ms", "ms", heights)),
        ("logarithmic", axes.logarithmic("latency, ms", "ms", heights)),
    ]
    if len(lines) > MOST_SERIES:
        scales.reverse()  # among many cells one slow one would press all others flat
    views = [View(word, comparison_panels(f"{name}-{word}", title, finding, lines, x, y)) for word, y in scales]
    return Figure(
        name,
        title,
        finding,
        views,
        _spectrum_table(shown, latency),
        comparison_legend(lines),
        note="Thick: the trial with the median p99. Thin: the other trials. "
        f"A curve ends where fewer than {FEWEST_SAMPLES_ABOVE} samples lie beyond.",
        layout="many" if len(lines) > MOST_SERIES else "half",
    )


def _spectrum_points(trial: TrialResult, metric: Metric) -> list[Point]:
    spectrum = trial.spectrum(metric)
    total = spectrum[-1].total_count if spectrum else 0
    return [
        Point(point.percentile, point.value_ns / NS_PER_MS)
        for point in spectrum
        if point.percentile < 100 and total * (1 - point.percentile / 100) >= FEWEST_SAMPLES_ABOVE
    ]


_LEVELS = (("50", "p50"), ("90", "p90"), ("99", "p99"), ("99.9", "p999"), ("99.99", "p9999"), ("100 (largest)", "max"))


def _spectrum_table(
    shown: Sequence[tuple[Cell, TrialResult]], latency: Callable[[TrialSummary], Latency | None]
) -> Table:
    found = [
        (cell, summary, value) for cell, trial in shown if (value := latency(summary := trial.summary)) is not None
    ]
    rows = [[level, *(significant(getattr(v, key) / NS_PER_MS) for _, _, v in found)] for level, key in _LEVELS]
    rows.append(["samples", *(whole(v.count) for _, _, v in found)])
    header = ["percentile", *(f"{cell.label}, trial {summary.trial}, ms" for cell, summary, _ in found)]
    return Table(header, rows, "The trials drawn thick.")


def _median(cell: Cell, measure: Measure) -> str:
    spread = cell.spread(measure)
    return measure.figure(spread.median) if spread else NONE


def _text(value: float | None) -> str:
    return NONE if value is None else significant(value)
