"""The picture of a run: its charts above each other on one time axis, and how it stands in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from markupsafe import Markup

from highwater.common.live_figures import Chart
from highwater.common.units import count_text, rate_text, significant, size_text, wait_text
from highwater.drawing import axes
from highwater.drawing.axes import Axis
from highwater.drawing.plot import Band, Series, Size, line_panel, room_for, swatch
from highwater.drawing.quantity import drawn_unit
from highwater.reports.page import csp_hash, style, templates
from highwater.reports.watch.standing import Standing

_ASSETS: Final = Path(__file__).parent
_TEMPLATES: Final = templates(_ASSETS)
WIDE: Final = Size(1160, 102)
NARROW: Final = Size(350, 96)
_BELOW: Final = 30
_ROOM_FOR_NAMES: Final = 14
_SHORTEST_S: Final = 30.0
_SILENT_FROM_S: Final = 15.0
_LETTER: Final = 6.4

State = Literal["running", "finished", "died"]
_TONES: Final[dict[State, str]] = {"running": "", "finished": "good", "died": "bad"}


@dataclass(frozen=True)
class _Legend:
    name: str
    newest: str
    swatch: Markup


@dataclass(frozen=True)
class _Panel:
    title: str
    legend: Sequence[_Legend]
    drawing: Markup


def shell() -> str:
    """The page, which asks for the picture every second and loads nothing from elsewhere."""
    look = style() + (_ASSETS / "watch.css").read_text("utf-8")
    script = (_ASSETS / "watch.js").read_text("utf-8")
    policy = (
        f"default-src 'none'; script-src '{csp_hash(script)}'; style-src '{csp_hash(look)}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'"
    )
    return _TEMPLATES.get_template("watch.html.j2").render(policy=policy, style=Markup(look), script=Markup(script))


def picture(standing: Standing, state: State, now_s: float, size: Size) -> str:
    """What the page shows now, as HTML."""
    silent_s = now_s - standing.last_s if state == "running" else 0.0
    return _TEMPLATES.get_template("picture.html.j2").render(
        title=standing.title,
        tone=_TONES[state],
        answer=sentence(standing, state, now_s),
        again=standing.again if state == "died" else "",
        silence=f"The run has written nothing for {wait_text(silent_s)}." if silent_s > _SILENT_FROM_S else "",
        stretch=f"Each point is {wait_text(standing.stretch_s)}." if standing.stretch_s > 1 else "",
        panels=_panels(standing, now_s if state == "running" else standing.last_s, size),
    )


def sentence(standing: Standing, state: State, now_s: float) -> str:
    """How the run stands."""
    if state == "running":
        return standing.words or "The run begins."
    if state == "finished":
        return standing.finished or ""
    at = datetime.fromtimestamp(standing.last_s, UTC)
    ago = wait_text(max(0.0, now_s - standing.last_s))
    stood = f" Before: {standing.words.partition('; about')[0].rstrip('.')}." if standing.words else ""
    return f"The run died {ago} ago: its process ended after {at:%H:%M:%S} UTC, before the run was over.{stood}"


def _panels(standing: Standing, end_s: float, size: Size) -> list[_Panel]:
    drawn = [(chart, lines) for chart in standing.charts if (lines := _lines(standing, chart))]
    if not drawn:
        return []
    x = axes.clock(standing.start_s, max(end_s, standing.start_s + _SHORTEST_S))
    plain_x = replace(x, label="", ticks=tuple((at, "") for at, _ in x.ticks))
    scales = [_scale(chart, lines) for chart, lines in drawn]
    left = max(room_for(y) for y, _ in scales)
    panels = []
    for number, ((chart, lines), (y, divisor)) in enumerate(zip(drawn, scales, strict=True)):
        is_first, is_last = number == 0, number == len(drawn) - 1
        series = [
            replace(s, points=[p._replace(y=p.y / divisor if p.y is not None else None) for p in s.points])
            for s in lines
        ]
        newest = {s.slot: _text(s.points[-1].y or 0.0, chart.unit) for s in lines}
        drawing = line_panel(
            f"live-{chart.name}",
            chart.title,
            "; ".join(f"{s.name} {newest[s.slot]}" for s in series),
            series,
            x if is_last else plain_x,
            y,
            Size(size.width, size.height + (_BELOW if is_last else 0) + (_ROOM_FOR_NAMES if is_first else 0)),
            bands=_named(standing.bands(), x, size.width - left) if is_first else _unnamed(standing.bands()),
            end_labels=False,
            left=left,
        )
        legend = [
            _Legend(s.name, "" if standing.is_between else newest[s.slot], swatch(s.slot, solid=s.solid, line=True))
            for s in series
        ]
        panels.append(_Panel(f"{chart.title}, {y.unit}" if y.unit else chart.title, legend, drawing))
    return panels


def _lines(standing: Standing, chart: Chart) -> list[Series]:
    """The lines that have a figure; the first one is the last drawn, over the others."""
    named = [*enumerate(chart.lines, start=1), *([(0, chart.reference)] if chart.reference else [])]
    found = [(slot, name, standing.points(chart, name)) for slot, name in named]
    return [Series(slot, name, points, solid=slot == 1) for slot, name, points in found if points]


def _scale(chart: Chart, lines: Sequence[Series]) -> tuple[Axis, float]:
    """The axis of a chart, and what its values are divided by."""
    values = [p.y for s in lines for p in s.points if p.y is not None]
    unit, divisor = drawn_unit(chart.unit, max(values))
    scaled = [value / divisor for value in values]
    return (axes.logarithmic("", unit, scaled) if chart.is_log else axes.linear("", unit, scaled, 4)), divisor


def _named(bands: Sequence[Band], x: Axis, width: float) -> list[Band]:
    """Names as short as their bands: the whole one, its first word, or none."""
    named = []
    for band in bands:
        room = int((x.position(band.end) - x.position(band.start)) * width / _LETTER) - 1
        whole, first = band.name, band.name.partition(" ")[0]
        named.append(band._replace(name=whole if len(whole) < room else first if len(first) < room else ""))
    return named


def _unnamed(bands: Sequence[Band]) -> list[Band]:
    return [band._replace(name="") for band in bands]


def _text(value: float, unit: str) -> str:
    match unit:
        case "B/s":
            return f"{size_text(value)}/s"
        case "/s":
            return rate_text(value)
        case "":
            return count_text(value)
    return f"{significant(value)} {unit}"
