"""Line charts and dot plots as SVG: one drawing for each panel, sized in CSS pixels.

A series has a slot from 1 to 4, which sets its colour, its dash pattern and its marker, so that no two series differ by
colour alone. Slot 0 is the grey of a reference. Attributes of the drawing contain the axes and the plot's rectangle,
from which the page's script reads values back. Sizes are CSS pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from markupsafe import Markup

from highwater.common.units import shortened
from highwater.drawing.axes import Axis
from highwater.drawing.downsample import Point, downsampled
from highwater.drawing.svg import coordinate, element

MOST_SERIES: Final = 4
_TEXT_WIDTH: Final = 6.4  # of one character of the 12 px system font, on average
_LINE_HEIGHT: Final = 14.0
_FLAG_HEIGHT: Final = 18.0


class Size(NamedTuple):
    width: int
    height: int


HALF: Final = Size(580, 330)
FULL: Final = Size(1200, 330)
SMALL: Final = Size(384, 190)
WIDE: Final = Size(600, 200)


class Whisker(NamedTuple):
    """An interval of y at one x."""

    x: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    slot: int
    name: str
    points: Sequence[Point]
    thin: bool = False
    solid: bool = False
    markers: bool = False
    short: str = ""
    """The text at the end of the line; if empty, the name."""
    crosses: Sequence[Point] = ()
    """Invalid points, drawn as crosses beside the line."""
    dots: Sequence[Point] = ()
    """The measurements whose medians are the line's points."""
    whiskers: Sequence[Whisker] = ()
    on_right: bool = False
    """Its values belong to the axis at the right."""


class Band(NamedTuple):
    """A range of the x axis with shading and a name."""

    name: str
    start: float
    end: float


class Level(NamedTuple):
    """A value that is drawn as a line across the plot, with a name."""

    name: str
    value: float


class Area(NamedTuple):
    """The area between two lines over the same x, in the pale colour of a slot."""

    slot: int
    low: Sequence[Point]
    high: Sequence[Point]
    on_right: bool = False


class Mark(NamedTuple):
    """Something that happened at one x: a flag above the plot with a line down through it, linked to its words."""

    x: float
    sign: str
    """The text in the flag: two or three characters."""
    words: str
    link: str
    tone: str = ""
    """A class for the flag, such as `bad`."""


class Dot(NamedTuple):
    value: float
    name: str
    sound: bool


class DotGroup(NamedTuple):
    """Measurements of one kind in a row; `interval` belongs to their median."""

    slot: int
    name: str
    dots: Sequence[Dot]
    median: float | None
    interval: tuple[float, float] | None = None


class DotRow(NamedTuple):
    label: str
    groups: Sequence[DotGroup]


@dataclass(frozen=True)
class _Plot:
    """The plot's rectangle within a drawing, and the conversion from values to drawing units."""

    left: float
    top: float
    right: float
    bottom: float
    x: Axis
    y: Axis | None
    right_y: Axis | None = None

    def px(self, value: float) -> float:
        return self.left + self.x.position(value) * (self.right - self.left)

    def py(self, value: float, on_right: bool = False) -> float:
        axis = self.right_y if on_right else self.y
        assert axis is not None
        return self.bottom - axis.position(value) * (self.bottom - self.top)


def line_panel(
    name: str,
    title: str,
    finding: str,
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    size: Size = HALF,
    bands: Sequence[Band] = (),
    areas: Sequence[Area] = (),
    levels: Sequence[Level] = (),
    moments: Sequence[Level] = (),
    marks: Sequence[Mark] = (),
    right_y: Axis | None = None,
    end_labels: bool = True,
    left: float = 0.0,
) -> Markup:
    """A line chart. `name` is unique in the page; screen readers read `title` and `finding`.

    `levels` are values of y, `moments` values of x. `right_y` is a second axis, for the series and areas that say so.
    `left`: at least so much room at the left, for charts above each other on one x axis. An axis without a label needs
    no room for it.
    """
    labelled = [s for s in series if not s.thin and any(p.y is not None for p in s.points)]
    end_labels = end_labels and len({s.name for s in labelled}) > 1
    widest = max((len(_end_label(s)) for s in labelled), default=0) if end_labels else 0
    right_width = 6 + _TEXT_WIDTH * max(len(label) for _, label in right_y.ticks) if right_y else 0.0
    plot = _Plot(
        left=max(left, room_for(y)),
        # Names of bands stand above the plot, where no line is.
        top=(24 if y.label or marks else 10)
        + (_LINE_HEIGHT if any(band.name for band in bands) else 0)
        + (_FLAG_HEIGHT if marks else 0),
        right=size.width - (20 + 1.1 * _TEXT_WIDTH * widest if end_labels else 12) - right_width,
        bottom=size.height - (36 if x.label else 6),
        x=x,
        y=y,
        right_y=right_y,
    )
    drawn = [(s, _in_drawing_units(s.points, plot, 0.3 if s.thin else 1.0, s.on_right)) for s in series]
    parts = [*_bands(bands, plot), *_y_grid(plot), *_right_ticks(plot, size), *_x_ticks(plot, size)]
    parts += [_area(area, plot) for area in areas]
    parts += [part for level in levels for part in _level(level, plot)]
    parts += [_line(s, points) for s, points in drawn if s.thin]
    parts += [_line(s, points) for s, points in drawn if not s.thin]
    parts += [_markers(s, points, last_only=not s.markers) for s, points in drawn if not s.thin]
    parts += [_small_dots(s, plot) for s in series if s.dots]
    parts += [_whiskers(s, plot) for s in series if s.whiskers]
    parts += [_crosses(s, _in_drawing_units(s.crosses, plot)) for s in series if s.crosses]
    parts += [part for moment in moments for part in _moment(moment, plot)]
    parts += [_mark(mark, plot) for mark in marks if x.low <= mark.x <= x.high]
    if end_labels:
        parts += _end_labels([(s, points) for s, points in drawn if s in labelled], plot)
    return _drawing(name, title, finding, parts, plot, size, has_links=bool(marks))


def room_for(y: Axis) -> float:
    """The room that the labels of an axis need at the left."""
    return 14 + _TEXT_WIDTH * max(len(label) for _, label in y.ticks)


def dot_panel(
    name: str,
    title: str,
    finding: str,
    rows: Sequence[DotRow],
    x: Axis,
    width: int = HALF.width,
    bounds: Sequence[Level] = (),
) -> Markup:
    """One row per label with a dot for every measurement, so that readers see the spread."""
    most_trials = max((len(group.dots) for row in rows for group in row.groups), default=0)
    row_height = 28.0 + 3.0 * min(max(most_trials - 3, 0), 6)
    room = int(width * 0.42 / _TEXT_WIDTH)
    labels = [shortened(row.label, room) for row in rows]
    size = Size(width, round((62 if bounds else 48) + row_height * len(rows)))
    plot = _Plot(
        left=16 + _TEXT_WIDTH * max(len(label) for label in labels),
        top=22 if bounds else 8,
        right=width - 6 - max(10.0, _TEXT_WIDTH * len(x.ticks[-1][1]) / 2),
        bottom=size.height - 40,
        x=x,
        y=None,
    )
    parts = _x_ticks(plot, size, grid=True)
    parts += [part for bound in bounds for part in _moment(bound, plot)]
    for index, (row, label) in enumerate(zip(rows, labels, strict=True)):
        middle = plot.top + row_height * (index + 0.5)
        parts.append(element("line", class_="row", x1=plot.left, x2=plot.right, y1=middle, y2=middle))
        full = [element("title", row.label)] if label != row.label else []
        parts.append(element("text", *full, label, class_="end", x=plot.left - 8, y=middle + 4))
        for group in row.groups:
            parts.append(element("g", *_dots(group, plot, middle, row_height), data_s=str(group.slot)))
    return _drawing(name, title, finding, parts, plot, size)


class Bar(NamedTuple):
    x: float
    y: float | None
    """None if it is not known, which is drawn as a dash."""
    tone: str
    """`good`, `warn`, `bad` or empty."""
    words: str


def bar_panel(name: str, title: str, finding: str, bars: Sequence[Bar], x: Axis, y: Axis, size: Size = HALF) -> Markup:
    """A bar from the base for each of `bars`, which are 1 apart in x."""
    plot = _Plot(
        left=room_for(y),
        top=24,
        right=size.width - 12,
        bottom=size.height - 36,
        x=x,
        y=y,
    )
    width = max(1.0, min(40.0, 0.75 * (plot.px(1) - plot.px(0))))
    parts = [*_y_grid(plot), *_x_ticks(plot, size)]
    for bar in bars:
        middle, said = plot.px(bar.x), element("title", bar.words)
        if bar.y is None:
            parts.append(element("text", said, "–", class_="mid", x=middle, y=plot.bottom - 3))
            continue
        top = plot.py(bar.y)
        box = {"x": middle - width / 2, "y": top, "width": width, "height": plot.bottom - top}
        parts.append(element("rect", said, class_=f"bar {bar.tone}".rstrip(), **box))
    return _drawing(name, title, finding, parts, plot, size)


def swatch(slot: int, solid: bool, line: bool) -> Markup:
    """The sample of a series in a legend."""
    parts = [element("path", d="M1 7h30", class_=_line_class(slot, thin=False, solid=solid))] if line else []
    parts.append(element("path", d=_marker(slot, 16, 7), class_=f"m m{slot}"))
    return element("svg", *parts, class_="swatch", width=32, height=14, viewBox="0 0 32 14", aria_hidden="true")


def path_data(points: Iterable[Point]) -> str:
    """The `d` of a path in relative steps of tenths of a unit: long series stay small, rounding does not add up."""
    written: list[str] = []
    before: tuple[int, int] | None = None
    alone = False
    for point in points:
        if point.y is None:
            written.append("h0" if alone else "")
            before, alone = None, False
            continue
        at = round(point.x * 10), round(point.y * 10)
        if before is None:
            written.append(f"M{at[0] / 10:g} {at[1] / 10:g}")
            alone = True
        else:
            written.append(f"l{(at[0] - before[0]) / 10:g} {(at[1] - before[1]) / 10:g}".replace(" -", "-"))
            alone = False
        before = at
    # A single point has no length; a zero-length line with round caps makes it visible.
    return "".join([*written, "h0" if alone else ""])


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, in the same order, at least `gap` apart and, if possible, within low..high."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    placed = [max(wanted[i], low) for i in order]
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + gap)
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], high if i == len(placed) - 1 else placed[i + 1] - gap)
    result = [0.0] * len(wanted)
    for position, index in zip(placed, order, strict=True):
        result[index] = position
    return result


def _drawing(
    name: str, title: str, finding: str, parts: Sequence[Markup], plot: _Plot, size: Size, has_links: bool = False
) -> Markup:
    readable = plot.y is not None and plot.x.kind != "category"
    axes = {"data_x": _described(plot.x), "data_y": _described(plot.y)} if readable and plot.y else {}
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", finding, id=f"{name}-desc"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="chart",
        # Nothing within an img is read out or reached.
        role="group" if has_links else "img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {size.width} {size.height}",
        width=size.width,
        height=size.height,
        data_plot=" ".join(coordinate(v) for v in (plot.left, plot.top, plot.right, plot.bottom)),
        **axes,
    )


def _described(axis: Axis) -> str:
    return f"{axis.kind} {axis.low:.12g} {axis.high:.12g} {axis.unit}"


def _in_drawing_units(
    points: Sequence[Point], plot: _Plot, most_per_pixel: float = 1.0, on_right: bool = False
) -> list[Point]:
    drawn = [Point(plot.px(p.x), None if p.y is None else plot.py(p.y, on_right)) for p in points]
    return downsampled(drawn, round((plot.right - plot.left) * most_per_pixel))


def _line_class(slot: int, thin: bool, solid: bool) -> str:
    return " ".join(["l", f"s{slot}", *(["thin"] if thin else []), *([] if solid or thin else [f"d{slot}"])])


def _line(series: Series, points: Sequence[Point]) -> Markup:
    return element(
        "path",
        class_=_line_class(series.slot, series.thin, series.solid),
        d=path_data(points),
        data_s=str(series.slot),
        data_name=None if series.thin else series.name,
    )


def _markers(series: Series, points: Sequence[Point], last_only: bool) -> Markup:
    shown = [p for p in points if p.y is not None]
    if last_only:
        shown = shown[-1:]
    elif len(shown) > 10:
        step = len(shown) / 8
        shown = [shown[int(i * step)] for i in range(1, 8)] + shown[-1:]
    d = "".join(_marker(series.slot, p.x, p.y or 0.0) for p in shown)
    return element("path", class_=f"m m{series.slot}", d=d, data_s=str(series.slot))


def _small_dots(series: Series, plot: _Plot) -> Markup:
    at = ((plot.px(p.x), plot.py(p.y)) for p in series.dots if p.y is not None)
    d = "".join(f"M{coordinate(x - 1.8)} {coordinate(y)}a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0-3.6 0z" for x, y in at)
    return element("path", class_=f"m faded m{series.slot}", d=d, data_s=str(series.slot))


def _whiskers(series: Series, plot: _Plot) -> Markup:
    d = "".join(
        f"M{coordinate(plot.px(w.x) - 3)} {coordinate(plot.py(w.low))}h6m-3 0V{coordinate(plot.py(w.high))}m-3 0h6"
        for w in series.whiskers
    )
    return element("path", class_=f"interval s{series.slot}", d=d, data_s=str(series.slot))


def _crosses(series: Series, points: Sequence[Point]) -> Markup:
    d = "".join(_cross(p.x, p.y) for p in points if p.y is not None)
    return element("path", class_=f"m cross s{series.slot}", d=d, data_s=str(series.slot))


def _cross(x: float, y: float) -> str:
    return f"M{coordinate(x - 4)} {coordinate(y - 4)}l8 8m0-8l-8 8"


def _marker(slot: int, x: float, y: float) -> str:
    at = f"M{coordinate(x)} {coordinate(y)}"
    shapes = {
        1: "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",  # disc
        2: "m-3.2-3.2h6.4v6.4h-6.4z",  # square
        3: "m0-4.4l4.4 7.6h-8.8z",  # triangle
        4: "m0-4.6l4.6 4.6l-4.6 4.6l-4.6-4.6z",  # diamond
    }
    return at + shapes.get(slot, "m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0z")


def _end_label(series: Series) -> str:
    return shortened(series.short or series.name, 22)


def _end_labels(drawn: Sequence[tuple[Series, Sequence[Point]]], plot: _Plot) -> list[Markup]:
    ends = [next(p for p in reversed(points) if p.y is not None) for _, points in drawn]
    heights = spread_labels([p.y or 0.0 for p in ends], _LINE_HEIGHT, plot.top + 4, plot.bottom - 2)
    return [
        element("text", _end_label(s), class_="halo", x=end.x + 8, y=y + 4, data_s=str(s.slot))
        for (s, _), end, y in zip(drawn, ends, heights, strict=True)
    ]


def _bands(bands: Sequence[Band], plot: _Plot) -> list[Markup]:
    parts: list[Markup] = []
    for band in bands:
        left, right = plot.px(band.start), plot.px(band.end)
        if right - left < 0.5:
            continue
        parts.append(
            element("rect", class_="band", x=left, y=plot.top, width=right - left, height=plot.bottom - plot.top)
        )
        if band.name and right - left > _TEXT_WIDTH * len(band.name) + 4:
            parts.append(element("text", band.name, class_="faint", x=left + 3, y=plot.top - 4))
    return parts


def _area(area: Area, plot: _Plot) -> Markup:
    """One outline over all points that both lines have; short gaps do not matter in a pale area."""
    pairs = [(low, high) for low, high in zip(area.low, area.high, strict=True) if None not in (low.y, high.y)]
    most = round((plot.right - plot.left) / 2)
    low = downsampled([Point(plot.px(p.x), plot.py(p.y or 0.0, area.on_right)) for p, _ in pairs], most)
    high = downsampled([Point(plot.px(p.x), plot.py(p.y or 0.0, area.on_right)) for _, p in pairs], most)
    return element("path", class_=f"area a{area.slot}", d=path_data([*low, *reversed(high)]), data_s=str(area.slot))


def _level(level: Level, plot: _Plot) -> list[Markup]:
    if plot.y is None or not plot.y.low <= level.value <= plot.y.high:
        return []
    y = plot.py(level.value)
    # At the left, as names of lines are at their right ends.
    text = element("text", level.name, class_="faint halo", x=plot.left + 4, y=y - 4)
    return [element("line", class_="limit", x1=plot.left, x2=plot.right, y1=y, y2=y), text]


def _moment(moment: Level, plot: _Plot) -> list[Markup]:
    """A vertical line with a name, which is to the left of the line if there is no room to the right."""
    if not plot.x.low <= moment.value <= plot.x.high:
        return []
    x, width = plot.px(moment.value), _TEXT_WIDTH * len(moment.name)
    fits = x + width + 4 < plot.right
    label = element(
        "text",
        moment.name,
        class_="faint halo" if fits else "faint halo end",
        x=x + (4 if fits else -4),
        y=plot.top + 10,
    )
    return [element("line", class_="limit", x1=x, x2=x, y1=plot.top, y2=plot.bottom), label]


def _mark(mark: Mark, plot: _Plot) -> Markup:
    x, width = plot.px(mark.x), 6 + _TEXT_WIDTH * len(mark.sign)
    top = 20.0
    return element(
        "a",
        element("title", mark.words),
        element("line", class_="limit", x1=x, x2=x, y1=top + 14, y2=plot.bottom),
        element("rect", class_="flag", x=x - width / 2, y=top, width=width, height=14, rx=3),
        element("text", mark.sign, class_="mid", x=x, y=top + 11),
        class_=f"event {mark.tone}".rstrip(),
        href=mark.link,
        aria_label=mark.words,
    )


def _right_ticks(plot: _Plot, size: Size) -> list[Markup]:
    """The labels of the second axis. Its grid lines would be another grid in the same place."""
    if plot.right_y is None:
        return []
    parts = [element("text", plot.right_y.label, class_="axis end", x=size.width, y=12)]
    for value, label in plot.right_y.ticks:
        y = plot.py(value, on_right=True)
        parts.append(element("line", class_="base", x1=plot.right, x2=plot.right + 4, y1=y, y2=y))
        parts.append(element("text", label, x=plot.right + 7, y=y + 4))
    return parts


def _y_grid(plot: _Plot) -> list[Markup]:
    assert plot.y is not None
    parts = [element("text", plot.y.label, class_="axis", x=0, y=12)]
    for value, label in plot.y.ticks:
        y = plot.py(value)
        parts.append(element("line", class_="grid", x1=plot.left, x2=plot.right, y1=y, y2=y))
        parts.append(element("text", label, class_="end", x=plot.left - 6, y=y + 4))
    return parts


def _x_ticks(plot: _Plot, size: Size, grid: bool = False) -> list[Markup]:
    parts = [element("line", class_="base", x1=plot.left, x2=plot.right, y1=plot.bottom, y2=plot.bottom)]
    free_from = -1e9
    for value, label in plot.x.ticks:
        x = plot.px(value)
        top = plot.top if grid or plot.x.kind == "percentile" else plot.bottom
        parts.append(element("line", class_="grid", x1=x, x2=x, y1=top, y2=plot.bottom + 4))
        half = _TEXT_WIDTH * len(label) / 2
        if x - half >= free_from:
            parts.append(element("text", label, class_="mid", x=x, y=plot.bottom + 17))
            free_from = x + half + 6
    middle = (plot.left + plot.right) / 2
    parts.append(element("text", plot.x.label, class_="axis mid", x=middle, y=size.height - 4))
    return parts


def _dots(group: DotGroup, plot: _Plot, middle: float, row_height: float) -> list[Markup]:
    parts: list[Markup] = []
    if group.median is not None:
        x, reach = plot.px(group.median), row_height / 2 - 3
        parts.append(element("line", class_=f"l s{group.slot}", x1=x, x2=x, y1=middle - reach, y2=middle + reach))
    if group.interval is not None:
        low, high = (plot.px(v) for v in group.interval)
        y, cap = middle + row_height / 2 - 5, 3
        d = f"M{coordinate(low)} {coordinate(y - cap)}v{2 * cap}m0-{cap}H{coordinate(high)}m0-{cap}v{2 * cap}"
        parts.append(element("path", class_=f"interval s{group.slot}", d=d))
    count = len(group.dots)
    step = min(5.0, (row_height - 10) / max(count - 1, 1))
    for index, dot in enumerate(group.dots):
        x, y = plot.px(dot.value), middle + (index - (count - 1) / 2) * step
        d, kind = (_marker(group.slot, x, y), f"m{group.slot}") if dot.sound else (_cross(x, y), "cross s0")
        parts.append(element("path", element("title", dot.name), class_=f"m {kind}", d=d))
    return parts
