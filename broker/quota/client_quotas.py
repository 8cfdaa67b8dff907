"""Limits clients to their quotas: bytes, time of requests, changes of topics, connections. Pure.

Sources: KIP-13 and KIP-219 (bytes), KIP-124 (time of requests), KIP-599 (changes of topics), KIP-612 (connections).

The time is an argument. Bytes are counted after they were moved. When the rate of a client is above its limit, the
answer has the throttle time after which the rate is at the limit again, and the connection is muted for that time
(KIP-219).

A fetch above the limit is answered without records, and its bytes are not counted: they were not sent. A client that
got nothing in all windows gets its bytes despite the limit; otherwise it could never read a batch that is larger than
the limit of all windows.

The time of requests is that of the event loop: 100 % are all of it. It is counted when a request was handled, and holds
up the requests that come after, each for one window at most.

Partitions that a client creates and deletes take tokens from a bucket. While the bucket owes tokens, a strict quota
refuses and takes none; one that is not strict takes them and throttles.

A connection above the rate of its address is not counted: it is closed, after a delay of one window at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from highwater.broker.quota.rate import WindowedRate, throttle_ms
from highwater.broker.quota.token_bucket import TokenBucket
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.settings.quota_entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    Quotas,
    connection_rate_of,
    limit_of,
)

MAX_METERS: Final = 10_000
"""The most clients whose rates are stored: a client may use any number of client ids."""


@dataclass(slots=True)
class _Meter:
    rate: WindowedRate
    limit: float

    def throttle_ms(self, now_ms: int) -> int:
        excess = self.rate.per_second(now_ms) - self.limit
        if excess <= 0:
            return 0
        return throttle_ms(excess, self.limit, self.rate.span_ms(now_ms))


_NS_OF_A_PERCENT: Final = 10_000_000
"""The nanoseconds in one percent of a second."""


class ClientQuotas:
    def __init__(self, window_count: int, window_size_ms: int, quotas: Quotas, *, mutation_burst_s: int = 11) -> None:
        """mutation_burst_s: for how many seconds an idle client may save changes of topics."""
        self._mutation_burst_s = mutation_burst_s
        self._buckets: dict[Entity, TokenBucket] = {}
        self._window_count = window_count
        self._window_size_ms = window_size_ms
        self._meters: dict[tuple[str, object], _Meter] = {}
        self._meter_of_client: dict[tuple[str, str, str], _Meter | None] = {}
        self.change(quotas)

    @classmethod
    def of(cls, config: BrokerConfig, quotas: Quotas) -> ClientQuotas:
        """Return quotas with the windows of the broker's configuration."""
        return cls(
            config.integer("quota.window.num"),
            config.integer("quota.window.size.seconds") * 1000,
            quotas,
            mutation_burst_s=config.integer("controller.quota.window.num")
            * config.integer("controller.quota.window.size.seconds"),
        )

    def change(self, quotas: Quotas) -> None:
        """Replace the limits; what was counted stays counted."""
        self._quotas = quotas
        self._meter_of_client.clear()
        names = {name for entity, limits in quotas.items() if entity.ip is None for name in limits}
        self.limits_bytes = bool(names & {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE})
        self.limits_requests = REQUEST_PERCENTAGE in names
        self._limits_mutations = CONTROLLER_MUTATION_RATE in names
        self._limits_addresses = any(entity.ip is not None for entity in quotas)

    def produced(self, user: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """Count the bytes that a client produced. Returns its throttle time in ms."""
        if not self.limits_bytes or (meter := self._meter(PRODUCER_BYTE_RATE, user, client_id, now_ms)) is None:
            return 0
        meter.rate.record(size_bytes, now_ms)
        return meter.throttle_ms(now_ms)

    def fetched(self, user: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """Count the bytes of an answer to a fetch. Returns the throttle time in ms; above 0, send no records."""
        if not self.limits_bytes or (meter := self._meter(CONSUMER_BYTE_RATE, user, client_id, now_ms)) is None:
            return 0
        had_nothing = meter.rate.is_idle(now_ms)
        meter.rate.record(size_bytes, now_ms)
        throttle_ms = 0 if had_nothing else meter.throttle_ms(now_ms)
        if throttle_ms:
            meter.rate.record(-size_bytes, now_ms)
        return throttle_ms

    def request_throttle_ms(self, user: str, client_id: str | None, now_ms: int) -> int:
        """Return for how long the next request of a client is to be held up, by the time that the former ones took."""
        if not self.limits_requests or (meter := self._meter(REQUEST_PERCENTAGE, user, client_id, now_ms)) is None:
            return 0
        return min(meter.throttle_ms(now_ms), self._window_size_ms)

    def handled(self, user: str, client_id: str | None, duration_ns: int, now_ms: int) -> None:
        """Count the time that a request of a client took."""
        if self.limits_requests and (meter := self._meter(REQUEST_PERCENTAGE, user, client_id, now_ms)) is not None:
            meter.rate.record(duration_ns / _NS_OF_A_PERCENT, now_ms)

    def mutated(self, user: str, client_id: str | None, partition_count: int, now_ms: int, *, is_strict: bool) -> int:
        """Count partitions that a client creates or deletes. Return its throttle time in ms.

        Above 0, a strict quota refuses the change and did not count it.
        """
        if not self._limits_mutations:
            return 0
        found = limit_of(self._quotas, CONTROLLER_MUTATION_RATE, user, client_id or "")
        if found is None:
            return 0
        bucket = self._bucket(*found, now_ms)
        if is_strict:
            throttle_ms = bucket.owing_ms(now_ms)
            if not throttle_ms:
                bucket.take(partition_count, now_ms)
            return throttle_ms
        bucket.take(partition_count, now_ms)
        return bucket.owing_ms(now_ms)

    def _bucket(self, sharers: Entity, rate: float, now_ms: int) -> TokenBucket:
        bucket = self._buckets.get(sharers)
        if bucket is None:
            if len(self._buckets) >= MAX_METERS:
                self._buckets = {key: each for key, each in self._buckets.items() if not each.is_full(now_ms)}
                for key in list(self._buckets)[: max(len(self._buckets) - MAX_METERS // 2, 0)]:
                    del self._buckets[key]
            bucket = self._buckets[sharers] = TokenBucket(rate, self._mutation_burst_s, now_ms)
        bucket.rate = rate
        return bucket

    def connected(self, host: str, now_ms: int) -> int:
        """Count a new connection of an address. Returns 0, or after how many ms it is to be closed, unused."""
        limit = connection_rate_of(self._quotas, host) if self._limits_addresses else None
        if limit is None:
            return 0
        key = CONNECTION_CREATION_RATE, host
        meter = self._meters.get(key)
        if meter is None:
            if len(self._meters) >= MAX_METERS:
                self._forget(now_ms)
            meter = self._meters[key] = _Meter(WindowedRate(self._window_count, self._window_size_ms), limit)
        meter.limit = limit
        meter.rate.record(1, now_ms)
        if meter.rate.per_second(now_ms) <= limit:
            return 0
        excess_ms = meter.throttle_ms(now_ms) if limit > 0 else self._window_size_ms
        meter.rate.record(-1, now_ms)
        return min(max(excess_ms, 1), self._window_size_ms)

    def most_fetch_bytes(self, user: str, client_id: str | None, now_ms: int) -> int | None:
        """Return the largest answer to a fetch that the limit of a client allows; None without a limit."""
        if not self.limits_bytes or (meter := self._meter(CONSUMER_BYTE_RATE, user, client_id, now_ms)) is None:
            return None
        return int(meter.limit * max(self._window_count - 1, 1) * self._window_size_ms / 1000)

    def _meter(self, name: str, user: str, client_id: str | None, now_ms: int) -> _Meter | None:
        client_id = client_id or ""
        try:
            return self._meter_of_client[name, user, client_id]
        except KeyError:
            if len(self._meter_of_client) >= MAX_METERS:
                self._forget(now_ms)
            meter = self._meter_of_client[name, user, client_id] = self._find_meter(name, user, client_id)
            return meter

    def _find_meter(self, name: str, user: str, client_id: str) -> _Meter | None:
        found = limit_of(self._quotas, name, user, client_id)
        if found is None:
            return None
        sharers, limit = found
        meter = self._meters.get((name, sharers))
        if meter is None:
            meter = _Meter(WindowedRate(self._window_count, self._window_size_ms), limit)
            self._meters[name, sharers] = meter
        meter.limit = limit
        return meter

    def _forget(self, now_ms: int) -> None:
        """Remove idle clients, and if that is not enough, the clients known for the longest time."""
        self._meter_of_client.clear()
        self._meters = {key: meter for key, meter in self._meters.items() if not meter.rate.is_idle(now_ms)}
        for key in list(self._meters)[: max(len(self._meters) - MAX_METERS // 2, 0)]:
            del self._meters[key]
