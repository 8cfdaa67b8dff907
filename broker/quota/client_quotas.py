"""Limits the bandwidth of clients and the connections of addresses to their quotas. Pure (KIP-13, KIP-612).

The time is an argument. Bytes are counted after they were moved. When the rate of a client is above its limit, the
answer has the throttle time after which the rate is at the limit again, and the connection is muted for that time
(KIP-219).

A fetch above the limit is answered without records, and its bytes are not counted: they were not sent. A client that
got nothing in all windows gets its bytes despite the limit; otherwise it could never read a batch that is larger than
the limit of all windows.

A connection above the rate of its address is not counted: it is closed, after a delay of one window at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from highwater.broker.quota.rate import WindowedRate
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.settings.quota_entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
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
        return round(excess / self.limit * self.rate.span_ms(now_ms)) if excess > 0 else 0


class ClientQuotas:
    def __init__(self, window_count: int, window_size_ms: int, quotas: Quotas) -> None:
        self._window_count = window_count
        self._window_size_ms = window_size_ms
        self._meters: dict[tuple[str, object], _Meter] = {}
        self._meter_of_client: dict[tuple[str, str, str], _Meter | None] = {}
        self.change(quotas)

    @classmethod
    def of(cls, config: BrokerConfig, quotas: Quotas) -> ClientQuotas:
        """Return quotas with the windows of the broker's configuration."""
        return cls(config.integer("quota.window.num"), config.integer("quota.window.size.seconds") * 1000, quotas)

    def change(self, quotas: Quotas) -> None:
        """Replace the limits; bytes already counted stay counted."""
        self._quotas = quotas
        self._meter_of_client.clear()
        self.is_active = any(entity.ip is None for entity in quotas)
        self._limits_addresses = any(entity.ip is not None for entity in quotas)

    def produced(self, user: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """Count the bytes that a client produced. Returns its throttle time in ms."""
        if not self.is_active or (meter := self._meter(PRODUCER_BYTE_RATE, user, client_id, now_ms)) is None:
            return 0
        meter.rate.record(size_bytes, now_ms)
        return meter.throttle_ms(now_ms)

    def fetched(self, user: str, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """Count the bytes of an answer to a fetch. Returns the throttle time in ms; above 0, send no records."""
        if not self.is_active or (meter := self._meter(CONSUMER_BYTE_RATE, user, client_id, now_ms)) is None:
            return 0
        had_nothing = meter.rate.is_idle(now_ms)
        meter.rate.record(size_bytes, now_ms)
        throttle_ms = 0 if had_nothing else meter.throttle_ms(now_ms)
        if throttle_ms:
            meter.rate.record(-size_bytes, now_ms)
        return throttle_ms

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
        if not self.is_active or (meter := self._meter(CONSUMER_BYTE_RATE, user, client_id, now_ms)) is None:
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
