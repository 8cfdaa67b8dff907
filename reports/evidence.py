"""The picture of an answer: a strip for each cell with its trials as dots, as wide as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from highwater.common.units import plural
from highwater.drawing import axes
from highwater.drawing.svg import element
from highwater.reports.blocks import Block, Strip, Strips
from highwater.results.analysis.evidence import Evidence, EvidenceRow

_HEIGHT: Final = 34
_MANY_ROWS: Final = 5
_LOW: Final = 26
_MOST_TICKS: Final = 5
# Free room at each end of a strip, in percent of its width.
_END: Final = 2
_CROSS: Final = "M-4-4l8 8m0-8l-8 8"
_DISC: Final = "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"
_SHAPES: Final = {"invalid": _CROSS, "lost": _CROSS, "failed": _CROSS, "base": "M-2.5-2.5h5v5h-5z"}


def evidence_blocks(evidence: Evidence | None) -> list[Block]:
    if evidence is None:
        return []
    make = axes.logarithmic if evidence.is_logarithmic else axes.around
    drawer = _Drawer(evidence, make("", evidence.unit, evidence.values))
    rows = [
        Strip(row.label, drawer.strip(row), row.figure, row.note, _words(evidence, row), row.state)
        for row in evidence.rows
    ]
    title = evidence.title if evidence.is_change else f"{evidence.title} ({evidence.unit})"
    legend = [(_sample(mark), words) for mark, words in evidence.marks]
    return [Strips(title, rows, drawer.ticks(), legend, "; ".join(evidence.notes))]


def _words(evidence: Evidence, row: EvidenceRow) -> str:
    trials = [dot for dot in row.dots if dot.fate != "estimate"]
    parts = [plural(len(trials), "trial")] if trials else []
    if row.interval and evidence.span_words:
        parts.append(f"{evidence.span_words} {' to '.join(map(evidence.text, row.interval))}")
    return ", ".join(parts) or row.figure or "no trial"


class _Drawer:
    """Positions in percent of the width, so that text and marks keep their size on every screen."""

    def __init__(self, evidence: Evidence, axis: axes.Axis) -> None:
        self._evidence, self._axis = evidence, axis
        self._height = _HEIGHT if len(evidence.rows) <= _MANY_ROWS else _LOW

    def strip(self, row: EvidenceRow) -> Markup:
        return element("svg", *self._parts(row), class_="strip", width="100%", height=self._height)

    def ticks(self) -> Markup:
        step = 1 + (len(self._axis.ticks) - 1) // _MOST_TICKS
        # The value that others are compared with is always named.
        first = next((n % step for n, (value, _) in enumerate(self._axis.ticks) if self._evidence.is_none(value)), 0)
        texts = [
            element(
                "text",
                self._evidence.text(value) if self._evidence.is_change else label,
                class_="mid",
                x=self._at(value),
                y=13,
            )
            for value, label in self._axis.ticks[first::step]
        ]
        return element("svg", *texts, width="100%", height=18)

    def _at(self, value: float) -> str:
        return f"{self._percent(value):.2f}%"

    def _percent(self, value: float) -> float:
        return _END + (100 - 2 * _END) * self._axis.position(value)

    def _parts(self, row: EvidenceRow) -> Iterator[Markup]:
        middle = self._height / 2
        for value, _ in self._axis.ticks:
            yield self._line("grid", value, 0, self._height)
        yield element("line", class_="row", x1="0%", x2="100%", y1=middle, y2=middle)
        if row.state == "open" and self._evidence.overlap:
            yield self._span("overlap", self._evidence.overlap, 0)
        for value in (*(limit.value for limit in self._evidence.limits), *row.limits):
            yield self._line("limit", value, 0, self._height)
        if row.interval:
            yield self._span("span", row.interval, 6)
        if row.centre is not None:
            yield self._line("centre", row.centre, 3, self._height - 3)
        step = min(4.0, (self._height - 12) / max(len(row.dots) - 1, 1))
        for index, dot in enumerate(row.dots):
            y = middle + (index - (len(row.dots) - 1) / 2) * step
            mark = element("path", element("title", dot.name), class_=f"dot {dot.fate}", d=_shape(dot.fate))
            yield element("svg", mark, x=self._at(dot.value), y=y, overflow="visible")

    def _line(self, look: str, value: float, top: float, bottom: float) -> Markup:
        return element("line", class_=look, x1=self._at(value), x2=self._at(value), y1=top, y2=bottom)

    def _span(self, look: str, ends: tuple[float, float], top: float) -> Markup:
        low, high = map(self._percent, ends)
        return element(
            "rect", class_=look, x=f"{low:.2f}%", width=f"{high - low:.2f}%", y=top, height=self._height - 2 * top
        )


def _shape(fate: str) -> str:
    return _SHAPES.get(fate, _DISC)


def _sample(mark: str) -> Markup:
    """A mark for the legend."""
    shapes = {
        "centre": element("line", class_="centre", x1=7, x2=7, y1=0, y2=14),
        "interval": element("rect", class_="span", x=0, width=14, y=2, height=10),
        "overlap": element("rect", class_="overlap", x=0, width=14, y=0, height=14),
        "limit": element("line", class_="limit", x1=7, x2=7, y1=0, y2=14),
    }
    dot = element("path", class_=f"dot {mark}", d=_shape(mark), transform="translate(7 7)")
    return element("svg", shapes.get(mark, dot), class_="plain", width=14, height=14, aria_hidden="true")
