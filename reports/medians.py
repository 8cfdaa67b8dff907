"""Tables with one row per cell and medians over its trials, without columns that have no values."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from highwater.common.units import NONE
from highwater.reports.blocks import Column, Field, Row, Table
from highwater.reports.cells import Cell, Run
from highwater.results.models import TrialSummary

_MANY: Final = 7


class MedianColumn(NamedTuple):
    """A column: its heading, how to read a trial, how to format a value."""

    column: Column
    read: Callable[[TrialSummary], float | None]
    show: Callable[[float], str]


def median_table(run: Run, columns: Sequence[MedianColumn], label: str, note: str) -> Table | None:
    """The table; None when no trial has a value in any column."""
    cells = [cell for cell in run.cells if cell.shown]
    shown = [column for column in columns if any(_known(cell, column) for cell in cells)]
    if not shown:
        return None
    rows = [Row([Field(c.label), *(_field(c, column) for column in shown)], faint=not c.sound) for c in cells]
    return Table(
        [Column("cell", text=True), *(c.column for c in shown)],
        rows,
        label,
        note,
        wide=len(shown) > _MANY,
        sortable=True,
    )


def _known(cell: Cell, column: MedianColumn) -> list[float]:
    return [float(v) for t in cell.shown if (v := column.read(t.summary)) is not None]


def _field(cell: Cell, column: MedianColumn) -> Field:
    values = _known(cell, column)
    if not values:
        return Field(NONE)
    low, high = column.show(min(values)), column.show(max(values))
    middle = statistics.median(values)
    return Field(column.show(middle), "" if low == high else f"{low}–{high}", middle)
