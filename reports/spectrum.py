"""HdrHistogram's percentile plot of produce and end-to-end latency, up to where samples are too few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from highwater.common.units import count_text, significant
from highwater.drawing import axes
from highwater.drawing.downsample import Point
from highwater.drawing.plot import MOST_SERIES
from highwater.drawing.quantity import NS_PER_MS
from highwater.reports.blocks import Figure, Table, View, table
from highwater.reports.cells import Cell, Run
from highwater.reports.charts import Drawn, comparison_legend, comparison_panels
from highwater.reports.intervals import medians_finding
from highwater.reports.measures import (
    E2E_P99,
    FEWEST_SAMPLES_ABOVE,
    PRODUCE_P99,
    Measure,
    e2e_latency,
    produce_latency,
)
from highwater.results.models import Latency, Metric, TrialSummary
from highwater.results.reader import TrialResult


def spectrum_figures(run: Run) -> list[Figure]:
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
        if middle is None or not (main := spectrum_points(middle, metric)):
            continue
        others = [t for t in cell.shown if t is not middle and measure.value(t.summary) is not None]
        lines.append(Drawn(cell.caption, cell.short, main, [spectrum_points(t, metric) for t in others]))
        shown.append((cell, middle))
    if not lines:
        return None
    every = [p for line in lines for points in (line.main, *line.thin) for p in points]
    x = axes.percentile("percentile of records", max(p.x for p in every))
    heights = [p.y for p in every if p.y is not None]
    finding = medians_finding([cell for cell, _ in shown], measure)
    scales = [
        ("linear", axes.linear("latency, ms", "ms", heights)),
        ("logarithmic", axes.logarithmic("latency, ms", "ms", heights)),
    ]
    if len(lines) > MOST_SERIES:
        scales.reverse()  # with many cells, one slow cell would flatten all others
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


def spectrum_points(trial: TrialResult, metric: Metric) -> list[Point]:
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
    rows.append(["samples", *(count_text(v.count) for _, _, v in found)])
    header = ["percentile", *(f"{cell.label}, trial {summary.trial}, ms" for cell, summary, _ in found)]
    return table(header, rows, note="The trials drawn thick.")
