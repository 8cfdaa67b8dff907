"""Latency and errors as applications feel them, by client, beside what brokers say of themselves.

Instances with the same client id, group and software are one row, such as the processes of one application.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from highwater.monitor.figures.rows import Level
from highwater.monitor.figures.sums import known_max, known_sum
from highwater.monitor.model import ClientMetrics, ClientPush

MOST_CLIENTS: Final = 200
"""Rows. The instances of all other clients are one row together."""
ALL: Final = "all clients"
OTHERS: Final = "other clients"


class ClientFigures(NamedTuple):
    name: str
    client_id: str
    group: str
    """The group of a consumer; empty for others."""
    software: str
    instances: int
    at_ms: int
    """Unix time of the newest push."""
    produce_ms: float | None
    """The mean of the means of its instances, from the request to its answer; None if none has one."""
    produce_max_ms: float | None
    queue_ms: float | None
    """How long a record waits in the client before it is sent."""
    fetch_ms: float | None
    fetch_max_ms: float | None
    commit_ms: float | None
    rebalance_max_ms: float | None
    throttle_ms: float | None
    errors_per_s: float | None
    """Records that could not be sent; None of clients without this metric, such as librdkafka."""
    retries_per_s: float | None
    broker_produce_ms: float | None
    """The mean of the brokers that took its pushes; None if nobody produced."""
    broker_fetch_ms: float | None

    @property
    def level(self) -> Level:
        return Level.WARN if self.errors_per_s else Level.OK


class Felt(NamedTuple):
    clients: tuple[ClientFigures, ...]
    """They are sorted by name; OTHERS, if there are any, is the last one."""
    all: ClientFigures


def felt(metrics: ClientMetrics | None) -> Felt | None:
    """Return what clients feel; None if none pushes."""
    if metrics is None or not metrics.pushes:
        return None
    by_client: dict[tuple[str, str, str], list[ClientPush]] = defaultdict(list)
    for push in metrics.pushes:
        by_client[push.client_id, push.group, push.software].append(push)
    keys = sorted(by_client)
    rows = [_row(_name(*key), key, by_client[key]) for key in keys[:MOST_CLIENTS]]
    if others := [push for key in keys[MOST_CLIENTS:] for push in by_client[key]]:
        rows.append(_row(OTHERS, (OTHERS, "", ""), others))
    return Felt(tuple(rows), _row(ALL, (ALL, "", ""), metrics.pushes))


def _name(client_id: str, group: str, software: str) -> str:
    return f"{client_id} ({', '.join(part for part in (group, software) if part)})"


def _row(name: str, key: tuple[str, str, str], pushes: Sequence[ClientPush]) -> ClientFigures:
    def values(of: str) -> list[float | None]:
        return [push.values.get(of) for push in pushes]

    newest = {push.broker: push for push in sorted(pushes, key=lambda push: push.at_ms)}.values()
    return ClientFigures(
        name,
        *key,
        instances=len(pushes),
        at_ms=max(push.at_ms for push in pushes),
        produce_ms=_mean(values("produce_ms")),
        produce_max_ms=known_max(values("produce_max_ms")),
        queue_ms=_mean(values("queue_ms")),
        fetch_ms=_mean(values("fetch_ms")),
        fetch_max_ms=known_max(values("fetch_max_ms")),
        commit_ms=_mean(values("commit_ms")),
        rebalance_max_ms=known_max(values("rebalance_max_ms")),
        throttle_ms=_mean(values("throttle_ms")),
        errors_per_s=known_sum(values("errors_per_s")),
        retries_per_s=known_sum(values("retries_per_s")),
        broker_produce_ms=_mean(push.broker_produce_ms for push in newest),
        broker_fetch_ms=_mean(push.broker_fetch_ms for push in newest),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
