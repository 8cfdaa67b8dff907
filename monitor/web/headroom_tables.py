"""The table of headroom, one row for each broker and resource."""

from __future__ import annotations

from typing import Final

from highwater.common.units import NONE
from highwater.monitor.figures.headroom import SHARES, Headroom
from highwater.monitor.web import cells, words
from highwater.monitor.web.pages import Seen
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import BROKER, COUNT, NAME_IF_ANY, PROSE, SHARE, TEXT

FORMULA: Final = "headroom = 1 − demand / measured ceiling"


def headroom_table(seen: Seen) -> Table[Headroom]:
    return Table(
        name="headroom",
        title="Headroom",
        columns=_HEADROOM,
        rows=seen.figures.headroom,
        empty="No broker is known yet.",
        sort="headroom",
        level=lambda row: row.level,
        notes=_HEADROOM_NOTES,
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
    Column("broker", "Broker", BROKER, lambda r: r.broker_id),
    Column("resource", "Resource", TEXT, lambda r: r.resource),
    Column("headroom", "Headroom", SHARE, lambda r: r.ratio),
    Column(
        "state",
        "State",
        PROSE,
        lambda r: "grey" if r.stale else r.level.value,
        _state,
        lambda r: (r.level.rank, bool(r.stale)),
    ),
    Column("demand", "Demand", COUNT, lambda r: r.demand, lambda r: _amount(r, r.demand)),
    Column("ceiling", "Ceiling", COUNT, lambda r: r.ceiling, _ceiling),
    Column("run", "Measured by", NAME_IF_ANY, lambda r: r.run),
    Column("why", "", TEXT, lambda r: r.sentence),
)
_HEADROOM_NOTES: Final = {
    "headroom": f"{FORMULA}.",
    "state": "Grey: the ceiling was measured under other conditions, and may not hold here.",
    "demand": "Of the last minute.",
    "ceiling": "The highest rate that a benchmark saw on a host of this class; ≥ if no higher one was tried.",
}
