"""Writes ticks into the history: one thread, one transaction per tick; a reported fault pauses it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from highwater.monitor.errors import HistoryError
from highwater.monitor.events import Event, EventKind
from highwater.monitor.history.database import CLUSTER_ID, Database, reason_of
from highwater.monitor.history.kinds import HOUR_MS, KINDS, Kind, Retention, Tier, Value, storable
from highwater.monitor.history.rollup import close_buckets, delete_old, keep_below, reopen
from highwater.monitor.history.tables import ABOUT, ENTITY, EVENT, ROWS, upsert
from highwater.monitor.history.tick import ChangedRows, Changes, EntityKey, Tick, Told

DEFAULT_MAX_BYTES: Final = 4 << 30
_MOST_WAITING_TICKS: Final = 4
_MOST_WAITING_EVENTS: Final = 10_000
_DELETING_EVERY_MS: Final = 10 * 60_000
# The parameters of all rows of a large cluster would take more memory than the rows.
_ROWS_AT_ONCE: Final = 1000
_IDS_AT_ONCE: Final = 500
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class HistoryState:
    """What pages say of the history."""

    shown: str
    """Its file or address."""
    written_ms: int | None = None
    """Unix time of the newest tick in it."""
    ticks: int = 0
    rows: int = 0
    """Written since the start of the monitor."""
    missed_ticks: int = 0
    """Not written since the start of the monitor."""
    paused_since_ms: int | None = None
    """Unix time of the first tick that could not be written; None while all is well."""
    reason: str = ""
    """Why it is paused."""
    note: str = ""
    """What else somebody should know, such as a damaged file that was set aside."""


class TickWriter:
    """Writes a tick as one transaction. Belongs to one thread at a time."""

    def __init__(
        self, database: Database, retention: Retention | None = None, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        self._database = database
        self._retention = retention or Retention()
        self._max_bytes = max_bytes
        self._ids: dict[EntityKey, int] = {}
        self._changed = ChangedRows()
        self._newest_ms: int | None = None
        self._touched_ms = 0
        self._closed_ms: int | None = None
        self._deleted_ms = 0
        self._is_loaded = False
        self._cluster_id = database.cluster_id

    def write(self, tick: Tick) -> int:
        """Return the number of rows that were written. Raises SQLAlchemyError, and then nothing was written."""
        if not self._is_loaded:
            self._load()
        has_stepped_back = self._newest_ms is not None and tick.at_ms <= self._newest_ms
        if has_stepped_back:
            tick = self._after_step_back(tick)
        new_ids: dict[EntityKey, int] = {}
        seen: list[tuple[Kind[Any], Told, Changes]] = []
        count = 0
        is_touching = (tick.at_ms - self._touched_ms >= HOUR_MS and not tick.silent) or has_stepped_back
        with self._database.writing.begin() as connection:
            if has_stepped_back:
                reopen(connection, self._database.writing, tick.at_ms)
            if tick.cluster_id and not self._cluster_id:
                connection.execute(insert(ABOUT).values(name=CLUSTER_ID, value=tick.cluster_id))
            self._add_entities(connection, tick, new_ids)
            ids = self._ids | new_ids if new_ids else self._ids
            read_at_ms = {ids[key]: at_ms for key, at_ms in tick.read_at_ms.items() if key in ids}
            for kind in KINDS.values():
                if kind.name in tick.silent:
                    continue
                values_of = {ids[key]: values for key, values in tick.rows.get(kind.name, {}).items()}
                told = Told(tick.at_ms, values_of, read_at_ms)
                changes = self._changed.rows_of(kind, told)
                seen.append((kind, told, changes))
                self._insert(connection, kind, changes.rows)
                count += len(changes.rows)
            if tick.events:
                connection.execute(insert(EVENT), [_event_row(event) for event in tick.events])
            if is_touching:
                seen_ids = [ids[key] for rows_of_kind in tick.rows.values() for key in rows_of_kind]
                for some_ids in _parts(seen_ids, _IDS_AT_ONCE):
                    chosen = ENTITY.c.id.in_(some_ids)
                    connection.execute(update(ENTITY).where(chosen).values(last_ms=tick.at_ms))
        # Only now: what a transaction that failed would have known is not known.
        self._ids |= new_ids
        for kind, told, changes in seen:
            self._changed.remember(kind, told, changes)
        self._newest_ms = tick.at_ms
        self._cluster_id = self._cluster_id or tick.cluster_id
        if is_touching:
            self._touched_ms = tick.at_ms
        return count

    def maintain(self, now_ms: int) -> bool:
        """Close buckets and delete what is old, when it is time. Returns whether the size made it delete more.

        Raises SQLAlchemyError. What is not done is done the next time.
        """
        size_ms = Tier.MINUTES.bucket_ms
        bucket_ms = now_ms - now_ms % size_ms
        if self._closed_ms != bucket_ms:
            close_buckets(self._database, now_ms)
            self._closed_ms = bucket_ms
        if abs(now_ms - self._deleted_ms) < _DELETING_EVERY_MS:
            return False
        delete_old(self._database, self._retention, now_ms)
        has_shrunk = keep_below(self._database, self._max_bytes)
        self._deleted_ms = now_ms
        return has_shrunk

    def forget(self) -> None:
        """Write every entity in the next tick: after a pause, lines must not go on as if nothing was missed."""
        self._changed.forget()

    def _load(self) -> None:
        with self._database.reading.connect() as connection:
            rows = connection.execute(select(ENTITY.c.id, ENTITY.c.kind, ENTITY.c.name, ENTITY.c.incarnation))
            self._ids = {EntityKey(kind, name, incarnation): number for number, kind, name, incarnation in rows}
        self._is_loaded = True

    def _after_step_back(self, tick: Tick) -> Tick:
        assert self._newest_ms is not None
        by_s = (self._newest_ms - tick.at_ms) / 1000
        text = f"the clock of the monitor went back by {by_s:.3f} s: the times of what was seen before are later"
        event = Event(tick.at_ms, EventKind.CLOCK_STEP, "cluster", "", text, str(self._newest_ms), str(tick.at_ms))
        self._changed.forget()
        self._closed_ms = None
        return replace(tick, events=[event, *tick.events])

    def _add_entities(self, connection: Connection, tick: Tick, new_ids: dict[EntityKey, int]) -> None:
        missing = [key for rows in tick.rows.values() for key in rows if key not in self._ids]
        returning = insert(ENTITY).returning(ENTITY.c.id, ENTITY.c.kind, ENTITY.c.name, ENTITY.c.incarnation)
        for keys in _parts(missing, _ROWS_AT_ONCE):
            values = [{**key._asdict(), "first_ms": tick.at_ms, "last_ms": tick.at_ms} for key in keys]
            # The database returns names of its own; those of the tick share their parts.
            own = {key: key for key in keys}
            for number, *key in connection.execute(returning, values):
                new_ids[own[EntityKey(*key)]] = number

    def _insert(
        self, connection: Connection, kind: Kind[Any], rows: Sequence[tuple[int, int, tuple[Value, ...]]]
    ) -> None:
        names = ("entity_id", "t", *(column.name for column in kind.columns))
        statement = upsert(self._database.writing, ROWS[kind.name, Tier.RAW], ("entity_id", "t"))
        for some in _parts(rows, _ROWS_AT_ONCE):
            connection.execute(statement, [dict(zip(names, (id_, t, *values), strict=True)) for id_, t, values in some])


def _parts(all_of_them: Sequence[_Item], at_once: int) -> Iterator[Sequence[_Item]]:
    for begin in range(0, len(all_of_them), at_once):
        yield all_of_them[begin : begin + at_once]


def _event_row(event: Event) -> dict[str, Value]:
    return {
        "t": event.at_ms,
        "kind": event.kind.value,
        "entity_kind": event.entity,
        "name": storable(event.name),
        "text": storable(event.text),
        "before": storable(event.before),
        "after": storable(event.after),
    }


def _reason(error: Exception) -> str:
    return reason_of(error) if isinstance(error, SQLAlchemyError) else f"{type(error).__name__}: {error}"


class HistoryWriter:
    """The thread that writes. `submit` never waits: what the database cannot take is counted and reported."""

    def __init__(
        self, database: Database, retention: Retention | None = None, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        self._database = database
        self._writer = TickWriter(database, retention, max_bytes)
        self._condition = threading.Condition()
        self._waiting: deque[Tick] = deque()
        self._events: list[Event] = []
        """Events of ticks that were not written; they go with the next one."""
        self._is_closing = False
        aside = database.set_aside
        self._note = f"The history of before is damaged, and was set aside as {aside}." if aside else ""
        self._state = HistoryState(database.shown, note=self._note)
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    @property
    def state(self) -> HistoryState:
        return self._state

    def check_cluster(self, cluster_id: str) -> None:
        """Raises HistoryError if the history was another cluster's when it was opened."""
        known = self._database.cluster_id
        if cluster_id and known and cluster_id != known:
            raise HistoryError(
                f"{self._database.shown}: it is the history of cluster {known}, and cluster {cluster_id} answers; "
                "give each cluster a --data folder, or a database, of its own, or move this history away"
            )

    def start(self) -> None:
        self._thread.start()

    def submit(self, tick: Tick) -> None:
        with self._condition:
            self._waiting.append(tick)
            if len(self._waiting) > _MOST_WAITING_TICKS:
                self._miss(self._waiting.popleft())
            self._condition.notify()

    def close(self, timeout_s: float = 10.0) -> None:
        """Write what waits, and end the thread."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._is_closing)
                if not self._waiting:
                    return
                tick = self._waiting.popleft()
            self._write(tick)
            # It has the rows of a large cluster, which nobody needs while this waits.
            del tick

    def _write(self, tick: Tick) -> None:
        if self._state.paused_since_ms is not None:
            self._writer.forget()
        carried = [*self._events, *tick.events]
        try:
            rows = self._writer.write(replace(tick, events=carried))
        except Exception as error:  # whatever it is, the thread has to live and to report it
            self._pause(tick, error)
            return
        self._events = []
        state = self._state
        self._state = replace(
            state,
            written_ms=tick.at_ms,
            ticks=state.ticks + 1,
            rows=state.rows + rows,
            paused_since_ms=None,
            reason="",
            note=self._note,
        )
        try:
            self._writer.maintain(tick.at_ms)
        except Exception as error:
            self._state = replace(self._state, note=f"Old rows could not be summed up or deleted: {_reason(error)}.")

    def _pause(self, tick: Tick, error: Exception) -> None:
        since_ms = self._state.paused_since_ms
        reason = _reason(error)
        self._miss(tick)
        self._state = replace(self._state, paused_since_ms=tick.at_ms if since_ms is None else since_ms, reason=reason)

    def _miss(self, tick: Tick) -> None:
        self._events = [*self._events, *tick.events][-_MOST_WAITING_EVENTS:]
        self._state = replace(self._state, missed_ticks=self._state.missed_ticks + 1)
