"""Reads the history for pages: the points of a line, events, and how large the history is."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, and_, func, or_, select, true
from sqlalchemy.exc import SQLAlchemyError

from highwater.common.nearest import did_you_mean
from highwater.monitor.errors import HistoryError
from highwater.monitor.events import Event, EventKind
from highwater.monitor.history.database import Database, reason_of
from highwater.monitor.history.kinds import (
    BROKER,
    CLUSTER,
    KINDS,
    PARTITION,
    TOPIC,
    HistoryColumn,
    Kind,
    Nature,
    Tier,
    Value,
    storable,
)
from highwater.monitor.history.tables import ENTITY, EVENT, MAXIMUM, MINIMUM, ROWS

RATE: Final = ".rate"
"""Ends the name of a metric that is the rate of a counter: `end_offsets.rate`."""
_MOST_RAW_ROWS: Final = 20_000
_LITTLE: Final = 50
"""A coarser tier must add this part of the time at least: rows are deleted some minutes after their time is over."""
_WIDE: Final = ("cluster", "broker", "host")
"""Kinds of entities whose events may explain what any chart shows: a broker that leaves, a setting of a host."""


@dataclass(frozen=True, slots=True)
class Point:
    at_ms: int
    """Unix time; the begin of the bucket of a coarser tier."""
    value: float | str | None
    """None where nothing was seen: the line ends there, and begins anew at the next point."""
    low: float | None = None
    high: float | None = None
    """The smallest and the largest value that this point stands for; None for what is no gauge."""


@dataclass(frozen=True, slots=True)
class Series:
    kind: str
    name: str
    metric: str
    meaning: str
    tier: Tier
    """The coarsest tier that points come from."""
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class TierSpan:
    tier: Tier
    oldest_ms: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class HistorySize:
    shown: str
    """The file or address."""
    size_bytes: int
    tiers: tuple[TierSpan, ...]


@dataclass(frozen=True, slots=True)
class About:
    """Which events a chart of some things needs: those of the things, and those that concern the whole cluster."""

    names: tuple[tuple[str, str], ...]
    """Kinds of entities and names; of a topic, events of its partitions are wanted too, and of a broker those of
    partitions that it led or followed. The kind `cluster` wants every event."""

    def condition(self) -> ColumnElement[bool]:
        if any(kind == CLUSTER.name for kind, _ in self.names):
            return true()
        is_partition = EVENT.c.entity_kind == PARTITION.name
        found: list[ColumnElement[bool]] = [EVENT.c.entity_kind.in_(_WIDE)]
        for kind, name in self.names:
            stored = storable(name)
            found.append(and_(EVENT.c.entity_kind == kind, EVENT.c.name == stored))
            if kind == TOPIC.name:
                found.append(and_(is_partition, *_is_partition_of(stored)))
            elif kind == BROKER.name:
                found.append(and_(is_partition, or_(EVENT.c.before == stored, EVENT.c.after == stored)))
        return or_(*found)


def _is_partition_of(topic: str) -> tuple[ColumnElement[bool], ...]:
    # LIKE alone takes capitals for small letters in SQLite, and `orders-new-1` for a partition of `orders`.
    begin = func.substr(EVENT.c.name, 1, len(topic) + 1) == f"{topic}-"
    return begin, func.substr(EVENT.c.name, len(topic) + 2).not_like("%-%")


class HistoryReader:
    """May be used by several threads. Every method raises HistoryError if the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def series(self, kind: str, name: str, metric: str, from_ms: int, to_ms: int, most_points: int = 400) -> Series:
        """Return the points of one entity from `from_ms` to `to_ms`, in the order of time.

        metric: a column of the kind, or a counter's with RATE behind it (per second). If there are more rows than
        `most_points`, a point stands for several: it has the average of a gauge, the last value of anything else.
        An entity that is not known has no points. Raises HistoryError for a kind or a metric that does not exist.
        """
        column, is_rate = _column(kind, metric)
        rows_kind = KINDS[kind]
        try:
            with self._database.reading.connect() as connection:
                entities = self._entities(connection, kind, name)
                points: list[Point] = []
                tier = Tier.RAW
                for entity_id in entities:
                    chosen, own = _points(connection, rows_kind, column, entity_id, (from_ms, to_ms), most_points)
                    tier = max(tier, chosen, key=list(Tier).index)
                    if points and own:
                        points.append(Point(own[0].at_ms, None))
                    points += _rates(own) if is_rate else own
        except SQLAlchemyError as error:
            raise HistoryError(f"{self._database.shown}: cannot read the history: {reason_of(error)}") from None
        return Series(kind, name, metric, column.meaning, tier, tuple(points))

    def names(self, kind: str, most: int = 1000, part: str = "") -> list[str]:
        """Return entities of a kind whose names contain `part`, in capitals or not, those that were seen last first."""
        query = (
            select(ENTITY.c.name)
            .where(ENTITY.c.kind == kind, ENTITY.c.name.icontains(storable(part), autoescape=True))
            .group_by(ENTITY.c.name)
            .order_by(func.max(ENTITY.c.last_ms).desc(), ENTITY.c.name)
            .limit(most)
        )
        return [str(name) for (name,) in self._all(query)]

    def events(
        self,
        since_ms: int,
        until_ms: int | None = None,
        most: int = 200,
        kinds: Collection[EventKind] = (),
        about: About | None = None,
    ) -> list[Event]:
        """Return events from `since_ms` on, the newest first, at most `most`; of all kinds if `kinds` is empty."""
        shown = (
            EVENT.c.t,
            EVENT.c.kind,
            EVENT.c.entity_kind,
            EVENT.c.name,
            EVENT.c.text,
            EVENT.c.before,
            EVENT.c.after,
        )
        query = select(*shown).where(EVENT.c.t >= since_ms)
        if until_ms is not None:
            query = query.where(EVENT.c.t <= until_ms)
        if about is not None:
            query = query.where(about.condition())
        if kinds:
            query = query.where(EVENT.c.kind.in_([kind.value for kind in kinds]))
        rows = self._all(query.order_by(EVENT.c.t.desc(), EVENT.c.id.desc()).limit(most))
        return [
            Event(at_ms, EventKind(kind), entity, name, text, before, after)
            for at_ms, kind, entity, name, text, before, after in rows
        ]

    def first_ms(self, kind: str, name: str) -> int | None:
        """Return when an entity was seen first; None if it never was."""
        query = select(func.min(ENTITY.c.first_ms)).where(ENTITY.c.kind == kind, ENTITY.c.name == storable(name))
        ((first_ms,),) = self._all(query)
        return None if first_ms is None else int(first_ms)

    def has(self, kind: str, name: str) -> bool:
        query = select(ENTITY.c.id).where(ENTITY.c.kind == kind, ENTITY.c.name == storable(name)).limit(1)
        return bool(self._all(query))

    def oldest_ms(self) -> int | None:
        """When the history begins; None if it has nothing."""
        return min((span.oldest_ms for span in self._spans()), default=None)

    def sizes(self) -> HistorySize:
        spans = tuple(self._spans())
        try:
            size_bytes = self._database.size_bytes
        except SQLAlchemyError as error:
            raise HistoryError(f"{self._database.shown}: cannot read the history: {reason_of(error)}") from None
        return HistorySize(self._database.shown, size_bytes, spans)

    def _spans(self) -> Iterator[TierSpan]:
        for tier in Tier:
            table = ROWS[CLUSTER.name, tier]
            ((oldest, newest),) = self._all(select(func.min(table.c.t), func.max(table.c.t)))
            if oldest is not None:
                yield TierSpan(tier, int(oldest), int(newest))

    def _entities(self, connection: Connection, kind: str, name: str) -> list[int]:
        """The ids of all that had this name, the oldest first."""
        query = (
            select(ENTITY.c.id)
            .where(ENTITY.c.kind == kind, ENTITY.c.name == storable(name))
            .order_by(ENTITY.c.first_ms)
        )
        return [int(number) for (number,) in connection.execute(query)]

    def _all(self, query: Any) -> Sequence[Any]:
        try:
            with self._database.reading.connect() as connection:
                return connection.execute(query).all()
        except SQLAlchemyError as error:
            raise HistoryError(f"{self._database.shown}: cannot read the history: {reason_of(error)}") from None


def unit_of(kind: str, metric: str) -> str:
    """Return `B`, `B/s`, `/s` and so on; empty for what is counted. Raises HistoryError as `series` does."""
    column, is_rate = _column(kind, metric)
    if not is_rate:
        return column.unit
    return "cores" if column.unit == "s" else f"{column.unit}/s"


def metrics_of(kind: str) -> dict[str, str]:
    """Return the metrics of a kind that have numbers, with their meanings: counters as rates too."""
    found = {}
    for column in KINDS[kind].columns:
        if column.nature is Nature.TEXT:
            continue
        found[column.name] = column.meaning
        if column.nature is Nature.COUNTER:
            found[column.name + RATE] = f"{column.meaning}, per second"
    return found


def _column(kind: str, metric: str) -> tuple[HistoryColumn[Any], bool]:
    if kind not in KINDS:
        raise HistoryError(f"the history has no kind {kind}{did_you_mean(kind, KINDS) or ': ' + ', '.join(KINDS)}")
    column = KINDS[kind].column(metric.removesuffix(RATE))
    is_rate = metric.endswith(RATE)
    if column is None or (is_rate and column.nature is not Nature.COUNTER):
        known = metrics_of(kind)
        hint = did_you_mean(metric, known) or ": " + ", ".join(known)
        raise HistoryError(f"the history has no metric {metric} of a {kind}{hint}")
    return column, is_rate


# -- Points ------------------------------------------------------------------------------------------------------------


def _points(
    connection: Connection,
    kind: Kind[Any],
    column: HistoryColumn[Any],
    entity_id: int,
    span: tuple[int, int],
    most_points: int,
) -> tuple[Tier, list[Point]]:
    """Points of the finest tier that goes back to the begin, and at the end those that it does not have yet."""
    from_ms, to_ms = span
    tier = _tier(connection, kind, entity_id, span)
    step_ms = max(tier.bucket_ms, 1, math.ceil((to_ms - from_ms) / max(most_points, 1)))
    points: list[Point] = []
    begin_ms = from_ms
    for each in reversed(kind.tiers[: kind.tiers.index(tier) + 1]):
        table = ROWS[kind.name, each]
        gap_ms = max(3 * each.bucket_ms, 2 * kind.heartbeat_ms if each is Tier.RAW else 0, 3 * step_ms)
        within = (table.c.entity_id == entity_id, table.c.t >= begin_ms, table.c.t <= to_ms)
        for point in _rows(connection, table, each, column, within, step_ms):
            if points and point.at_ms - points[-1].at_ms > gap_ms:
                points.append(Point(points[-1].at_ms + 1, None))
            points.append(point)
        newest_ms = connection.scalar(select(func.max(table.c.t)).where(*within))
        if newest_ms is not None:
            begin_ms = int(newest_ms) + each.bucket_ms
    return tier, points


def _tier(connection: Connection, kind: Kind[Any], entity_id: int, span: tuple[int, int]) -> Tier:
    """The finest tier, unless a coarser one goes back further within the span."""
    from_ms, to_ms = span
    best: tuple[int, Tier] | None = None
    for tier in kind.tiers:
        table = ROWS[kind.name, tier]
        mine = table.c.entity_id == entity_id
        # A row holds until the next one, which may be a heartbeat later.
        before_ms = kind.heartbeat_ms if tier is Tier.RAW else tier.bucket_ms
        within = (mine, table.c.t > from_ms - before_ms, table.c.t <= to_ms)
        oldest = connection.scalar(select(func.min(table.c.t)).where(*within))
        if oldest is None:
            continue
        if tier is Tier.RAW:
            inner = select(table.c.t).where(*within).limit(_MOST_RAW_ROWS + 1).subquery()
            if (connection.scalar(select(func.count()).select_from(inner)) or 0) > _MOST_RAW_ROWS:
                continue
        # The bucket in which the finer tier begins says nothing of the time before, though it begins earlier.
        if best is None or oldest + tier.bucket_ms <= best[0] - (to_ms - from_ms) // _LITTLE:
            best = (int(oldest), tier)
    return best[1] if best else Tier.RAW


def _rows(
    connection: Connection, table: Table, tier: Tier, column: HistoryColumn[Any], within: Any, step_ms: int
) -> list[Point]:
    value = table.c[column.name]
    if column.nature is not Nature.GAUGE:
        # The last value of a bucket was seen at its end.
        return _last_values(connection, table.c.t, value, within, step_ms, tier.bucket_ms)
    low = value if tier is Tier.RAW else table.c[column.name + MINIMUM]
    high = value if tier is Tier.RAW else table.c[column.name + MAXIMUM]
    query = (
        select(func.min(table.c.t), func.avg(value), func.min(low), func.max(high))
        .where(*within)
        .group_by(table.c.t - table.c.t % step_ms)
        .order_by(func.min(table.c.t))
    )
    return [
        Point(int(at_ms), _number(mean), _number(least), _number(most))
        for at_ms, mean, least, most in connection.execute(query)
    ]


def _last_values(
    connection: Connection, t: ColumnElement[int], value: ColumnElement[Any], within: Any, step_ms: int, later_ms: int
) -> list[Point]:
    # Rows by their key are cheaper than a window function over all of them.
    last = select(func.max(t)).where(*within).group_by(t - t % step_ms)
    query = select(t, value).where(*within, t.in_(last)).order_by(t)
    return [
        Point(int(at_ms) + later_ms, found if isinstance(found, str) else _number(found))
        for at_ms, found in connection.execute(query)
    ]


def _number(value: Value) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)


def _rates(points: Sequence[Point]) -> list[Point]:
    """Each rate holds from the point before to its own; a counter that falls begins anew."""
    rates: list[Point] = []
    before: tuple[int, float] | None = None
    for point in points:
        if not isinstance(point.value, float):
            before = None
            rates.append(Point(point.at_ms, None))
            continue
        if before is not None and point.at_ms > before[0]:
            rate = (point.value - before[1]) * 1000 / (point.at_ms - before[0])
            rates.append(Point(point.at_ms, rate if rate >= 0 else None))
        before = (point.at_ms, point.value)
    return rates
