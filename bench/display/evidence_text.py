"""Draws the evidence of an answer with characters: a line for each cell, its trials as dots."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from highwater.common.units import shortened
from highwater.results.analysis.evidence import Evidence, EvidenceRow, RowState

_MARKS: Final = {
    "usable": "●",
    "disturbed": "○",
    "invalid": "✕",
    "lost": "✕",
    "failed": "✕",
    "base": "∙",
    "estimate": "●",
    "centre": "┃",
    "interval": "├┤",
    "overlap": "░",
    "limit": "┊",
}
_STYLES: Final[dict[RowState, str]] = {"best": "green", "open": "yellow", "bad": "red", "plain": ""}
_FEWEST_COLUMNS: Final = 24
_MOST_COLUMNS: Final = 60
_GAP: Final = "  "


def evidence_lines(evidence: Evidence, width: int) -> Iterator[Text]:
    """Lines of at most `width` characters: a title, the rows, the ends of the axis, and what the marks mean.

    A narrow terminal has the words of a row in a line above its axis.
    """
    words = [_GAP.join(filter(None, (row.figure, row.note))) for row in evidence.rows]
    label_width, words_width = max(len(row.label) for row in evidence.rows), max(map(len, words))
    columns = width - label_width - words_width - 2 * len(_GAP)
    is_narrow = columns < _FEWEST_COLUMNS
    axis = _Axis(evidence, min(_MOST_COLUMNS, width if is_narrow else columns))
    yield Text(shortened(evidence.title, width), "bold")
    for row, text in zip(evidence.rows, words, strict=True):
        style = _STYLES[row.state]
        if is_narrow:
            yield Text(shortened(_GAP.join(filter(None, (row.label, text))), width), style)
            yield axis.drawn(row)
        else:
            yield Text.assemble((f"{row.label:<{label_width}}{_GAP}", style), axis.drawn(row), (_GAP + text, style))
    yield Text(("" if is_narrow else " " * (label_width + len(_GAP))) + axis.ends, "dim")
    legend = [f"{_MARKS[mark]} {meaning}" for mark, meaning in evidence.marks]
    for line in _filled([*legend, *evidence.notes], width):
        yield Text(line, "dim")


class _Axis:
    """Columns of characters between the lowest and the highest value."""

    def __init__(self, evidence: Evidence, columns: int) -> None:
        self._evidence, self._columns = evidence, columns
        self._low, self._high = min(evidence.values), max(evidence.values)
        if self._high == self._low:
            self._low, self._high = self._low - 1, self._high + 1

    def _column(self, value: float) -> int:
        low, high, at = self._low, self._high, value
        if self._evidence.is_logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return round((at - low) / (high - low) * (self._columns - 1))

    @property
    def ends(self) -> str:
        low, high = self._evidence.text(self._low), self._evidence.text(self._high)
        return f"{low}{high:>{max(self._columns - len(low), len(high) + 1)}}"

    def drawn(self, row: EvidenceRow) -> Text:
        cells: list[tuple[str, str]] = [(" ", "")] * self._columns
        style = _STYLES[row.state]
        if row.state == "open" and self._evidence.overlap:
            self._fill(cells, self._evidence.overlap, _MARKS["overlap"], "dim")
        for value in (*(limit.value for limit in self._evidence.limits), *row.limits):
            cells[self._column(value)] = (_MARKS["limit"], "")
        if row.interval:
            self._fill(cells, row.interval, "─", style)
            for end, mark in zip(row.interval, _MARKS["interval"], strict=True):
                cells[self._column(end)] = (mark, style)
        for dot in row.dots:
            cells[self._column(dot.value)] = (_MARKS[dot.fate], "bold red" if dot.fate == "lost" else style)
        if row.centre is not None:
            cells[self._column(row.centre)] = (_MARKS["centre"], f"bold {style}".rstrip())
        return Text.assemble(*cells)

    def _fill(self, cells: list[tuple[str, str]], ends: tuple[float, float], mark: str, style: str) -> None:
        first, last = map(self._column, ends)
        cells[first : last + 1] = [(mark, style)] * (last + 1 - first)


def _filled(parts: list[str], width: int) -> Iterator[str]:
    """Lines of as many parts as fit."""
    line = ""
    for part in parts:
        longer = f"{line}{_GAP}{part}" if line else part
        if len(longer) > width and line:
            yield line
            longer = part
        line = shortened(longer, width)
    yield line
