"""Joins stored events that have one cause, such as the loss of a broker, into one line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from highwater.common.units import count_text, plural
from highwater.monitor.events import Event, EventKind, partitions_of

_BEFORE_MS: Final = 60_000
"""Leaders move before a broker that is stopped leaves, and some sources are asked seldom."""
_AFTER_MS: Final = 600_000
"""A broker that is back copies what it missed, and Kafka gives leaders back every five minutes."""
_REGISTRATION: Final = re.compile(r"/brokers/ids/(\d+)$")
_CONTROLLER: Final = re.compile(r'"brokerid":(\d+)')
TURNS: Final = (EventKind.BROKER_GONE, EventKind.BROKER_BACK, EventKind.BROKER_NEW)
_MOVES: Final = (EventKind.LEADER_CHANGE, EventKind.PARTITION_OFFLINE, EventKind.ISR_SHRINK, EventKind.ISR_EXPAND)


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of a list of events."""

    line: Event
    """The event itself, or its cause with a sentence for all `parts`."""
    parts: tuple[Event, ...] = ()
    """The events that the line stands for, in the order of time; empty if there is one."""

    @property
    def anchor(self) -> str:
        """An id in a page, which does not change while newer events come."""
        line = self.line
        return f"cause-{line.at_ms}-{line.kind.value}-{line.name if line.entity == 'broker' else ''}"


def by_cause(events: Sequence[Event]) -> list[Happening]:
    """Return a line for each cause; each event is in one line. Both `events` and the lines begin with the newest."""
    in_time = events[::-1]
    causes: dict[int, int] = {}
    """The place of the event that names the line, for each place of an event that has a cause."""
    for find in (_of_reassignments, _of_brokers, _of_ticks):
        free = [(place, event) for place, event in enumerate(in_time) if place not in causes]
        causes.update(find(free))
    parts: dict[int, list[Event]] = defaultdict(list)
    for place, event in enumerate(in_time):
        parts[causes.get(place, place)].append(event)
    found = sorted(((in_time[place].at_ms, place) for place in parts), reverse=True)
    return [_happening(in_time[place], parts[place]) for _, place in found]


_Placed: TypeAlias = Sequence[tuple[int, Event]]


def _of_reassignments(events: _Placed) -> Iterator[tuple[int, int]]:
    """Replicas that are added come first, and those that are removed when the new ones are in sync."""
    cause, newest_ms = -1, 0
    seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, event in events:
        if event.kind is EventKind.REASSIGNMENT:
            if cause < 0 or event.at_ms - newest_ms > _AFTER_MS:
                cause = place
            newest_ms = event.at_ms
            yield place, cause
            for name in partitions_of(event)[0]:
                seen[name].append((event.at_ms, cause))
    for place, event in events:
        if event.kind in _MOVES:
            yield from ((place, of) for at_ms, of in seen.get(event.name, ()) if abs(at_ms - event.at_ms) <= _BEFORE_MS)


def _of_brokers(events: _Placed) -> Iterator[tuple[int, int]]:
    """What the loss or the return of a broker did, before the opposite happened to it."""
    turns: dict[str, list[tuple[int, Event]]] = defaultdict(list)
    for place, event in events:
        if event.kind in TURNS:
            turns[event.name].append((place, event))
    for place, event in events:
        near = [
            (abs(turn.at_ms - event.at_ms), cause)
            for name, is_loss in _brokers_of(event)
            for cause, turn in _around(turns.get(name, ()), event.at_ms, is_loss=is_loss)
        ]
        if near:
            yield place, min(near)[1]


def _brokers_of(event: Event) -> Iterator[tuple[str, bool]]:
    """Yield each broker whose loss (True) or return (False) can cause `event`."""
    if event.kind in _MOVES or event.kind is EventKind.CONTROLLER_CHANGE:
        yield event.before, True
        yield event.after.partition(" ")[0], False
    elif event.kind is EventKind.ZNODE_CHANGE:
        if found := _REGISTRATION.search(event.name):
            yield found[1], not event.after
        for data, is_loss in ((event.before, True), (event.after, False)):
            if event.name.endswith("/controller") and (of := _CONTROLLER.search(data)):
                yield of[1], is_loss


def _around(turns: _Placed, at_ms: int, *, is_loss: bool) -> Iterator[tuple[int, Event]]:
    """Yield the last turn before `at_ms` and the first one after it, if they are near and of this kind.

    The opposite in the same tick is later than what the tick saw.
    """
    split = bisect_right(turns, at_ms, key=lambda turn: turn[1].at_ms)
    while split and _is_loss(turns[split - 1][1]) is not is_loss and turns[split - 1][1].at_ms == at_ms:
        split -= 1
    for cause, turn in turns[max(0, split - 1) : split + 1]:
        if _is_loss(turn) is is_loss and -_BEFORE_MS <= at_ms - turn.at_ms <= _AFTER_MS:
            yield cause, turn


def _is_loss(turn: Event) -> bool:
    return turn.kind is EventKind.BROKER_GONE


def _of_ticks(events: _Placed) -> Iterator[tuple[int, int]]:
    """Changes of one kind that one tick saw, such as an election of preferred leaders."""
    first: dict[tuple[int, EventKind, str], int] = {}
    for place, event in events:
        if event.kind in _MOVES:
            yield place, first.setdefault((event.at_ms, event.kind, _replica_of(event)), place)


def _replica_of(event: Event) -> str:
    """The broker that left or joined in-sync replicas."""
    if event.kind is EventKind.ISR_SHRINK:
        return event.before
    return event.after.partition(" ")[0] if event.kind is EventKind.ISR_EXPAND else ""


# -- Sentences ---------------------------------------------------------------------------------------------------------

_LEADERS: Final = ("has a new leader", "have new leaders")
_DONE: Final = {
    EventKind.LEADER_CHANGE: _LEADERS,
    EventKind.PARTITION_OFFLINE: ("has no leader", "have no leader"),
    EventKind.ISR_SHRINK: ("has a copy less", "have a copy less"),
}
_DONE_BY_RETURN: Final = {
    EventKind.LEADER_CHANGE: ("has it as leader", "have it as leader"),
    EventKind.ISR_EXPAND: ("has its copy in sync", "have its copy in sync"),
}


def _happening(cause: Event, parts: list[Event]) -> Happening:
    if len(parts) == 1:
        return Happening(cause)
    if cause.kind in TURNS:
        done = ", ".join(_effects(parts, _DONE if _is_loss(cause) else _DONE_BY_RETURN))
        elected = next((part.text.partition(";")[0] for part in parts if part.kind is EventKind.CONTROLLER_CHANGE), "")
        effects = "; ".join(filter(None, (done, elected)))
        text = f"{cause.text}: {effects}" if effects else cause.text
        return Happening(replace(cause, text=text), tuple(parts))
    if cause.kind is EventKind.REASSIGNMENT:
        # A partition is in two of these events, one before its copies are made and one after.
        moved = [partitions_of(part) for part in parts if part.kind is EventKind.REASSIGNMENT]
        names = len(set().union(*(named for named, _ in moved)))
        least = "more than " if any(unnamed for _, unnamed in moved) else ""
        rest = "".join(f", {each}" for each in _effects(parts, {EventKind.LEADER_CHANGE: _LEADERS}, is_first=False))
        text = f"{least}{plural(names, 'partition')} moved to other replicas{rest}"
    elif cause.kind in (EventKind.ISR_SHRINK, EventKind.ISR_EXPAND):
        way = "left" if cause.kind is EventKind.ISR_SHRINK else "joined"
        text = f"broker {_replica_of(cause)} {way} the in-sync replicas of {_partitions(parts)[0]}"
    else:
        text = next(_effects(parts, _DONE))
    entity = ("broker", _replica_of(cause)) if _replica_of(cause) else ("cluster", "")
    return Happening(Event(cause.at_ms, cause.kind, *entity, text), tuple(parts))


def _effects(
    parts: Sequence[Event], words: Mapping[EventKind, tuple[str, str]], *, is_first: bool = True
) -> Iterator[str]:
    for kind, (one, many) in words.items():
        of_kind = [part for part in parts if part.kind is kind]
        if of_kind:
            shown, count = _partitions(of_kind)
            yield f"{shown if is_first else count_text(count)} {one if count == 1 else many}"
            is_first = False


def _partitions(events: Sequence[Event]) -> tuple[str, int]:
    """Partitions in words, and their number; each is counted once, if the events name it."""
    found = [partitions_of(event) for event in events]
    many = len(set().union(*(names for names, _ in found))) + sum(unnamed for _, unnamed in found)
    return plural(many, "partition"), many
