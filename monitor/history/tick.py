"""What one tick gives the history: a row of values for each entity, and events."""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from highwater.monitor.events import Event
from highwater.monitor.history.kinds import Kind, Value, storable


class EntityKey(NamedTuple):
    kind: str
    name: str
    incarnation: str
    """A topic's id; empty for what cannot be made again under its name."""


def entity_key(kind: Kind[Any], name: str, incarnation: str = "") -> EntityKey:
    return EntityKey(kind.name, storable(name), incarnation)


@dataclass(frozen=True, slots=True)
class Tick:
    at_ms: int
    """Unix time."""
    rows: Mapping[str, Mapping[EntityKey, tuple[Value, ...]]]
    """The values of each entity in the order of its kind's columns, by the kind's name."""
    events: Sequence[Event] = ()
    silent: Collection[str] = ()
    """Kinds of which the tick says nothing. Of the other kinds, what has no row is gone."""
    read_at_ms: Mapping[EntityKey, int] = field(default_factory=dict)
    """When values of an entity were read, if that is not the time of the tick: its counters would make wrong rates."""
    cluster_id: str = ""


class Told(NamedTuple):
    """What a tick says of the entities of one kind."""

    at_ms: int
    values: Mapping[int, tuple[Value, ...]]
    read_at_ms: Mapping[int, int]
    """When values were read, for entities whose values are of another time than the tick."""


class Changes(NamedTuple):
    rows: list[tuple[int, int, tuple[Value, ...]]]
    """To write: entity, Unix time, values."""
    looked_at: set[int]
    """Entities whose values count, changed or not."""


class _Seen:
    """What was last seen of an entity. There are as many as entities, and values are a third as large when packed."""

    __slots__ = ("_packed", "seen_ms", "written_ms")

    def __init__(self, values: tuple[Value, ...], at_ms: int) -> None:
        self.written_ms = self.seen_ms = at_ms
        self.values = values

    @property
    def values(self) -> tuple[Value, ...]:
        return cast(tuple[Value, ...], marshal.loads(self._packed))  # noqa: S302 - of this process

    @values.setter
    def values(self, values: tuple[Value, ...]) -> None:
        self._packed = marshal.dumps(values)


class ChangedRows:
    """Decides which rows are worth a place: what did not change is written once in a heartbeat.

    Entities are numbers here, so that the names of a large cluster are kept once.

    A value that changes after it stood still gets two rows: the old value at the tick before, and the new one. A line
    through the rows is therefore what was seen, and a gap longer than a heartbeat means that nothing was seen.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, _Seen]] = defaultdict(dict)

    def rows_of(self, kind: Kind[Any], told: Told) -> Changes:
        rows: list[tuple[int, int, tuple[Value, ...]]] = []
        looked_at = set()
        of_kind = self._seen[kind.name]
        for entity, values in told.values.items():
            seen, at_ms = of_kind.get(entity), told.read_at_ms.get(entity, told.at_ms)
            if seen is None:
                rows.append((entity, at_ms, values))
            elif kind.every_ms and seen.seen_ms // kind.every_ms == at_ms // kind.every_ms:
                continue
            elif values != (before := seen.values):
                if seen.seen_ms > seen.written_ms:
                    rows.append((entity, seen.seen_ms, before))
                rows.append((entity, at_ms, values))
            elif seen.written_ms // kind.heartbeat_ms != at_ms // kind.heartbeat_ms:
                rows.append((entity, at_ms, values))
            looked_at.add(entity)
        return Changes(rows, looked_at)

    def remember(self, kind: Kind[Any], told: Told, changes: Changes) -> None:
        """To be called when the rows are safe, for a kind of which the tick says something."""
        of_kind = self._seen[kind.name]
        written = {entity for entity, t, _ in changes.rows if t == told.read_at_ms.get(entity, told.at_ms)}
        for entity in changes.looked_at:
            seen, at_ms = of_kind.get(entity), told.read_at_ms.get(entity, told.at_ms)
            if seen is None:
                of_kind[entity] = _Seen(told.values[entity], at_ms)
                continue
            seen.values, seen.seen_ms = told.values[entity], at_ms
            if entity in written:
                seen.written_ms = at_ms
        # What is gone starts anew if it comes back.
        for entity in of_kind.keys() - told.values.keys():
            del of_kind[entity]

    def forget(self) -> None:
        """Write every entity in the next tick."""
        self._seen.clear()
