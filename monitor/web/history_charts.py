"""Charts, sparklines and events from the history, and the words for a history that is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from highwater.common.units import BINARY_BYTES, unit_for
from highwater.monitor.errors import HistoryError
from highwater.monitor.events import Event, EventKind
from highwater.monitor.history.reader import HistoryReader, Point
from highwater.monitor.web import cells, words
from highwater.monitor.web.filters import Kind
from highwater.monitor.web.pages import Seen
from highwater.monitor.web.routing import Call
from highwater.monitor.web.tables import Column, Table
from highwater.reports.axes import Axis, linear
from highwater.reports.downsample import Point as Drawn
from highwater.reports.plot import Area, Level, Series, Size, line_panel, path_data
from highwater.reports.svg import element

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
_SPARK: Final = (160, 32)
_FREE_END: Final = 0.03
_MOST_MARKS: Final = 8
_MOST_EVENTS: Final = 2000
_LAST_EVENTS: Final = 20
_MARKED: Final = frozenset(
    {
        EventKind.LEADER_CHANGE,
        EventKind.PARTITION_OFFLINE,
        EventKind.ISR_SHRINK,
        EventKind.REASSIGNMENT,
        EventKind.CONTROLLER_CHANGE,
        EventKind.BROKER_GONE,
        EventKind.BROKER_BACK,
        EventKind.TOPIC_RECREATED,
        EventKind.CONFIG_CHANGE,
        EventKind.GROUP_REBALANCE,
        EventKind.TUNING_CHANGE,
        EventKind.KERNEL_CHANGE,
        EventKind.HOST_RESTART,
    }
)
NO_HISTORY: Final = "The monitor keeps no history: it was started without one."


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    title: str
    unit: str
    """`B` for bytes, which get a prefix; anything else is written as it is."""


METRICS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "cluster": (
        Metric("end_offsets.rate", "Produced", "offsets/s"),
        Metric("lag", "Lag of all groups", "offsets"),
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
        Metric("dirty_bytes", "Dirty", "B"),
        Metric("page_cache_bytes", "Page cache", "B"),
        Metric("resident_bytes", "Of the logs, in memory", "B"),
    ),
    "topic": (
        Metric("end_offsets.rate", "Produced", "offsets/s"),
        Metric("size_bytes", "Size of all replicas", "B"),
    ),
    "group": (
        Metric("lag", "Lag", "offsets"),
        Metric("lag_s", "Age of the oldest record not read", "s"),
    ),
}


@dataclass(frozen=True, slots=True)
class Section:
    """The history of one thing, for a page. `problem` says why there are no charts."""

    charts: tuple[Markup, ...] = ()
    problem: str = ""
    chosen: str = _DEFAULT_RANGE
    ranges: tuple[str, ...] = tuple(RANGES)
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Spark:
    title: str
    drawing: Markup


def section(call: Call, seen: Seen, kind: str, name: str) -> Section:
    chosen = call.query.get("range", "")
    chosen = chosen if chosen in RANGES else _DEFAULT_RANGE
    reader = call.site.history
    if reader is None:
        return Section(problem=NO_HISTORY, chosen=chosen)
    to_ms = seen.snapshot.taken_at_ms
    from_ms = to_ms - 1000 * RANGES[chosen]
    try:
        events = _events_of(reader, kind, name, from_ms, to_ms)
        charts = [
            _chart(
                f"history-{number}",
                metric,
                reader.series(kind, name, metric.name, from_ms, to_ms).points,
                events,
                (from_ms, to_ms),
            )
            for number, metric in enumerate(METRICS[kind])
        ]
    except HistoryError as error:
        return Section(problem=f"The history cannot be read: {error}", chosen=chosen)
    drawn = tuple(chart for chart in charts if chart)
    problem = "" if drawn else "The history has nothing of this time yet."
    return Section(drawn, problem, chosen, events=tuple(events[:_LAST_EVENTS]))


def sparklines(call: Call, seen: Seen) -> list[Spark]:
    """Of the last hour; empty without a history."""
    reader = call.site.history
    if reader is None:
        return []
    to_ms = seen.snapshot.taken_at_ms
    from_ms = to_ms - 1000 * _HOUR_S
    try:
        found = [
            (metric, reader.series("cluster", seen.snapshot.cluster, metric.name, from_ms, to_ms, 120).points)
            for metric in METRICS["cluster"]
        ]
    except HistoryError:
        return []
    return [Spark(metric.title, _spark(metric, points, (from_ms, to_ms))) for metric, points in found if _known(points)]


def last_events(call: Call, seen: Seen) -> list[Event] | str:
    """The newest ones, or a sentence that says why there are none."""
    if call.site.history is None:
        return NO_HISTORY
    try:
        since_ms = seen.snapshot.taken_at_ms - 1000 * RANGES["24h"]
        return call.site.history.events(since_ms, most=_LAST_EVENTS) or "Nothing has happened in the last 24 hours."
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


def events_table(call: Call, seen: Seen) -> Table[Event]:
    """Of the last 30 days, the newest 2,000."""
    rows: Sequence[Event] = ()
    empty = NO_HISTORY
    if call.site.history is not None:
        try:
            since_ms = seen.snapshot.taken_at_ms - 1000 * RANGES["30d"]
            rows, empty = call.site.history.events(since_ms, most=_MOST_EVENTS), "Nothing has happened in 30 days."
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


_EVENTS: Final[tuple[Column[Event], ...]] = (
    Column("time", "Time", Kind.NUMBER, lambda r: r.at_ms, lambda r: words.clock_time(r.at_ms)),
    Column("text", "What", Kind.TEXT, lambda r: r.text, lambda r: cells.name_text(r.text), is_prose=True),
    Column("kind", "Kind", Kind.TEXT, lambda r: r.kind.value, lambda r: r.kind.value.replace("_", " ")),
    Column("name", "Of", Kind.TEXT, lambda r: r.name, event_link),
    Column("entity", "Entity", Kind.TEXT, lambda r: r.entity, is_shown=False),
    Column("before", "Before", Kind.TEXT, lambda r: r.before, is_shown=False),
    Column("after", "After", Kind.TEXT, lambda r: r.after, is_shown=False),
)


def _events_of(reader: HistoryReader, kind: str, name: str, from_ms: int, to_ms: int) -> list[Event]:
    """Of this thing, of a topic's partitions, and of the whole cluster."""
    found = reader.events(from_ms, to_ms, most=_MOST_EVENTS)

    def concerns(event: Event) -> bool:
        if event.entity == "cluster":
            return True
        if kind == "topic" and event.entity == "partition":
            return event.name.rpartition("-")[0] == name
        return (event.entity, event.name) == (kind, name)

    return [event for event in found if concerns(event)]


def _known(points: Sequence[Point]) -> list[tuple[int, float]]:
    return [(point.at_ms, point.value) for point in points if isinstance(point.value, float)]


def _chart(
    name: str, metric: Metric, points: Sequence[Point], events: Sequence[Event], span: tuple[int, int]
) -> Markup | None:
    known = _known(points)
    if not known:
        return None
    top = max([value for _, value in known] + [point.high for point in points if point.high is not None])
    unit, divisor = metric.unit, 1.0
    if unit.startswith("B"):
        prefix, size = unit_for(top, BINARY_BYTES)
        unit, divisor = prefix + unit[1:], float(size)
    line = [Drawn(p.at_ms / 1000, p.value / divisor if isinstance(p.value, float) else None) for p in points]
    low = [Drawn(p.at_ms / 1000, None if p.low is None else p.low / divisor) for p in points]
    high = [Drawn(p.at_ms / 1000, None if p.high is None else p.high / divisor) for p in points]
    has_band = any(a.y != b.y for a, b in zip(low, high, strict=True))
    newest = known[-1][1] / divisor
    return line_panel(
        name,
        metric.title,
        f"{metric.title}: {newest:,.3g} {unit} at the end, at most {top / divisor:,.3g} {unit}.",
        [Series(1, metric.title, line, solid=True)],
        _time_axis(*span),
        linear(f"{metric.title}, {unit}", unit, [top / divisor], 5),
        _CHART,
        areas=[Area(1, low, high)] if has_band else [],
        moments=_marks(events),
        end_labels=False,
    )


def _marks(events: Sequence[Event]) -> list[Level]:
    """The newest events as lines; the list beneath the charts has all of them."""
    marked = [event for event in events if event.kind in _MARKED][:_MOST_MARKS]
    return [Level(event.kind.value.replace("_", " "), event.at_ms / 1000) for event in marked]


def _time_axis(from_ms: int, to_ms: int) -> Axis:
    low, high = from_ms / 1000, to_ms / 1000
    steps = (600, 1800, 3600, 2 * 3600, 4 * 3600, 6 * 3600, 86_400, 2 * 86_400, 5 * 86_400)
    step = next((each for each in steps if (high - low) / each <= 7), steps[-1])
    first = -(-from_ms // 1000 // step) * step if from_ms % (1000 * step) else from_ms // 1000
    pattern = "%H:%M" if step < 86_400 else "%d %b"
    ticks = tuple(
        (float(at), f"{datetime.fromtimestamp(at, UTC):{pattern}}") for at in range(first, int(high) + 1, step)
    )
    # The label of a tick at the very end would be cut off.
    last = high - _FREE_END * (high - low)
    return Axis("UTC", "s", "linear", low, high, tuple(tick for tick in ticks if low <= tick[0] <= last))


def _spark(metric: Metric, points: Sequence[Point], span: tuple[int, int]) -> Markup:
    width, height = _SPARK
    known = _known(points)
    top = max(max(value for _, value in known), 1e-9)
    length_ms = span[1] - span[0]
    drawn = [
        Drawn(
            (point.at_ms - span[0]) * width / length_ms,
            height - 2 - point.value * (height - 4) / top if isinstance(point.value, float) else None,
        )
        for point in points
    ]
    shown = words.size if metric.unit.startswith("B") else words.count
    return element(
        "svg",
        element("title", f"{metric.title} in the last hour: at most {shown(top)}, {shown(known[-1][1])} now"),
        element("path", class_="l s1", d=path_data(drawn)),
        class_="spark",
        role="img",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
    )
