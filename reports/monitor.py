"""What a monitor saw of the cluster during the run: traffic, lag, in-sync replicas, hosts, events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from highwater.common.units import significant
from highwater.drawing import axes
from highwater.drawing.close_together import close_together
from highwater.drawing.downsample import Point
from highwater.drawing.plot import HALF, MOST_SERIES, Band, Mark, Series, line_panel, swatch
from highwater.drawing.quantity import as_sentence, drawn_unit
from highwater.reports.blocks import Block, Column, Figure, Figures, LegendItem, Panel, Paragraph, View, table
from highwater.reports.cells import Run
from highwater.results.monitor import MonitorEvent, MonitorLine, MonitorWindow

_MOST_MARKS: Final = 20
_MOST_EVENTS: Final = 200
_SECTION: Final = "#monitor"


def monitor_blocks(run: Run) -> list[Block]:
    window = run.result.monitor()
    if window is None:
        return []
    marks = _marks(window)
    bands = _trials(run)
    by_metric: dict[tuple[str, str], list[MonitorLine]] = {}
    for line in window.lines:
        by_metric.setdefault((line.kind, line.metric), []).append(line)
    quiet = [lines for lines in by_metric.values() if not any(value for line in lines for value in line.values)]
    figures = [
        _figure(f"monitor-{number}", lines, window, bands, marks)
        for number, lines in enumerate(by_metric.values(), start=1)
        if lines not in quiet
    ]
    zeros = ", ".join(f"{lines[0].kind}: {lines[0].meaning}" for lines in quiet)
    shown = f"From the history of the monitor of {window.cluster} ({window.history}). Shaded: the trials."
    left_out = [Paragraph(as_sentence(text), "note") for text in window.left_out]
    always = [Paragraph(f"0 all the time: {zeros}.", "note")] if zeros else []
    return [Paragraph(shown), *left_out, Figures(figures), *always, *_event_blocks(window)]


def _figure(
    name: str, lines: Sequence[MonitorLine], window: MonitorWindow, bands: Sequence[Band], marks: Sequence[Mark]
) -> Figure:
    first = lines[0]
    known = [value for line in lines for value in line.values if value is not None]
    unit, divisor = drawn_unit(first.unit, max(known, default=0.0))
    title = f"{first.kind.capitalize()}: {first.meaning}"
    x = axes.clock(window.from_ms / 1000, window.to_ms / 1000)
    y = axes.linear(unit or "count", unit, [value / divisor for value in known], 5)
    parts = [lines[begin : begin + MOST_SERIES] for begin in range(0, len(lines), MOST_SERIES)]
    largest = max(lines, key=lambda line: max((value for value in line.values if value is not None), default=0.0))
    top = max((value for value in largest.values if value is not None), default=0.0) / divisor
    finding = f"At most {_amount(top, unit)} ({first.kind} {largest.name})."
    panels = []
    for number, part in enumerate(parts, start=1):
        series = [
            Series(slot, line.name, _points(line, divisor), solid=len(part) == 1)
            for slot, line in enumerate(part, start=1)
        ]
        drawing = line_panel(
            f"{name}-{number}", title, finding, series, x, y, HALF, bands, marks=marks, end_labels=len(parts) > 1
        )
        panels.append(Panel(", ".join(line.name for line in part) if len(parts) > 1 else "", drawing))
    rows = [[line.name, *_summary(line, divisor)] for line in lines]
    legend = [
        LegendItem(slot, line.name, swatch(slot, solid=False, line=True)) for slot, line in enumerate(lines, start=1)
    ]
    return Figure(
        name,
        title,
        finding,
        [View("", panels)],
        table([first.kind, *(f"{each}, {unit or 'count'}" for each in ("least", "mean", "most"))], rows),
        legend if 1 < len(lines) <= MOST_SERIES else [],
    )


def _points(line: MonitorLine, divisor: float) -> list[Point]:
    return [
        Point(at_ms / 1000, None if value is None else value / divisor)
        for at_ms, value in zip(line.at_ms, line.values, strict=True)
    ]


def _summary(line: MonitorLine, divisor: float) -> list[str]:
    known = [value / divisor for value in line.values if value is not None]
    return [significant(each) for each in (min(known), sum(known) / len(known), max(known))]


def _amount(value: float, unit: str) -> str:
    return f"{significant(value)}{unit}" if unit.startswith("/") else f"{significant(value)} {unit}".rstrip()


def _trials(run: Run) -> list[Band]:
    """Return a band for each trial, from its start to the end of its last phase; phases begin a little later."""
    bands = []
    for trial in run.result.trials:
        summary = trial.summary
        start_s = datetime.fromisoformat(summary.started_utc).timestamp()
        bands.append(Band(summary.trial_id, start_s, start_s + max(phase.end_s for phase in summary.phases)))
    return bands


# -- Events ------------------------------------------------------------------------------------------------------------


def _groups(window: MonitorWindow) -> list[list[MonitorEvent]]:
    return close_together(window.events, lambda event: event.at_ms, window.to_ms - window.from_ms, _MOST_MARKS)


def _marks(window: MonitorWindow) -> list[Mark]:
    found = []
    for number, group in enumerate(_groups(window), start=1):
        kinds = Counter(event.kind.replace("_", " ") for event in group)
        words = ", ".join(f"{kind} ×{many}" for kind, many in kinds.most_common())
        text = group[0].text if len(group) == 1 else words
        found.append(Mark(group[0].at_ms / 1000, str(number), f"{_clock(group[0].at_ms)}: {text}", _SECTION))
    return found


def _event_blocks(window: MonitorWindow) -> list[Block]:
    rows = [
        [str(number), _clock(event.at_ms), event.text]
        for number, group in enumerate(_groups(window), start=1)
        for event in group
    ]
    if not rows:
        return [Paragraph("The monitor saw no event in this time.", "note")]
    note = f"The first {_MOST_EVENTS} of {len(rows)}." if len(rows) > _MOST_EVENTS else ""
    columns = [Column("mark"), Column("time, UTC", text=True), Column("what happened", text=True, prose=True)]
    return [table(columns, rows[:_MOST_EVENTS], "Events that the monitor saw", note)]


def _clock(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"
