"""The table of events: what happened, when, and to what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from highwater.monitor.causes import Happening, by_cause
from highwater.monitor.errors import HistoryError
from highwater.monitor.events import Event
from highwater.monitor.web import cells
from highwater.monitor.web.event_marks import kind_words
from highwater.monitor.web.history_charts import MOST_EVENTS, NO_HISTORY, RANGES
from highwater.monitor.web.pages import Seen
from highwater.monitor.web.routing import Call
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import PROSE, TEXT, TIME


def events_table(call: Call, seen: Seen) -> Table[Happening]:
    """Return the newest 2,000 events of the last 30 days, each by itself: for programs and filters."""
    return _table(call, seen, lambda events: [Happening(event) for event in events])


def causes_table(call: Call, seen: Seen) -> Table[Happening]:
    """Return the same events, those of one cause in one row."""
    return _table(call, seen, by_cause)


def _table(call: Call, seen: Seen, lines_of: Callable[[Sequence[Event]], Sequence[Happening]]) -> Table[Happening]:
    rows: Sequence[Happening] = ()
    empty = NO_HISTORY
    if call.site.history is not None:
        try:
            since_ms = seen.snapshot.taken_at_ms - 1000 * RANGES["30d"]
            rows = lines_of(call.site.history.events(since_ms, most=MOST_EVENTS))
            empty = "Nothing has happened in 30 days."
        except HistoryError as error:
            empty = f"The history cannot be read: {error}"
    return Table("events", "Events", _EVENTS, rows, empty, "-time")


def event_link(event: Event) -> str:
    """To the page of what it is about, if it has one."""
    links: Mapping[str, Callable[[str], Markup]] = {
        "topic": cells.topic_link,
        "group": cells.group_link,
        "partition": lambda name: cells.link("/topic", "name", name.rpartition("-")[0], name),
        "broker": lambda name: cells.link("/broker", "id", name),
        "host": cells.host_link,
    }
    make = links.get(event.entity)
    return make(event.name) if make else cells.name_text(event.name)


_EVENTS: Final[tuple[Column[Happening], ...]] = (
    Column("time", "Time", TIME, lambda r: r.line.at_ms),
    Column("text", "What", PROSE, lambda r: r.line.text, cells.happening),
    Column("kind", "Kind", TEXT, lambda r: r.line.kind.value, lambda r: kind_words(r.line.kind)),
    Column("name", "About", TEXT, lambda r: r.line.name, lambda r: event_link(r.line)),
    Column("entity", "", TEXT, lambda r: r.line.entity),
    Column("before", "", TEXT, lambda r: r.line.before),
    Column("after", "", TEXT, lambda r: r.line.after),
)
