"""Partitions as a heat map: a row for each cell, a column for each partition."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from highwater.common.units import NONE, count_text, significant
from highwater.drawing.plot import FULL
from highwater.drawing.quantity import NS_PER_MS
from highwater.drawing.svg import element
from highwater.reports.blocks import Figure, Panel, View, table
from highwater.reports.cells import Cell, Run
from highwater.reports.measures import PRODUCE_P99
from highwater.results.models import PartitionLine
from highwater.results.reader import TrialResult

_SHADES: Final = 9
_MOST_COLUMNS: Final = 200
_ROW_HEIGHT: Final = 22.0
_TEXT_WIDTH: Final = 6.4


class _Quantity(NamedTuple):
    """A quantity per partition. `text` formats a value for the tooltip."""

    name: str
    read: Callable[[Sequence[PartitionLine]], list[float | None]]
    text: Callable[[float], str]
    scale: str


def partition_figures(run: Run) -> list[Figure]:
    """The heat map; empty when no trial has counts by partition, or there is only one partition."""
    found = []
    for cell in run.cells:
        trial = cell.typical(PRODUCE_P99)
        lines = sorted(trial.partitions(), key=lambda p: (p.topic, p.partition)) if trial else []
        if trial and len(lines) > 1:
            found.append((cell, trial, lines))
    if not found:
        return []
    views = [
        View(q.name, [Panel("", drawing)])
        for q in _QUANTITIES
        if (drawing := _drawing(f"partitions-{_number(q)}", q, found)) is not None
    ]
    rows = [
        [
            cell.label,
            str(trial.summary.trial),
            str(len(lines)),
            count_text(min(map(_records, lines))),
            count_text(statistics.median(map(_records, lines))),
            count_text(max(map(_records, lines))),
            _skew_text(trial, lines),
        ]
        for cell, trial, lines in found
    ]
    header = ["cell", "trial", "partitions", "fewest records", "median", "most records", "busiest ÷ mean"]
    return [
        Figure(
            "partitions",
            "Load by partition",
            _finding(found),
            views,
            table(header, rows),
            note="One trial per cell, the median one by produce p99. The darker the field, the higher the value.",
            layout="full",
        )
    ]


def _number(quantity: _Quantity) -> int:
    return _QUANTITIES.index(quantity) + 1


Found = tuple[Cell, TrialResult, list[PartitionLine]]


def _finding(found: Sequence[Found]) -> str:
    skews = [(max(s), cell.label) for cell, _, lines in found if (s := _known(_shares(lines)))]
    if not skews:
        return "No record was acknowledged."
    worst, label = max(skews)
    if worst < 1.05:
        return "All partitions of every cell carried the same load, within 5 %."
    return f"Most uneven: {label}, where the busiest partition carried {significant(worst)}× the mean."


def _skew_text(trial: TrialResult, lines: Sequence[PartitionLine]) -> str:
    ratio = trial.summary.partition_skew_ratio
    if ratio is None:
        known = _known(_shares(lines))
        ratio = max(known) if known else None
    return NONE if ratio is None else f"{significant(ratio)}×"


def _shares(lines: Sequence[PartitionLine]) -> list[float | None]:
    mean = statistics.fmean(map(_records, lines))
    return [_records(p) / mean if mean else None for p in lines]


def _records(line: PartitionLine) -> int:
    """Acknowledged records; received records when the log's count is unknown."""
    return line.received if line.acked is None else line.acked


_QUANTITIES: Final = (
    _Quantity("share of the load", _shares, lambda v: f"{significant(v)}× the mean partition", "× mean"),
    _Quantity(
        "end-to-end p99",
        lambda p: [None if line.e2e_p99_ns is None else line.e2e_p99_ns / NS_PER_MS for line in p],
        lambda v: f"end-to-end p99 {significant(v)} ms",
        "ms",
    ),
)


def _known(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None]


def _drawing(name: str, quantity: _Quantity, found: Sequence[Found]) -> Markup | None:
    rows = [(cell, lines, quantity.read(lines)) for cell, _, lines in found]
    known = [v for _, _, values in rows for v in _known(values)]
    if not known:
        return None
    high = max(known)
    labels = [cell.caption if len(cell.caption) <= 40 else cell.caption[:39] + "…" for cell, _, _ in rows]
    left = 8 + _TEXT_WIDTH * max(map(len, labels))
    most = max(len(lines) for _, lines, _ in rows)
    per_field = -(-most // _MOST_COLUMNS)
    width = (FULL.width - left - 8) / (-(-most // per_field))
    height = round(_ROW_HEIGHT * len(rows) + 40)
    parts: list[Markup] = []
    for number, ((_, lines, values), label) in enumerate(zip(rows, labels, strict=True)):
        top = number * _ROW_HEIGHT
        parts.append(element("text", label, class_="end", x=left - 8, y=top + 15))
        for column, start in enumerate(range(0, len(lines), per_field)):
            inside = _known(values[start : start + per_field])
            if not inside:
                continue
            value = max(inside)
            last = min(start + per_field, len(lines)) - 1
            parts.append(
                element(
                    "rect",
                    element("title", f"{_named(lines[start], lines[last])}: {quantity.text(value)}"),
                    class_=f"heat h{_shade(value, high)}",
                    x=left + column * width,
                    y=top + 2,
                    width=max(width - (1 if width > 4 else 0), 0.5),
                    height=_ROW_HEIGHT - 4,
                )
            )
    parts += _scale(quantity, high, left, height)
    return element(
        "svg",
        element("title", f"Load by partition: {quantity.name}", id=f"{name}-title"),
        element("desc", _finding(found), id=f"{name}-desc"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="chart",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {FULL.width} {height}",
        width=FULL.width,
        height=height,
    )


def _named(first: PartitionLine, last: PartitionLine) -> str:
    name = f"{first.topic}-{first.partition}"
    return name if first is last else f"{name} to {last.topic}-{last.partition}, the highest"


def _shade(value: float, high: float) -> int:
    """The shade of a value, linear from zero, so that similar partitions look similar."""
    return round(value / high * (_SHADES - 1)) if high else 0


def _scale(quantity: _Quantity, high: float, left: float, height: int) -> list[Markup]:
    y = height - 24
    boxes = [element("rect", class_=f"heat h{i}", x=left + i * 16, y=y, width=16, height=10) for i in range(_SHADES)]
    end = left + _SHADES * 16
    return [
        *boxes,
        element("text", "0", class_="faint", x=left, y=y + 22),
        element("text", f"{significant(high)} {quantity.scale}", class_="faint end", x=end, y=y + 22),
        element("text", f"partitions from left to right: {quantity.name}", class_="faint", x=end + 12, y=y + 9),
    ]
