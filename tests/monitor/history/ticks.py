"""Ticks for tests of the history: one cluster, one topic and one group, whose values the test chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.monitor.events import Event
from highwater.monitor.history.kinds import CLUSTER, GROUP, KINDS, TOPIC, Kind, Value
from highwater.monitor.history.tick import EntityKey, Tick

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
START_MS = 1_800_000_000_000 - 1_800_000_000_000 % HOUR_MS
"""At a full hour, so that buckets begin there."""


def values_of(kind: Kind[Any], **given: Value) -> tuple[Value, ...]:
    assert given.keys() <= {column.name for column in kind.columns}
    return tuple(given.get(column.name) for column in kind.columns)


def tick(
    at_ms: int,
    *,
    end_offsets: int = 0,
    lag: float | None = 0,
    verdict: str = "OK",
    topic_id: str = "id-1",
    partitions: int = 0,
    events: Sequence[Event] = (),
) -> Tick:
    rows: dict[str, dict[EntityKey, tuple[Value, ...]]] = {
        CLUSTER.name: {EntityKey("cluster", "c", ""): values_of(CLUSTER, brokers=3, tick_ms=at_ms % 977)},
        TOPIC.name: {EntityKey("topic", "orders", topic_id): values_of(TOPIC, end_offsets=end_offsets, partitions=3)},
        GROUP.name: {EntityKey("group", "billing", ""): values_of(GROUP, lag=lag, verdict=verdict, state="Stable")},
    }
    if partitions:
        kind = KINDS["partition"]
        rows[kind.name] = {
            EntityKey("partition", f"orders-{number}", topic_id): values_of(kind, end_offset=end_offsets, leader=1)
            for number in range(partitions)
        }
    return Tick(at_ms, rows, events)


def point_values(points: Sequence[Any]) -> list[tuple[int, Any]]:
    return [(point.at_ms, point.value) for point in points]
