"""Closes buckets of the coarser tiers, and deletes old rows in small steps."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, Table, case, delete, func, select, tuple_

from highwater.monitor.history.database import Database
from highwater.monitor.history.kinds import CLUSTER, KINDS, Kind, Nature, Retention, Tier
from highwater.monitor.history.tables import CLOSED, ENTITY, EVENT, MAXIMUM, MINIMUM, ROWS, upsert

_SLICE_ROWS: Final = 10_000
_BUCKETS_AT_ONCE: Final = 288
"""A day of the tier of minutes: a monitor that was away for long closes its buckets in several steps."""
_ROOM: Final = 0.9
"""The share of the largest size that may stay: what is deleted at once makes room for some time."""
_KEPT_AT_LEAST_MS: Final = 3_600_000


def close_buckets(database: Database, now_ms: int) -> None:
    """Close every bucket that has ended. To do it again changes nothing. Raises SQLAlchemyError."""
    for kind in KINDS.values():
        for finer, tier in zip(kind.tiers, kind.tiers[1:], strict=False):
            _close(database, kind, finer, tier, now_ms)


def _close(database: Database, kind: Kind[Any], finer: Tier, tier: Tier, now_ms: int) -> None:
    size_ms = tier.bucket_ms
    end_ms = now_ms - now_ms % size_ms
    source = ROWS[kind.name, finer]
    while True:
        with database.writing.begin() as connection:
            start_ms = _closed_until(connection, kind, tier)
            if start_ms is None:
                start_ms = _oldest(connection, kind, source)
                if start_ms is None:
                    return
                start_ms -= start_ms % size_ms
            if start_ms >= end_ms:
                return
            until_ms = min(end_ms, start_ms + _BUCKETS_AT_ONCE * size_ms)
            _fill(connection, database.writing, kind, finer, tier, start_ms, until_ms)
            closed = {"kind": kind.name, "tier": tier.value, "until_ms": until_ms}
            connection.execute(upsert(database.writing, CLOSED, ("kind", "tier")), [closed])


def _closed_until(connection: Connection, kind: Kind[Any], tier: Tier) -> int | None:
    found = connection.scalar(select(CLOSED.c.until_ms).where(CLOSED.c.kind == kind.name, CLOSED.c.tier == tier.value))
    return None if found is None else int(found)


def _oldest(connection: Connection, kind: Kind[Any], table: Table) -> int | None:
    found = connection.scalar(select(func.min(table.c.t)).where(table.c.entity_id.in_(_entities(kind))))
    return None if found is None else int(found)


def _entities(kind: Kind[Any]) -> Select[Any]:
    return select(ENTITY.c.id).where(ENTITY.c.kind == kind.name)


def _fill(
    connection: Connection, engine: Engine, kind: Kind[Any], finer: Tier, tier: Tier, start_ms: int, until_ms: int
) -> None:
    source, target = ROWS[kind.name, finer], ROWS[kind.name, tier]
    bucket = (source.c.t - source.c.t % tier.bucket_ms).label("bucket")
    within: dict[str, Any] = {"partition_by": (source.c.entity_id, bucket), "order_by": source.c.t}
    next_t = func.lead(source.c.t).over(**within)
    # A value holds until the next row, and the last one until the end of the bucket.
    weight = (func.coalesce(next_t, bucket + tier.bucket_ms) - source.c.t).label("weight")
    is_last = case((next_t.is_(None), 1), else_=0).label("is_last")
    rows = (
        select(source, bucket, weight, is_last)
        .select_from(source.join(ENTITY, ENTITY.c.id == source.c.entity_id))
        .where(ENTITY.c.kind == kind.name, source.c.t >= start_ms, source.c.t < until_ms)
        .subquery()
    )
    values: dict[str, Any] = {"entity_id": rows.c.entity_id, "t": rows.c.bucket}
    for column in kind.columns:
        value = rows.c[column.name]
        if column.nature is not Nature.GAUGE:
            values[column.name] = func.max(case((rows.c.is_last == 1, value)))
            continue
        known = func.sum(case((value.is_not(None), rows.c.weight)))
        values[column.name] = func.sum(value * rows.c.weight) / func.nullif(known, 0)
        is_raw = finer is Tier.RAW
        values[column.name + MINIMUM] = func.min(value if is_raw else rows.c[column.name + MINIMUM])
        values[column.name + MAXIMUM] = func.max(value if is_raw else rows.c[column.name + MAXIMUM])
    # `where true`: without it SQLite reads the word after the select as a join.
    summary = select(*(value.label(name) for name, value in values.items())).group_by(rows.c.entity_id, rows.c.bucket)
    statement = upsert(engine, target, ("entity_id", "t")).from_select(list(values), summary.having(func.count() > 0))
    connection.execute(statement)


def reopen(connection: Connection, engine: Engine, now_ms: int) -> None:
    """Close the buckets from `now_ms` on once more: the clock went back into buckets that are closed."""
    for kind in KINDS.values():
        for tier in kind.tiers[1:]:
            until_ms = _closed_until(connection, kind, tier)
            begin_ms = now_ms - now_ms % tier.bucket_ms
            if until_ms is not None and until_ms > begin_ms:
                row = {"kind": kind.name, "tier": tier.value, "until_ms": begin_ms}
                connection.execute(upsert(engine, CLOSED, ("kind", "tier")), [row])


# -- Deleting ----------------------------------------------------------------------------------------------------------


def delete_old(database: Database, retention: Retention, now_ms: int) -> None:
    """Delete what is older than its tier is kept. Raises SQLAlchemyError."""
    for kind in KINDS.values():
        for tier in kind.tiers:
            _delete_before(database, kind, tier, now_ms - retention.kept_ms(kind, tier))
    _delete_events(database, now_ms - retention.events_ms)
    with database.writing.begin() as connection:
        connection.execute(delete(ENTITY).where(ENTITY.c.last_ms < now_ms - retention.hours_ms))
    give_back(database)


def keep_below(database: Database, max_bytes: int) -> bool:
    """Delete the oldest quarter of the tier of hours, then of minutes, then of raw rows, until the rest fits.

    The last hour always stays. Returns whether anything was deleted. Raises SQLAlchemyError.
    """
    if database.size_bytes <= max_bytes:
        return False
    while database.size_bytes > _ROOM * max_bytes:
        has_deleted = False
        for tier in reversed(Tier):
            span = _span(database, tier)
            if span is None or span[1] - span[0] <= _KEPT_AT_LEAST_MS:
                continue
            before_ms = min(span[0] + max((span[1] - span[0]) // 4, 1), span[1] - _KEPT_AT_LEAST_MS)
            for kind in KINDS.values():
                if tier in kind.tiers:
                    _delete_before(database, kind, tier, before_ms)
            has_deleted = True
            if tier is Tier.HOURS:
                _delete_events(database, before_ms)
            if database.size_bytes <= _ROOM * max_bytes:
                break
        if not has_deleted:
            break
    give_back(database)
    return True


def give_back(database: Database) -> None:
    """Return free pages of a file to the file system."""
    if database.file is None:
        return
    with database.writing.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # A cursor would free one page alone: it steps once through what returns no rows.
        connection.connection.driver_connection.executescript("pragma incremental_vacuum")  # type: ignore[union-attr]


def _span(database: Database, tier: Tier) -> tuple[int, int] | None:
    """The oldest and the newest time in a tier, by the rows of the cluster, which are in each tick."""
    table = ROWS[CLUSTER.name, tier]
    with database.reading.connect() as connection:
        oldest, newest = connection.execute(select(func.min(table.c.t), func.max(table.c.t))).one()
    return None if oldest is None else (int(oldest), int(newest))


def _delete_before(database: Database, kind: Kind[Any], tier: Tier, before_ms: int) -> None:
    table = ROWS[kind.name, tier]
    old = (
        select(table.c.entity_id, table.c.t)
        .select_from(table.join(ENTITY, ENTITY.c.id == table.c.entity_id))
        .where(ENTITY.c.kind == kind.name, table.c.t < before_ms)
        .limit(_SLICE_ROWS)
    )
    statement = delete(table).where(tuple_(table.c.entity_id, table.c.t).in_(old))
    while True:
        with database.writing.begin() as connection:
            if connection.execute(statement).rowcount < _SLICE_ROWS:
                return


def _delete_events(database: Database, before_ms: int) -> None:
    old = select(EVENT.c.id).where(EVENT.c.t < before_ms).limit(_SLICE_ROWS)
    while True:
        with database.writing.begin() as connection:
            if connection.execute(delete(EVENT).where(EVENT.c.id.in_(old))).rowcount < _SLICE_ROWS:
                return
