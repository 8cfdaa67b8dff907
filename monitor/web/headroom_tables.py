"""The table of headroom, one row for each broker and resource."""

from __future__ import annotations

from typing import Final

from highwater.common.units import NONE
from highwater.monitor.figures.headroom import SHARES, Headroom
from highwater.monitor.web import cells, words
from highwater.monitor.web.filters import Kind
from highwater.monitor.web.pages import Seen
from highwater.monitor.web.tables import Column, Table

FORMULA: Final = "headroom = 1 − demand / measured ceiling"


def headroom_table(seen: Seen) -> Table[Headroom]:
    return Table(
        name="headroom",
        title="Headroom",
        columns=_HEADROOM,
        rows=seen.figures.headroom,
        empty="No broker is known yet.",
        sort="headroom",
        level=lambda row: words.LEVEL_CLASSES[row.level],
    )


def _amount(row: Headroom, value: float | None) -> str:
    return words.share(value) if row.resource in SHARES else words.size_rate(value)


def _ceiling(row: Headroom) -> str:
    if row.ceiling is None:
        return NONE
    return f"{'≥ ' if row.is_at_least else ''}{_amount(row, row.ceiling)}"


def _state(row: Headroom) -> str:
    return cells.with_note(cells.state(row.level, "grey" if row.stale else ""), row.sentence)


_HEADROOM: Final[tuple[Column[Headroom], ...]] = (
    Column("broker", "Broker", Kind.NUMBER, lambda r: r.broker_id, lambda r: cells.broker_link(r.broker_id)),
    Column("resource", "Resource", Kind.TEXT, lambda r: r.resource),
    Column("headroom", "Headroom", Kind.NUMBER, lambda r: r.ratio, lambda r: words.share(r.ratio), note=f"{FORMULA}."),
    Column(
        "state",
        "State",
        Kind.TEXT,
        lambda r: "grey" if r.stale else r.level.value,
        _state,
        lambda r: (r.level.rank, bool(r.stale)),
        note="Grey: the ceiling was measured under other conditions, and may not hold here.",
        is_prose=True,
    ),
    Column(
        "demand", "Demand", Kind.NUMBER, lambda r: r.demand, lambda r: _amount(r, r.demand), note="Of the last minute."
    ),
    Column(
        "ceiling",
        "Ceiling",
        Kind.NUMBER,
        lambda r: r.ceiling,
        _ceiling,
        note="The highest rate that a benchmark saw on a host of this class; ≥ if no higher one was tried.",
    ),
    Column("run", "Measured by", Kind.TEXT, lambda r: r.run, lambda r: cells.name_text(r.run or NONE)),
    Column("why", "Why", Kind.TEXT, lambda r: r.sentence, is_shown=False),
)
