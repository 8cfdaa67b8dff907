"""The charts over time: throughput, latency and host use, one small panel per cell on axes that all panels share."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.results import HostSample, TrialResult, TrialSummary, Window
from reports import axes
from reports.cells import Cell, Run
from reports.figures import Figure, Layout, LegendItem, Panel, Table, View
from reports.measures import ACHIEVED, E2E_P99, PRODUCE_P99, Measure
from reports.plot import SMALL, WIDE, Band, Point, Series, line_panel, swatch
from reports.quantity import BYTES_PER_MIB, NONE, NS_PER_MS, significant, whole

_MOST_TABLE_ROWS = 30


class _Sample(NamedTuple):
    """One second of one trial; `values` has one entry per quantity of the chart."""

    second: int
    measured: bool
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class _Timeline:
    """What one chart over time shows: quantities by name, and how to read them from a trial."""

    name: str
    title: str
    axis_label: str
    unit: str
    quantities: Sequence[str]
    samples: Callable[[TrialResult], list[_Sample]]
    typical_by: Measure
    log: bool = False
    worst: str = "highest"
    show: Callable[[float], str] = significant

    def text(self, value: float) -> str:
        return f"{self.show(value)}{'' if self.unit.startswith('/') else ' '}{self.unit}"


def timeline_figures(run: Run) -> list[Figure]:
    """Throughput, then produce and end-to-end latency, second by second."""
    timelines = [
        _Timeline(
            "time-throughput",
            "Throughput over time",
            "records acknowledged in each second",
            "/s",
            ["acknowledged"],
            lambda t: _from_windows(t, lambda w: (float(w.acked),)),
            ACHIEVED,
            worst="lowest",
            show=whole,
        ),
        _Timeline(
            "time-produce",
            "Produce latency over time",
            "ms, by the second of the intended send",
            "ms",
            ["p50", "p99"],
            lambda t: _from_windows(t, lambda w: (_ms(w.produce_p50_ns), _ms(w.produce_p99_ns))),
            PRODUCE_P99,
            log=True,
        ),
        _Timeline(
            "time-e2e",
            "End-to-end latency over time",
            "ms, by the second of the intended send",
            "ms",
            ["p50", "p99"],
            lambda t: _from_windows(t, lambda w: (_ms(w.e2e_p50_ns), _ms(w.e2e_p99_ns))),
            E2E_P99,
            log=True,
        ),
    ]
    return [figure for t in timelines if (figure := _figure(run, t)) is not None]


def host_figures(run: Run) -> list[Figure]:
    """What the host did meanwhile, for the quantities it could tell."""

    def timeline(name: str, title: str, label: str, unit: str, read: Callable[[HostSample], float | None]) -> _Timeline:
        return _Timeline(name, title, label, unit, [title], lambda t: _from_host(t, read), ACHIEVED)

    timelines = [
        timeline("host-cpu", "Broker CPU", "cores in use", "cores", lambda s: s.system_cpu_ratio),
        timeline("host-disk", "Disk writes", "MiB written in each second", "MiB/s", lambda s: _mib(s.disk_write_bytes)),
        timeline("host-dirty", "Dirty page cache", "MiB not yet on disk", "MiB", lambda s: _mib(s.dirty_bytes)),
    ]
    return [figure for t in timelines if (figure := _figure(run, t)) is not None]


def _from_windows(trial: TrialResult, read: Callable[[Window], tuple[float | None, ...]]) -> list[_Sample]:
    """Warm-up and measured phase; what trickles in while draining is no throughput and no latency of the load."""
    return [_Sample(w.second, w.phase == "measure", read(w)) for w in trial.windows() if w.phase != "drain"]


def _from_host(trial: TrialResult, read: Callable[[HostSample], float | None]) -> list[_Sample]:
    start_s, end_s = _measured(trial.summary)
    return [
        _Sample(s.second, start_s <= s.second < end_s, (read(s),)) for s in trial.host_samples() if s.second < end_s
    ]


def _measured(summary: TrialSummary) -> tuple[float, float]:
    phase = next(p for p in summary.phases if p.name == "measure")
    return phase.start_s, phase.end_s


def _ms(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / NS_PER_MS


def _mib(value_bytes: int | None) -> float | None:
    return None if value_bytes is None else value_bytes / BYTES_PER_MIB


class _CellLines(NamedTuple):
    cell: Cell
    typical: TrialResult
    trials: Sequence[tuple[TrialResult, Sequence[_Sample]]]


def _figure(run: Run, timeline: _Timeline) -> Figure | None:
    found = [lines for cell in run.cells if (lines := _lines(cell, timeline)) is not None]
    known = [v for lines in found for v in _known(lines)]
    if not known:
        return None
    seconds = [s.second for lines in found for _, samples in lines.trials for s in samples]
    x = axes.seconds("seconds since the start", min(seconds), max(seconds))
    make = axes.logarithmic if timeline.log else axes.linear
    y = make(timeline.axis_label, timeline.unit, known)
    finding = _finding(found, timeline)
    layout: Layout = "pairs" if len(found) in (1, 2, 4) else "many"
    size = SMALL if layout == "many" else WIDE
    panels = []
    for index, lines in enumerate(found, start=1):
        title = f"{timeline.title}: {lines.cell.caption}"
        bands = _bands(lines.typical.summary)
        drawing = line_panel(f"{timeline.name}-{index}", title, finding, _series(lines, timeline), x, y, size, bands)
        panels.append(Panel(lines.cell.caption, drawing))
    several = len(timeline.quantities) > 1
    return Figure(
        timeline.name,
        timeline.title,
        finding,
        [View("", panels)],
        _table(found, timeline),
        [LegendItem(i, q, swatch(i, solid=True, line=True)) for i, q in enumerate(timeline.quantities, start=1)]
        if several
        else [],
        note="Thick: one trial, the median one. Thin: the other trials. All panels have the same axes.",
        layout=layout,
    )


def _lines(cell: Cell, timeline: _Timeline) -> _CellLines | None:
    typical = cell.typical(timeline.typical_by)
    if typical is None:
        return None
    trials = [(t, samples) for t in cell.shown if (samples := timeline.samples(t))]
    if not any(v is not None for _, samples in trials for s in samples for v in s.values):
        return None
    drawn = {id(trial) for trial, _ in trials}
    return _CellLines(cell, typical if id(typical) in drawn else trials[0][0], trials)


def _known(lines: _CellLines) -> Iterable[float]:
    return (v for _, samples in lines.trials for s in samples for v in s.values if v is not None)


def _series(lines: _CellLines, timeline: _Timeline) -> list[Series]:
    return [
        Series(
            slot,
            quantity,
            [Point(s.second, s.values[slot - 1]) for s in samples],
            thin=trial is not lines.typical,
            solid=True,
        )
        for trial, samples in lines.trials
        for slot, quantity in enumerate(timeline.quantities, start=1)
    ]


def _bands(summary: TrialSummary) -> list[Band]:
    return [Band("warm-up", p.start_s, p.end_s) for p in summary.phases if p.name == "warmup"]


def _finding(found: Sequence[_CellLines], timeline: _Timeline) -> str:
    """The extreme second of the measured phases, with where to look for it."""
    last = len(timeline.quantities) - 1
    seconds = [
        (value, lines.cell.label, trial.summary.trial, s.second)
        for lines in found
        for trial, samples in lines.trials
        for s in samples
        if s.measured and (value := s.values[last]) is not None
    ]
    if not seconds:
        return "No value was recorded in a measured phase."
    pick = min if timeline.worst == "lowest" else max
    value, label, trial_number, second = pick(seconds, key=lambda item: item[0])
    quantity = f"{timeline.quantities[last]} of one second" if last else "value of one second"
    middle = statistics.median(item[0] for item in seconds)
    where = f"{label}, trial {trial_number}, second {second}"
    extreme, usual = timeline.text(value), timeline.text(middle)
    return f"{timeline.worst.capitalize()} {quantity}: {extreme} ({where}); median of all measured seconds {usual}."


def _table(found: Sequence[_CellLines], timeline: _Timeline) -> Table:
    """The thick lines in as many stretches of time as fit a page: lowest to highest second of each stretch."""
    drawn = [(lines, next(s for t, s in lines.trials if t is lines.typical)) for lines in found]
    first = min(s.second for _, samples in drawn for s in samples)
    last = max(s.second for _, samples in drawn for s in samples)
    step = -(-(last - first + 1) // _MOST_TABLE_ROWS)
    header = ["second" if step == 1 else "seconds"]
    header += [
        f"{lines.cell.label}{f', {q}' if len(timeline.quantities) > 1 else ''}, {timeline.unit}"
        for lines, _ in drawn
        for q in timeline.quantities
    ]
    rows = []
    for start in range(first, last + 1, step):
        row = [str(start) if step == 1 else f"{start}–{min(start + step - 1, last)}"]
        for _, samples in drawn:
            inside = [s.values for s in samples if start <= s.second < start + step]
            row += [_range([v[i] for v in inside], timeline.show) for i in range(len(timeline.quantities))]
        rows.append(row)
    note = "One trial per cell, the one drawn thick." + ("" if step == 1 else " Lowest–highest second of each stretch.")
    return Table(header, rows, note)


def _range(values: Sequence[float | None], show: Callable[[float], str]) -> str:
    known = [v for v in values if v is not None]
    if not known:
        return NONE
    low, high = show(min(known)), show(max(known))
    return low if low == high else f"{low}–{high}"
