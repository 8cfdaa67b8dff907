"""What one tick gives the history: a row of values for each entity, and events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from highwater.monitor.events import Event
from highwater.monitor.history.kinds import Kind, Value


class EntityKey(NamedTuple):
    kind: str
    name: str
    incarnation: str
    """A topic's id; empty for what cannot be made again under its name."""


def storable(text: str) -> str:
    """Return a name as every database takes it: PostgreSQL has no NUL, and nobody has half of a character."""
    if text.isascii():
        return text.replace("\0", "\N{SYMBOL FOR NULL}") if "\0" in text else text
    return text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()


def entity_key(kind: Kind, name: str, incarnation: str = "") -> EntityKey:
    return EntityKey(kind.name, storable(name), incarnation)


@dataclass(frozen=True, slots=True)
class Tick:
    at_ms: int
    """Unix time."""
    rows: Mapping[str, Mapping[EntityKey, tuple[Value, ...]]]
    """By the kind's name: the values of each entity, in the order of the kind's columns."""
    events: Sequence[Event] = ()
    silent: Collection[str] = ()
    """Kinds of which the tick says nothing. Of the other kinds, what has no row is gone."""


@dataclass(slots=True)
class _Seen:
    values: tuple[Value, ...]
    written_ms: int
    seen_ms: int


class ChangedRows:
    """Decides which rows are worth a place: what did not change is written once in a heartbeat.

    A value that changes after it stood still gets two rows: the old value at the tick before, and the new one. A line
    through the rows is therefore what was seen, and a gap longer than a heartbeat means that nothing was seen.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[EntityKey, _Seen]] = defaultdict(dict)

    def rows_of(self, kind: Kind, tick: Tick) -> tuple[list[tuple[EntityKey, int, tuple[Value, ...]]], set[EntityKey]]:
        """Return the rows to write as (entity, Unix time, values), and the entities that were looked at."""
        rows: list[tuple[EntityKey, int, tuple[Value, ...]]] = []
        looked_at = set()
        of_kind = self._seen[kind.name]
        for key, values in tick.rows.get(kind.name, {}).items():
            seen = of_kind.get(key)
            if seen is None:
                rows.append((key, tick.at_ms, values))
            elif kind.every_ms and seen.seen_ms // kind.every_ms == tick.at_ms // kind.every_ms:
                continue
            elif values != seen.values:
                if seen.seen_ms > seen.written_ms:
                    rows.append((key, seen.seen_ms, seen.values))
                rows.append((key, tick.at_ms, values))
            elif seen.written_ms // kind.heartbeat_ms != tick.at_ms // kind.heartbeat_ms:
                rows.append((key, tick.at_ms, values))
            looked_at.add(key)
        return rows, looked_at

    def remember(self, kind: Kind, tick: Tick, looked_at: set[EntityKey], written: set[EntityKey]) -> None:
        """To be called when the rows are safe."""
        if kind.name in tick.silent:
            return
        of_kind, rows = self._seen[kind.name], tick.rows.get(kind.name, {})
        for key in looked_at:
            seen = of_kind.get(key)
            if seen is None:
                of_kind[key] = _Seen(rows[key], tick.at_ms, tick.at_ms)
                continue
            seen.values, seen.seen_ms = rows[key], tick.at_ms
            if key in written:
                seen.written_ms = tick.at_ms
        # What is gone starts anew if it comes back.
        for key in of_kind.keys() - rows.keys():
            del of_kind[key]

    def forget(self) -> None:
        """Write every entity in the next tick."""
        self._seen.clear()
