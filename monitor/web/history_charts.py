"""Charts and sparklines of the pages, from the history, and the words for a history that is not there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from markupsafe import Markup

from highwater.drawing.plot import Size
from highwater.monitor.causes import TURNS, Happening, by_cause
from highwater.monitor.errors import HistoryError
from highwater.monitor.events import Event
from highwater.monitor.figures.findings import KAFKA
from highwater.monitor.figures.rows import FindingKind
from highwater.monitor.history.reader import About, HistoryReader
from highwater.monitor.web import words
from highwater.monitor.web.charts import Line, chart, spark
from highwater.monitor.web.event_marks import Happened, grouped, trial_bands
from highwater.monitor.web.pages import Seen
from highwater.monitor.web.routing import Call
from highwater.monitor.web.tables import address

_BUCKET_MS: Final = 600_000
"""A point of the last hour may stand for five minutes, from when it has its time, and some sources are asked seldom."""
_HOUR_S: Final = 3600
RANGES: Final[Mapping[str, int]] = {
    "1h": _HOUR_S,
    "6h": 6 * _HOUR_S,
    "24h": 24 * _HOUR_S,
    "7d": 7 * 24 * _HOUR_S,
    "30d": 30 * 24 * _HOUR_S,
}
_DEFAULT_RANGE: Final = "1h"
_CHART: Final = Size(580, 230)
_SHORTEST_MS: Final = 60_000
_MOST_MARKS: Final = 20
MOST_EVENTS: Final = 2000
_LAST_EVENTS: Final = 10
_MOST_TOPICS: Final = 50
EXPLORER: Final = "/explorer"
NO_HISTORY: Final = "There is no history: the monitor was started without one."


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    title: str
    unit: str
    """`B` for bytes, which get a prefix; anything else is written as it is."""


METRICS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "cluster": (
        Metric("end_offsets.rate", "Produced", "records/s"),
        Metric("lag", "Lag of all groups", "records"),
        Metric("under_replicated", "Under-replicated partitions", "partitions"),
        Metric("size_bytes", "Size of all replicas", "B"),
    ),
    "broker": (
        Metric("bytes_in.rate", "Produced to it", "B/s"),
        Metric("bytes_out.rate", "Fetched from it", "B/s"),
        Metric("size_bytes", "Size of its replicas", "B"),
        Metric("leaders", "Partitions that it leads", "partitions"),
    ),
    "host": (
        Metric("cpu_busy_s.rate", "CPU", "cores"),
        Metric("disk_written_bytes.rate", "Written by disks", "B/s"),
        Metric("disk_read_bytes.rate", "Read by disks", "B/s"),
        Metric("dirty_bytes", "Not yet written to disks", "B"),
        Metric("page_cache_bytes", "Page cache", "B"),
        Metric("resident_bytes", "Part of the logs in memory", "B"),
    ),
    "topic": (
        Metric("end_offsets.rate", "Produced", "records/s"),
        Metric("size_bytes", "Size of all replicas", "B"),
    ),
    "group": (
        Metric("lag", "Lag", "records"),
        Metric("lag_s", "Age of the oldest record not read", "s"),
    ),
    "client": (
        Metric("produce_ms", "Producing, as clients feel it", "ms"),
        Metric("broker_produce_ms", "Producing, in the brokers", "ms"),
        Metric("fetch_ms", "Fetching, as clients feel it", "ms"),
        Metric("broker_fetch_ms", "Fetching, in the brokers", "ms"),
    ),
}


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    summary: str
    drawing: Markup
    explorer: str
    """The address where one can zoom into it."""


@dataclass(frozen=True, slots=True)
class Section:
    """The history of one thing, for a page. `problem` says why there are no charts."""

    charts: tuple[Chart, ...] = ()
    problem: str = ""
    chosen: str = _DEFAULT_RANGE
    ranges: tuple[str, ...] = tuple(RANGES)
    happened: Happened = field(default_factory=Happened)


@dataclass(frozen=True, slots=True)
class Spark:
    title: str
    note: str
    """Its newest value, and the highest, as a small chart has no axis."""
    drawing: Markup


def section(call: Call, seen: Seen, kind: str, name: str, topics: Collection[str] = ()) -> Section:
    """`topics`: whose events explain these charts too, such as those that a group reads."""
    chosen = call.query.get("range", "")
    chosen = chosen if chosen in RANGES else _DEFAULT_RANGE
    reader = call.site.history
    if reader is None:
        return Section(problem=NO_HISTORY, chosen=chosen)
    to_ms = seen.snapshot.taken_at_ms
    is_too_many = len(topics) > _MOST_TOPICS
    about = About(((kind, name), *(("topic", topic) for topic in topics if not is_too_many)))
    try:
        span = _span(reader, kind, name, to_ms, RANGES[chosen])
        happened = what_happened(reader, about, span, _MOST_MARKS)
        if is_too_many:
            note = f"Events of its {words.count(len(topics))} topics are not marked. {happened.note}"
            happened = replace(happened, note=note.rstrip())
        lines = [
            Line(metric.title, metric.unit, reader.series(kind, name, metric.name, *span).points)
            for metric in METRICS[kind]
        ]
    except HistoryError as error:
        return Section(problem=f"The history cannot be read: {error}", chosen=chosen)
    drawings = [chart(f"history-{at}", line.title, [line], span, happened, _CHART) for at, line in enumerate(lines)]
    drawn = tuple(
        Chart(metric.title, line.summary, drawing, explorer_address(kind, name, metric.name, chosen))
        for metric, line, drawing in zip(METRICS[kind], lines, drawings, strict=True)
        if drawing
    )
    problem = "" if drawn else "The history has nothing for this time yet."
    return Section(drawn, problem, chosen, happened=happened)


def explorer_address(kind: str, name: str, metric: str, chosen: str) -> str:
    return address(EXPLORER, {"s1": f"{kind}:{metric}:{name}", "range": chosen})


def what_happened(reader: HistoryReader, about: About, span: tuple[int, int], most_marks: int) -> Happened:
    """Raises HistoryError."""
    events = reader.events(*span, most=MOST_EVENTS + 1, about=about)
    note = ""
    if len(events) > MOST_EVENTS:
        events = events[:MOST_EVENTS]
        note = f"Only the newest {words.count(MOST_EVENTS)} events of this time are marked."
    lines = _lines_of(events, reader.events(*span, most=MOST_EVENTS))
    whole = [event for line in lines for event in line.parts or (line.line,)]
    whole.sort(key=lambda event: event.at_ms, reverse=True)
    return Happened(tuple(grouped(whole, span, most_marks)), tuple(trial_bands(events, span)), note)


def _lines_of(own: Sequence[Event], others: Sequence[Event]) -> list[Happening]:
    """Return the lines of the own events of a thing. What a broker did is whole, with the events of others.

    Its figures would be of different things otherwise.
    """
    events = sorted(dict.fromkeys((*others, *own)), key=lambda event: event.at_ms, reverse=True)
    wanted = set(own)
    found: list[Happening] = []
    for line in by_cause(events):
        about_them = [event for event in line.parts or (line.line,) if event in wanted]
        if about_them:
            found += [line] if line.line.kind in TURNS else by_cause(about_them[::-1])
    return found


def _span(reader: HistoryReader, kind: str, name: str, to_ms: int, range_s: int) -> tuple[int, int]:
    """Return the time of a chart: no more than there is. Raises HistoryError."""
    first_ms = reader.first_ms(kind, name)
    begin_ms = to_ms - 1000 * range_s
    return begin_ms if first_ms is None else max(begin_ms, min(first_ms, to_ms - _SHORTEST_MS)), to_ms


def sparklines(call: Call, seen: Seen) -> tuple[list[Spark], str]:
    """Return small charts of the last hour, and the time that they have in words; no charts without a history."""
    reader = call.site.history
    if reader is None:
        return [], ""
    to_ms = seen.snapshot.taken_at_ms
    name = seen.snapshot.cluster
    try:
        span = _span(reader, "cluster", name, to_ms, _HOUR_S)
        happened = what_happened(reader, About((("cluster", name),)), span, _MOST_MARKS)
        lines = [
            Line(metric.title, metric.unit, reader.series("cluster", name, metric.name, *span, 120).points)
            for metric in METRICS["cluster"]
        ]
    except HistoryError:
        return [], ""
    time = words.time_ms(span[1] - span[0])
    sparks = []
    for line in lines:
        if line.known:
            when = _when(line, seen)
            newest, most = words.amount(line.known[-1], line.unit), words.amount(line.top, line.unit)
            drawing = spark(line, span, happened.marks, f"{time}: at most {most}, {newest} {when}")
            note = f"{newest} {when}" + (f", at most {most}" if most != newest else "")
            sparks.append(Spark(line.title, note, drawing))
    return sparks, time


def _when(line: Line, seen: Seen) -> str:
    """`now`, or the time of the newest value: the cluster may have fallen silent, or this figure may."""
    is_silent = any(
        each.kind is FindingKind.SOURCE_SILENT and each.subject == f"source {KAFKA}" for each in seen.figures.findings
    )
    as_of_ms = (seen.snapshot.sources[KAFKA].as_of_ms if is_silent else None) or seen.snapshot.taken_at_ms
    newest_ms = max(point.at_ms for point in line.points if isinstance(point.value, float))
    is_newest = as_of_ms - newest_ms <= _BUCKET_MS
    if is_newest and not is_silent:
        return "now"
    return f"last, {words.clock_time(as_of_ms if is_newest else newest_ms)}"


def last_events(call: Call, seen: Seen, about: About | None = None, most: int = _LAST_EVENTS) -> list[Happening] | str:
    """The newest ones, those of one cause in one line, or a sentence that says why there are none."""
    if call.site.history is None:
        return NO_HISTORY
    try:
        since_ms = seen.snapshot.taken_at_ms - 1000 * RANGES["24h"]
        reader = call.site.history
        events = reader.events(since_ms, most=MOST_EVENTS)
        if about is None:
            lines = by_cause(events)
        else:
            lines = _lines_of(reader.events(since_ms, most=MOST_EVENTS, about=about), events)
        return lines[:most] or "Nothing has happened in the last 24 hours."
    except HistoryError as error:
        return f"The history cannot be read: {error}"


def state(call: Call) -> str:
    """What the history holds, as a sentence."""
    if call.site.history is None:
        return NO_HISTORY
    try:
        size = call.site.history.sizes()
    except HistoryError as error:
        return f"The history cannot be read: {error}"
    spans = "; ".join(f"{span.tier.value} since {words.clock_time(span.oldest_ms)}" for span in size.tiers)
    return f"{size.shown} has {words.size(size.size_bytes)}: {spans or 'no rows yet'}."
