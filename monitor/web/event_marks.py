"""Groups the events of a chart into marks that do not overlap, each with its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from highwater.common.units import count_text
from highwater.drawing.close_together import close_together
from highwater.drawing.plot import Band, Mark
from highwater.monitor.causes import by_cause
from highwater.monitor.events import Event, EventKind
from highwater.monitor.web.cells import visible

_MOST_SENTENCES: Final = 100
"""The most sentences of one group; the page of events has all of them."""
_LONGEST_TITLE: Final = 200
_BAD: Final = frozenset(
    {EventKind.PARTITION_OFFLINE, EventKind.BROKER_GONE, EventKind.OTHER_CLUSTER, EventKind.TOPIC_RECREATED}
)
_WARN: Final = frozenset(
    {
        EventKind.ISR_SHRINK,
        EventKind.LEADER_CHANGE,
        EventKind.CONTROLLER_CHANGE,
        EventKind.HOST_RESTART,
        EventKind.CLOCK_STEP,
    }
)


@dataclass(frozen=True, slots=True)
class MarkGroup:
    """Events that are so close in time that they share a mark."""

    number: int
    """The place in the order of time, from 1; the text in the flag."""
    events: tuple[Event, ...]
    """Events in the order of time."""

    @property
    def anchor(self) -> str:
        """The id of its words in the page. It does not change while newer events come."""
        return f"mark-{self.events[0].at_ms}"

    @property
    def when(self) -> str:
        first, last = self.events[0].at_ms, self.events[-1].at_ms
        begin, end = (datetime.fromtimestamp(at_ms / 1000, UTC) for at_ms in (first, last))
        if begin == end:
            return f"{begin:%Y-%m-%d %H:%M:%S} UTC"
        return (
            f"{begin:%Y-%m-%d %H:%M:%S} – {end:{'%H:%M:%S' if begin.date() == end.date() else '%Y-%m-%d %H:%M:%S'}} UTC"
        )

    @property
    def summary(self) -> str:
        """What happened: the sentence of a single cause, and a count of each kind otherwise."""
        lines = by_cause(self.events[::-1])
        if len(lines) == 1:
            return lines[0].line.text
        kinds = Counter(each.line.kind for each in lines)
        counted = (
            (kind_words(kind), f" ×{count_text(many)}" if many > 1 else "") for kind, many in kinds.most_common()
        )
        return ", ".join(kind + times for kind, times in counted)

    @property
    def shown(self) -> Sequence[Event]:
        return self.events[:_MOST_SENTENCES]

    @property
    def left_out(self) -> int:
        return len(self.events) - len(self.shown)

    @property
    def tone(self) -> str:
        kinds = {event.kind for event in self.events}
        return "bad" if kinds & _BAD else "warn" if kinds & _WARN else ""

    @property
    def mark(self) -> Mark:
        words = visible(f"{self.when}: {self.summary}")
        short = words if len(words) <= _LONGEST_TITLE else words[: _LONGEST_TITLE - 1] + "…"
        return Mark(self.events[0].at_ms / 1000, str(self.number), short, f"#{self.anchor}", self.tone)


@dataclass(frozen=True, slots=True)
class Happened:
    """What happened in the time of some charts."""

    marks: tuple[MarkGroup, ...] = ()
    bands: tuple[Band, ...] = ()
    """When the bench measured the cluster."""
    note: str = ""
    """What the marks leave out, as a sentence."""


def kind_words(kind: EventKind) -> str:
    return kind.value.replace("_", " ")


def grouped(events: Sequence[Event], span: tuple[int, int], most: int) -> list[MarkGroup]:
    """Return at most `most` + 1 groups of the events in `span`."""
    groups = close_together(events, lambda event: event.at_ms, span[1] - span[0], most)
    return [MarkGroup(number, tuple(group)) for number, group in enumerate(groups, start=1)]


def trial_bands(events: Sequence[Event], span: tuple[int, int]) -> list[Band]:
    """The times in which the bench measured the cluster; a trial without a begin or an end goes on to that side."""
    begins = {event.after: event.at_ms for event in events if event.kind is EventKind.BENCH_TRIAL_BEGAN}
    ends = {event.before: event.at_ms for event in events if event.kind is EventKind.BENCH_TRIAL_ENDED}
    times = [(begins.get(trial, span[0]), ends.get(trial, span[1])) for trial in begins.keys() | ends.keys()]
    return [Band("bench", begin / 1000, end / 1000) for begin, end in sorted(times)]
