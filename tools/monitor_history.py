"""Makes a history for the benchmark of the pages: many names, and two years of a few of them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, insert

from highwater.monitor.events import EventKind
from highwater.monitor.history.database import Database
from highwater.monitor.history.kinds import DAY_MS, HOUR_MS, KINDS, Kind, Nature, Tier, Value
from highwater.monitor.history.tables import ENTITY, EVENT, MAXIMUM, MINIMUM, ROWS
from highwater.monitor.model import Snapshot

_TICK_MS: Final = 15_000
_DEPTHS_MS: Final = {Tier.RAW: 2 * DAY_MS, Tier.MINUTES: 30 * DAY_MS, Tier.HOURS: 730 * DAY_MS}
_DEEP: Final = 4
"""How many entities of each kind have rows; a row's key begins with its entity, so that others cost a chart nothing."""
_EVENTS: Final = 100_000
_ROWS_AT_ONCE: Final = 5000


def fill(database: Database, snapshot: Snapshot) -> None:
    """All names of the snapshot as entities; rows until the snapshot's time."""
    partitions = [each for topic in snapshot.topics.values() for each in topic.partitions]
    names = {
        "cluster": [snapshot.cluster],
        "broker": [str(node_id) for node_id in snapshot.brokers],
        "topic": list(snapshot.topics),
        "group": list(snapshot.groups),
        "partition": [f"{each.topic}-{each.partition}" for each in partitions],
    }
    rng = random.Random(1)
    now_ms = snapshot.taken_at_ms
    with database.writing.begin() as connection:
        number = 0
        for kind, all_of_kind in names.items():
            rows = []
            for place, name in enumerate(all_of_kind):
                number += 1
                rows.append(
                    {
                        "id": number,
                        "kind": kind,
                        "name": name,
                        "incarnation": "",
                        "first_ms": now_ms - _DEPTHS_MS[Tier.HOURS],
                        "last_ms": now_ms - place,
                    }
                )
            _insert(connection, ENTITY, iter(rows))
            for place, row in enumerate(rows[:_DEEP]):
                for tier in KINDS[kind].tiers:
                    _insert(connection, ROWS[kind, tier], _rows(KINDS[kind], tier, row["id"], now_ms, place, rng))
        _insert(connection, EVENT, _events(snapshot, rng))


def _insert(connection: Connection, table: Any, rows: Iterator[dict[str, Any]]) -> None:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _ROWS_AT_ONCE:
            connection.execute(insert(table), batch)
            batch = []
    if batch:
        connection.execute(insert(table), batch)


def _rows(
    kind: Kind[Any], tier: Tier, entity_id: Any, now_ms: int, phase: float, rng: random.Random
) -> Iterator[dict[str, Any]]:
    step_ms = max(tier.bucket_ms, kind.every_ms, _TICK_MS)
    first_ms = now_ms - _DEPTHS_MS[tier]
    for at_ms in range(first_ms - first_ms % step_ms, now_ms - tier.bucket_ms, step_ms):
        wave = 2 + math.sin(phase + math.tau * at_ms / DAY_MS) + rng.random() / 5
        row: dict[str, Value] = {"entity_id": entity_id, "t": at_ms}
        for place, column in enumerate(kind.columns, start=1):
            if column.nature is Nature.COUNTER:
                row[column.name] = (at_ms % (1000 * DAY_MS)) * place
            elif column.nature is Nature.GAUGE:
                row[column.name] = wave * 100**place
                if tier is not Tier.RAW:
                    row[column.name + MINIMUM], row[column.name + MAXIMUM] = wave * 50**place, wave * 200**place
            else:
                row[column.name] = 1 if column.nature is Nature.STATE else "OK"
        yield row


def _events(snapshot: Snapshot, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Leader changes over all partitions, more of them in the newest time."""
    partitions = [each for topic in snapshot.topics.values() for each in topic.partitions]
    for _ in range(_EVENTS):
        partition = rng.choice(partitions)
        name = f"{partition.topic}-{partition.partition}"
        yield {
            "t": int(snapshot.taken_at_ms - rng.random() ** 4 * 730 * 24 * HOUR_MS),
            "kind": EventKind.LEADER_CHANGE.value,
            "entity_kind": "partition",
            "name": name,
            "text": f"{name}: the leader is broker 1; it was broker 2",
            "before": "2",
            "after": "1",
        }
