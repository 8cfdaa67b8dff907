"""Charts over time: throughput, latency and lag, one panel per cell with the same axes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from highwater.common.units import NONE, count_text, significant
from highwater.drawing import axes
from highwater.drawing.downsample import Point
from highwater.drawing.plot import SMALL, WIDE, Area, Band, Level, Series, line_panel, swatch
from highwater.drawing.quantity import NS_PER_MS
from highwater.reports.blocks import Figure, Layout, LegendItem, Panel, Table, View, table
from highwater.reports.cells import Cell, Run
from highwater.reports.measures import ACHIEVED, E2E_P99, PRODUCE_P99, Measure
from highwater.results.models import TrialSummary, Window
from highwater.results.reader import TrialResult

_MOST_TABLE_ROWS: Final = 30
_MOST_EVENTS: Final = 12


class Sample(NamedTuple):
    """One second of one trial; `values` has one entry per quantity of the chart."""

    second: int
    measured: bool
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Timeline:
    """One chart over time: its quantities, and how to read them from a trial."""

    name: str
    title: str
    axis_label: str
    unit: str
    quantities: Sequence[str]
    samples: Callable[[TrialResult], list[Sample]]
    typical_by: Measure
    log: bool = False
    shaded: bool = False
    """Fill the area between the first and the last quantity."""
    others: bool = True
    """Draw the other trials as thin lines behind the typical one."""
    judged: int = -1
    """The quantity whose extreme value is in the finding."""
    worst: str = "highest"
    show: Callable[[float], str] = significant
    slots: Sequence[int] = (1, 2, 3, 4)
    small: bool = False

    def text(self, value: float) -> str:
        return f"{self.show(value)}{'' if self.unit.startswith('/') else ' '}{self.unit}"


def timeline_figures(run: Run) -> list[Figure]:
    """Throughput, produce and end-to-end latency, lag, second by second."""
    timelines = [
        Timeline(
            "time-throughput",
            "Throughput over time",
            "records in each second",
            "/s",
            ["acknowledged", "offered"],
            lambda t: _from_windows(t, lambda w: (float(w.acked), _offered(t, w))),
            ACHIEVED,
            judged=0,
            worst="lowest",
            show=count_text,
            slots=(1, 0),
        ),
        Timeline(
            "time-produce",
            "Produce latency over time",
            "ms, by the second of the intended send",
            "ms",
            ["p50", "p99"],
            lambda t: _from_windows(t, lambda w: (ms(w.produce_p50_ns), ms(w.produce_p99_ns))),
            PRODUCE_P99,
            log=True,
            shaded=True,
        ),
        Timeline(
            "time-e2e",
            "End-to-end latency over time",
            "ms, by the second of the intended send",
            "ms",
            ["p50", "p99"],
            lambda t: _from_windows(t, lambda w: (ms(w.e2e_p50_ns), ms(w.e2e_p99_ns))),
            E2E_P99,
            log=True,
            shaded=True,
        ),
        Timeline(
            "time-lag",
            "Consumer lag over time",
            "records acknowledged and not yet received",
            "records",
            ["lag"],
            lambda t: _from_windows(t, lambda w: (None if w.lag is None else float(w.lag),), with_drain=True),
            E2E_P99,
            show=count_text,
        ),
    ]
    return [figure for t in timelines if (figure := time_figure(run, t)) is not None]


def _from_windows(
    trial: TrialResult, read: Callable[[Window], tuple[float | None, ...]], with_drain: bool = False
) -> list[Sample]:
    """Samples of warm-up and measured phase; the drain is not part of the load."""
    return [
        Sample(w.second, w.phase == "measure", read(w)) for w in trial.windows() if with_drain or w.phase != "drain"
    ]


def _offered(trial: TrialResult, window: Window) -> float | None:
    """None in a closed loop, which has no offered rate."""
    return None if trial.summary.offered_per_s is None else float(window.offered)


def ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / NS_PER_MS


class _CellLines(NamedTuple):
    cell: Cell
    typical: TrialResult
    trials: Sequence[tuple[TrialResult, Sequence[Sample]]]


def time_figure(run: Run, timeline: Timeline) -> Figure | None:
    found = [lines for cell in run.cells if (lines := _lines(cell, timeline)) is not None]
    known = [v for lines in found for v in _known(lines)]
    if not known:
        return None
    known_quantities = _quantities(found, timeline)
    seconds = [s.second for lines in found for _, samples in lines.trials for s in samples]
    x = axes.seconds("seconds since the start", min(seconds), max(seconds))
    make = axes.logarithmic if timeline.log else axes.linear
    y = make(timeline.axis_label, timeline.unit, known)
    finding = _finding(found, timeline)
    layout: Layout = "half" if len(found) == 1 else "pairs" if len(found) in (2, 4) and not timeline.small else "many"
    size = SMALL if layout == "many" else WIDE
    panels = []
    for index, lines in enumerate(found, start=1):
        drawing = line_panel(
            f"{timeline.name}-{index}",
            f"{timeline.title}: {lines.cell.caption}",
            finding,
            _series(lines, timeline, known_quantities),
            x,
            y,
            size,
            bands=_bands(lines.typical.summary),
            areas=_areas(lines, timeline),
            moments=_moments(lines.typical),
        )
        panels.append(Panel(lines.cell.caption, drawing))
    others = timeline.others and any(len(lines.trials) > 1 for lines in found)
    drawn = "Thick: one trial, the median one. Thin: the other trials." if others else "One trial, the median one."
    note = f"{drawn} All panels have the same axes." if len(found) > 1 else drawn
    return Figure(
        timeline.name,
        timeline.title,
        finding,
        [View("", panels)],
        _table(found, timeline, known_quantities),
        [LegendItem(slot, q, swatch(slot, solid=True, line=True)) for _, slot, q in known_quantities]
        if len(timeline.quantities) > 1
        else [],
        note=note,
        layout=layout,
    )


def _quantities(found: Sequence[_CellLines], timeline: Timeline) -> list[tuple[int, int, str]]:
    """Index, slot and name of the quantities that have values."""
    return [
        (i, timeline.slots[i], name)
        for i, name in enumerate(timeline.quantities)
        if any(s.values[i] is not None for lines in found for _, samples in lines.trials for s in samples)
    ]


def _lines(cell: Cell, timeline: Timeline) -> _CellLines | None:
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


def _series(lines: _CellLines, timeline: Timeline, quantities: Sequence[tuple[int, int, str]]) -> list[Series]:
    return [
        Series(
            slot,
            quantity,
            [Point(s.second, s.values[index]) for s in samples],
            thin=trial is not lines.typical,
            solid=slot != 0,
        )
        for trial, samples in lines.trials
        if timeline.others or trial is lines.typical
        for index, slot, quantity in quantities
    ]


def _areas(lines: _CellLines, timeline: Timeline) -> list[Area]:
    if not timeline.shaded:
        return []
    samples = next(samples for trial, samples in lines.trials if trial is lines.typical)
    low, high = ([Point(s.second, s.values[i]) for s in samples] for i in (0, -1))
    return [Area(timeline.slots[0], low, high)]


_PHASE_NAMES: Final = {"warmup": "warm-up", "drain": "drain"}


def _bands(summary: TrialSummary) -> list[Band]:
    """The phases that were not measured, and the time that a fault kept a broker away."""
    phases = [Band(_PHASE_NAMES[p.name], p.start_s, p.end_s) for p in summary.phases if p.name in _PHASE_NAMES]
    end_s = max(p.end_s for p in summary.phases if p.name == "measure")
    faults = summary.recovery.faults if summary.recovery else []
    return phases + [Band(f"{f.do} {f.node}", f.at_s, end_s if f.back_s is None else f.back_s) for f in faults]


def _moments(trial: TrialResult) -> list[Level]:
    """The trial's events, without phases, which are bands."""
    return [Level(event.kind, event.at_s) for event in trial.events() if event.kind != "phase"][:_MOST_EVENTS]


def _finding(found: Sequence[_CellLines], timeline: Timeline) -> str:
    """The most extreme second of the measured phases, with cell, trial and second."""
    judged = timeline.judged % len(timeline.quantities)
    seconds = [
        (value, lines.cell.label, trial.summary.trial, s.second)
        for lines in found
        for trial, samples in lines.trials
        for s in samples
        if s.measured and (value := s.values[judged]) is not None
    ]
    if not seconds:
        return "No value was recorded in a measured phase."
    pick = min if timeline.worst == "lowest" else max
    value, label, trial_number, second = pick(seconds, key=lambda item: item[0])
    several = len(timeline.quantities) > 1
    quantity = f"{timeline.quantities[judged]} of one second" if several else "value of one second"
    middle = statistics.median(item[0] for item in seconds)
    where = f"{label}, trial {trial_number}, second {second}"
    extreme, usual = timeline.text(value), timeline.text(middle)
    return f"{timeline.worst.capitalize()} {quantity}: {extreme} ({where}); median of all measured seconds {usual}."


def _table(found: Sequence[_CellLines], timeline: Timeline, quantities: Sequence[tuple[int, int, str]]) -> Table:
    """The thick lines as a table; each row covers some seconds and has their lowest and highest value."""
    drawn = [(lines, next(s for t, s in lines.trials if t is lines.typical)) for lines in found]
    first = min(s.second for _, samples in drawn for s in samples)
    last = max(s.second for _, samples in drawn for s in samples)
    step = -(-(last - first + 1) // _MOST_TABLE_ROWS)
    header = ["second" if step == 1 else "seconds"]
    header += [
        f"{lines.cell.label}{f', {name}' if len(quantities) > 1 else ''}, {timeline.unit}"
        for lines, _ in drawn
        for _, _, name in quantities
    ]
    rows = []
    for start in range(first, last + 1, step):
        row = [str(start) if step == 1 else f"{start}–{min(start + step - 1, last)}"]
        for _, samples in drawn:
            inside = [s.values for s in samples if start <= s.second < start + step]
            row += [_range([v[i] for v in inside], timeline.show) for i, _, _ in quantities]
        rows.append(row)
    note = "One trial per cell, the one drawn thick." + ("" if step == 1 else " Lowest–highest second of each stretch.")
    return table(header, rows, note=note)


def _range(values: Sequence[float | None], show: Callable[[float], str]) -> str:
    known = [v for v in values if v is not None]
    if not known:
        return NONE
    low, high = show(min(known)), show(max(known))
    return low if low == high else f"{low}–{high}"
