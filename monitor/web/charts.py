"""Draws series of the history over time: up to four lines, two axes, bands, event marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from highwater.common.units import shortened
from highwater.drawing.axes import Axis, clock, linear
from highwater.drawing.downsample import Point as Drawn
from highwater.drawing.plot import MOST_SERIES, Area, Series, Size, line_panel, path_data
from highwater.drawing.quantity import drawn_unit
from highwater.drawing.svg import element
from highwater.monitor.history.reader import Point
from highwater.monitor.web import words
from highwater.monitor.web.event_marks import Happened, MarkGroup

MOST_LINES: Final = MOST_SERIES
MOST_AXES: Final = 2
_SPARK: Final = (280, 48)
_LONGEST_LABEL: Final = 70


@dataclass(frozen=True, slots=True)
class Line:
    title: str
    unit: str
    """`B` and `B/s` get a prefix; anything else is written as it is."""
    points: Sequence[Point]
    is_apart: bool = False
    """On the other axis, although that axis has the same unit."""

    @property
    def scale_key(self) -> tuple[str, bool]:
        """Lines with the same key share an axis."""
        return self.unit, self.is_apart

    @property
    def known(self) -> list[float]:
        return [point.value for point in self.points if isinstance(point.value, float)]

    @property
    def top(self) -> float:
        highs = [point.high for point in self.points if point.high is not None]
        return max([*self.known, *highs], default=0.0)

    @property
    def summary(self) -> str:
        """Its last value and its highest one, in words: a narrow screen may not show the axis."""
        if not self.known:
            return ""
        newest, most = words.amount(self.known[-1], self.unit), words.amount(self.top, self.unit)
        number, _, unit = newest.partition(" ")
        # One unit is enough where both have it.
        return f"{number if unit and most.endswith(f' {unit}') else newest} at the end, at most {most}"


def chart(
    name: str,
    title: str,
    lines: Sequence[Line],
    span: tuple[int, int],
    happened: Happened,
    size: Size,
) -> Markup | None:
    """`span`: Unix time of the two ends in milliseconds. None if no line has a value.

    At most MOST_LINES lines with MOST_AXES keys of scales: the lines with the key of the first one belong to the axis
    at the left, the others to the one at the right.
    """
    if not any(line.known for line in lines):
        return None
    keys = list(dict.fromkeys(line.scale_key for line in lines))
    assert len(lines) <= MOST_LINES
    assert len(keys) <= MOST_AXES
    together = {key: [line for line in lines if line.scale_key == key] for key in keys}
    scales = {key: drawn_unit(key[0], max(line.top for line in sharing)) for key, sharing in together.items()}
    series, areas, findings = [], [], []
    for slot, line in enumerate(lines, start=1):
        if not line.known:
            continue
        divisor, is_right = scales[line.scale_key][1], line.scale_key != keys[0]
        series.append(Series(slot, line.title, _drawn(line, divisor), solid=len(lines) == 1, on_right=is_right))
        low = [Drawn(p.at_ms / 1000, None if p.low is None else p.low / divisor) for p in line.points]
        high = [Drawn(p.at_ms / 1000, None if p.high is None else p.high / divisor) for p in line.points]
        if any(a.y != b.y for a, b in zip(low, high, strict=True)):
            areas.append(Area(slot, low, high, is_right))
        findings.append(f"{line.title}: {line.summary}.")
    axes = [_value_axis(sharing, *scales[key], len(lines)) for key, sharing in together.items()]
    return line_panel(
        name,
        title,
        " ".join(findings),
        series,
        clock(span[0] / 1000, span[1] / 1000),
        axes[0],
        size,
        areas=areas,
        bands=happened.bands,
        marks=[group.mark for group in happened.marks],
        right_y=axes[1] if len(axes) > 1 else None,
        end_labels=False,
    )


def _drawn(line: Line, divisor: float) -> list[Drawn]:
    return [Drawn(p.at_ms / 1000, p.value / divisor if isinstance(p.value, float) else None) for p in line.points]


def _value_axis(lines: Sequence[Line], unit: str, divisor: float, of_all: int) -> Axis:
    """Return the axis of `lines`; its label names them if the chart has other lines too."""
    label = unit or "count"
    if len(lines) < of_all:
        label += f": {', '.join(line.title for line in lines)}"
    return linear(shortened(label, _LONGEST_LABEL), unit, [line.top / divisor for line in lines], 5)


def spark(line: Line, span: tuple[int, int], marks: Sequence[MarkGroup], summary: str) -> Markup:
    """A small line without axes, with the marks as strokes."""
    width, height = _SPARK
    top = max(line.top, 1e-9)
    length_ms = span[1] - span[0]

    def px(at_ms: float) -> float:
        return (at_ms - span[0]) * width / length_ms

    drawn = [
        Drawn(
            px(point.at_ms), height - 2 - point.value * (height - 4) / top if isinstance(point.value, float) else None
        )
        for point in line.points
    ]
    strokes = [
        element(
            "line",
            class_=f"event {group.tone}".rstrip(),
            x1=px(group.events[0].at_ms),
            x2=px(group.events[0].at_ms),
            y1=0,
            y2=height,
        )
        for group in marks
    ]
    happened = "".join(f"; {group.when}: {group.summary}" for group in marks[-3:])
    return element(
        "svg",
        element("title", f"{line.title} in the last {summary}{happened}"),
        *strokes,
        element("path", class_="l s1", d=path_data(drawn)),
        class_="spark",
        role="img",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
    )
