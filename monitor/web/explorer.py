"""The explorer: any series of the history over any time, as a chart, a table and a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from highwater.drawing.plot import Size, swatch
from highwater.monitor.errors import HistoryError
from highwater.monitor.history.kinds import CLUSTER, GROUP, GROUP_PARTITION, KINDS, PARTITION
from highwater.monitor.history.reader import RATE, About, HistoryReader, Point, Series, metrics_of, unit_of
from highwater.monitor.web import cells, words
from highwater.monitor.web.charts import MOST_AXES, MOST_LINES, Line, chart
from highwater.monitor.web.event_marks import Happened
from highwater.monitor.web.history_charts import EXPLORER, METRICS, NO_HISTORY, RANGES, what_happened
from highwater.monitor.web.pages import Seen, of_cluster, redirect, render_cluster
from highwater.monitor.web.routing import Call
from highwater.monitor.web.tables import Column, Table, address, arrange
from highwater.monitor.web.units import COUNT, TEXT, TIME

_DAY_S: Final = 86_400
SPANS_S: Final[Mapping[str, int]] = {**RANGES, "90d": 90 * _DAY_S, "1y": 365 * _DAY_S, "2y": 730 * _DAY_S}
_DEFAULT_SPAN: Final = "1h"
_ALL: Final = "all"
"""The range of everything that the history has."""
_SHORTEST_MS: Final = 10_000
_LAST_MS: Final = 4_102_444_800_000
"""The begin of 2100: no history has more."""
_CHART: Final = Size(1200, 380)
_MOST_MARKS: Final = 40
_POINTS: Final = 600
_MOST_POINTS: Final = 5000
_MOST_NAMES: Final = 50
_EMPTY: Final = "The history has no values for this time."
_TIME: Final = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A series of the history, as it travels in an address: `broker:bytes_in.rate:1`."""

    kind: str
    metric: str
    name: str

    @staticmethod
    def parse(text: str) -> Chosen:
        """Raises HistoryError for a kind or metric that does not exist."""
        kind, _, rest = text.partition(":")
        metric, _, name = rest.partition(":")
        unit_of(kind, metric)
        return Chosen(kind, metric, name)

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.metric}:{self.name}"

    @property
    def subject(self) -> str:
        """Its kind and its name: a name alone, such as `1`, says little."""
        kind = "partition of group" if self.kind == GROUP_PARTITION.name else self.kind
        return cells.visible(f"{kind} {self.name}")

    @property
    def title(self) -> str:
        return f"{self.subject}: {metric_words(self.metric)}"

    @property
    def unit(self) -> str:
        return unit_of(self.kind, self.metric)

    @property
    def meaning(self) -> str:
        return metrics_of(self.kind).get(self.metric, "")


@dataclass(frozen=True, slots=True)
class View:
    """What an address asks for."""

    series: tuple[Chosen, ...]
    apart: frozenset[int]
    """Numbers of series, from 1, that have an axis of their own although their unit is that of the first."""
    span: tuple[int, int]
    """Unix time in milliseconds."""
    range: str
    """A key of SPANS_S, or all; empty if the address names two times."""
    points: int
    problem: str = ""

    @property
    def axes(self) -> int:
        return len({(each.unit, number in self.apart) for number, each in enumerate(self.series, start=1)})

    def query(self, **changes: str) -> dict[str, str]:
        """The address of this view, with other times."""
        own = {f"s{number}": each.text for number, each in enumerate(self.series, start=1)}
        own["apart"] = "".join(map(str, sorted(self.apart)))
        return {**own, **(changes or self.times)}

    @property
    def times(self) -> dict[str, str]:
        if self.range:
            return {"range": self.range}
        return {"from": time_text(self.span[0]), "to": time_text(self.span[1])}

    def with_series(self, *series: Chosen) -> View:
        return View(series, self.apart, self.span, self.range, self.points)

    def without(self, number: int) -> View:
        left = tuple(each for at, each in enumerate(self.series, start=1) if at != number)
        apart = frozenset(at - (at > number) for at in self.apart if at != number)
        return View(left, apart, self.span, self.range, self.points)

    def flipped(self, number: int) -> View:
        return View(self.series, self.apart ^ {number}, self.span, self.range, self.points)


@dataclass(frozen=True, slots=True)
class PointRow:
    """One point of one series."""

    at_ms: int
    series: Chosen
    point: Point


def metric_words(metric: str) -> str:
    """`bytes_in.rate` -> `bytes in per second`."""
    return f"{metric.removesuffix(RATE)}{' per second' if metric.endswith(RATE) else ''}".replace("_", " ")


def time_text(at_ms: int) -> str:
    """Return the time in UTC and whole seconds, as an input of a browser takes it."""
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):{_TIME}}"


def read_view(query: Mapping[str, str], now_ms: int, oldest_ms: int | None = None) -> View:
    """What is wrong in an address becomes a sentence, and the rest of the address counts.

    oldest_ms: when the history begins; None if it has nothing.
    """
    series: list[Chosen] = []
    problems = []
    for number in range(1, MOST_LINES + 1):
        text = query.get(f"s{number}", "")
        if not text:
            continue
        try:
            chosen = Chosen.parse(text)
        except HistoryError as error:
            problems.append(f"Series {number} is left out: {error}.")
            continue
        if chosen not in series:
            series.append(chosen)
    apart = frozenset(number for number in range(2, len(series) + 1) if str(number) in query.get("apart", ""))
    chosen_range = query.get("range", "")
    span = None
    if "from" in query or "to" in query:
        span, problem = _span(query.get("from", ""), query.get("to", ""), now_ms)
        problems += [problem] if problem else []
    if span is None:
        begin_ms = now_ms - 1000 * SPANS_S.get(chosen_range, SPANS_S[_DEFAULT_SPAN])
        is_chosen = chosen_range in SPANS_S
        if oldest_ms is not None and (chosen_range == _ALL or (not is_chosen and oldest_ms > begin_ms)):
            chosen_range, begin_ms = _ALL, min(oldest_ms, now_ms - _SHORTEST_MS)
        elif not is_chosen:
            chosen_range = _DEFAULT_SPAN
        span = (begin_ms, now_ms)
    else:
        chosen_range = ""
    points = query.get("points", "")
    wanted = int(points) if points.isascii() and points.isdigit() and len(points) < 9 else _POINTS
    view = View(tuple(series), apart, span, chosen_range, min(max(wanted, 10), _MOST_POINTS))
    if view.axes > MOST_AXES:
        units = ", ".join(dict.fromkeys(each.unit or "counts" for each in series))
        problems.append(f"A chart has two axes, and these series need more ({units}): remove one of them.")
    return View(view.series, view.apart, view.span, view.range, view.points, " ".join(problems))


def _span(begin: str, end: str, now_ms: int) -> tuple[tuple[int, int] | None, str]:
    from_ms, to_ms = read_time(begin), read_time(end) if end else now_ms
    if from_ms is None or to_ms is None:
        return None, "A time is written as 2026-11-26T02:30:00, in UTC, or as milliseconds since 1970."
    if to_ms - from_ms < _SHORTEST_MS:
        return None, f"“From” must be {_SHORTEST_MS // 1000} seconds before “to” at least."
    return (from_ms, to_ms), ""


def read_time(text: str) -> int | None:
    """Milliseconds since 1970, of these or of a time in UTC; None for any other text."""
    if text.isascii() and text.isdigit() and len(text) <= len(str(_LAST_MS)):
        at_ms = int(text)
    else:
        try:
            at_ms = round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
        except (ValueError, OverflowError):
            return None
    return at_ms if 0 <= at_ms <= _LAST_MS else None


# -- The page ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listed:
    """A series in the list above the chart."""

    number: int
    chosen: Chosen
    sample: Markup
    tier: str
    is_apart: bool
    summary: str
    """Its last and its highest value; empty if the history has none of this time."""
    remove: str
    flip: str
    """The address in which it has another axis; empty where two axes are not enough for that."""


@of_cluster(EXPLORER)
def explorer_page(call: Call, seen: Seen) -> Response:
    reader = call.site.history
    view = read_view(call.query, seen.snapshot.taken_at_ms, _oldest_ms(reader))
    kind = call.query.get("kind", "")
    kind = kind if kind in KINDS else CLUSTER.name
    drawing: Markup | None = None
    listed: list[Listed] = []
    happened = Happened()
    names: list[str] = []
    found: list[Series] = []
    problem = view.problem
    part = call.query.get("name", "")
    metric = call.query.get("metric", "")
    metric = metric if metric in metrics_of(kind) else next(iter(metrics_of(kind)))
    if reader is not None:
        try:
            added = Chosen(kind, metric, part)
            if part and "metric" in call.query and len(view.series) < MOST_LINES and reader.has(kind, part):
                return redirect(_address(view.with_series(*dict.fromkeys((*view.series, added))), kind))
            names = reader.names(kind, _MOST_NAMES + 1, part)
            found = _read(reader, view)
            lines, listed = _lines(view, found, kind)
            if lines and view.axes <= MOST_AXES:
                happened = what_happened(reader, _about(view), view.span, _MOST_MARKS)
                drawing = chart("explorer", "Explorer", lines, view.span, happened, _CHART)
        except HistoryError as error:
            problem = f"The history cannot be read: {error}"
    return render_cluster(
        call,
        seen,
        "explorer.html.j2",
        "Explorer",
        EXPLORER,
        view=view,
        problem=NO_HISTORY if reader is None else problem,
        listed=listed,
        drawing=drawing,
        happened=happened,
        table=arrange(_table(view, found, _EMPTY), call.query) if found else None,
        ranges=[(name, address(EXPLORER, {**view.query(range=name), "kind": kind})) for name in (*SPANS_S, _ALL)],
        moves=_moves(view, seen.snapshot.taken_at_ms, kind),
        limits=(time_text(view.span[0]), time_text(view.span[1])),
        kinds=[(each, address(EXPLORER, {**view.query(), "kind": each})) for each in KINDS],
        kind=kind,
        metric=metric,
        metrics=metrics_of(kind),
        part=part,
        names=[
            (name, _address(view.with_series(*view.series, Chosen(kind, metric, name)), kind))
            for name in names[:_MOST_NAMES]
        ],
        has_more_names=len(names) > _MOST_NAMES,
        is_full=len(view.series) >= MOST_LINES,
        most=MOST_LINES,
        starts=_starts(seen, view) if not view.series else [],
    )


def _oldest_ms(reader: HistoryReader | None) -> int | None:
    try:
        return None if reader is None else reader.oldest_ms()
    except HistoryError:
        return None  # The page says so when it reads the series.


def _address(view: View, kind: str) -> str:
    return address(EXPLORER, {**view.query(), "kind": kind})


def _read(reader: HistoryReader, view: View) -> list[Series]:
    return [reader.series(each.kind, each.name, each.metric, *view.span, view.points) for each in view.series]


def _lines(view: View, found: Sequence[Series], kind: str) -> tuple[list[Line], list[Listed]]:
    lines, listed = [], []
    for number, (each, series) in enumerate(zip(view.series, found, strict=True), start=1):
        line = Line(each.title, each.unit, series.points, number in view.apart)
        lines.append(line)
        shares = sum(other.unit == each.unit for other in view.series) > 1
        can_flip = number > 1 and shares and view.flipped(number).axes <= MOST_AXES
        listed.append(
            Listed(
                number,
                each,
                swatch(number, solid=len(view.series) == 1, line=True),
                series.tier.value,
                number in view.apart,
                line.summary,
                _address(view.without(number), kind),
                _address(view.flipped(number), kind) if can_flip else "",
            )
        )
    return lines, listed


def _about(view: View) -> About:
    names = [(each.kind, each.name) for each in view.series]
    for kind, name in tuple(names):
        if kind == GROUP_PARTITION.name:
            group, _, partition = name.rpartition("/")
            names += [(GROUP.name, group), (PARTITION.name, partition)]
    return About(tuple(dict.fromkeys(names)))


def _moves(view: View, now_ms: int, kind: str) -> list[tuple[str, str]]:
    """Zoom without a script: names of moves, and their addresses."""
    from_ms, to_ms = view.span
    length, middle = to_ms - from_ms, (from_ms + to_ms) // 2
    spans = {
        "Zoom in": (middle - length // 4, middle + length // 4),
        "Zoom out": (middle - length, middle + length),
        "Earlier": (from_ms - length // 2, to_ms - length // 2),
        "Later": (from_ms + length // 2, to_ms + length // 2),
    }
    moves = []
    for name, (begin, end) in spans.items():
        if name == "Zoom in" and length // 2 < _SHORTEST_MS:
            continue
        over = max(end - now_ms, 0)
        begin, end = max(begin - over, 0), end - over
        if (begin, end) != view.span:
            times = {"from": time_text(begin), "to": time_text(end)}
            moves.append((name, address(EXPLORER, {**view.query(**times), "kind": kind})))
    return moves


def _starts(seen: Seen, view: View) -> list[tuple[str, str]]:
    """Views to begin with, while nothing is chosen."""
    cluster = [Chosen("cluster", metric.name, seen.snapshot.cluster) for metric in METRICS["cluster"][:2]]
    brokers = [Chosen("broker", "bytes_in.rate", str(node_id)) for node_id in list(seen.snapshot.brokers)[:MOST_LINES]]
    return [
        ("What is produced, and the lag of all groups", _address(view.with_series(*cluster), "cluster")),
        ("Bytes in of the brokers", _address(view.with_series(*brokers), "broker")),
    ]


# -- The table ---------------------------------------------------------------------------------------------------------


def points_table(call: Call, seen: Seen) -> Table[PointRow]:
    """The points of the chart, each one a row."""
    view = read_view(call.query, seen.snapshot.taken_at_ms, _oldest_ms(call.site.history))
    if call.site.history is None:
        return _table(view, [], NO_HISTORY)
    try:
        return _table(view, _read(call.site.history, view), _EMPTY)
    except HistoryError as error:
        return _table(view, [], f"The history cannot be read: {error}")


def _table(view: View, found: Sequence[Series], empty: str) -> Table[PointRow]:
    rows = [
        PointRow(point.at_ms, each, point)
        for each, series in zip(view.series, found, strict=False)
        for point in series.points
        if point.value is not None
    ]
    return Table("explorer", "Values", _COLUMNS, rows, empty, "-time")


def _value_text(row: PointRow, value: float | str | None) -> str:
    if not isinstance(value, float):
        return words.count(None) if value is None else value
    return words.amount(value, row.series.unit)


_COLUMNS: Final[tuple[Column[PointRow], ...]] = (
    Column("time", "Time", TIME, lambda r: r.at_ms),
    Column("name", "About", TEXT, lambda r: r.series.name, lambda r: cells.name_text(r.series.subject)),
    Column("metric", "What", TEXT, lambda r: r.series.metric, lambda r: metric_words(r.series.metric)),
    Column("value", "Value", COUNT, lambda r: r.point.value, lambda r: _value_text(r, r.point.value)),
    Column("least", "Least", COUNT, lambda r: r.point.low, lambda r: _value_text(r, r.point.low)),
    Column("most", "Most", COUNT, lambda r: r.point.high, lambda r: _value_text(r, r.point.high)),
    Column("kind", "", TEXT, lambda r: r.series.kind),
    Column("unit", "", TEXT, lambda r: r.series.unit),
)
