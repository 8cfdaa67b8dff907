"""How long this broker itself took for requests of late, to stand beside what its clients measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.broker.counters import BrokerCounters
from highwater.kafka.protocol.apis import FETCH, PRODUCE

_WINDOW_MS: Final = 10_000
_NAMES: Final = {PRODUCE: "broker_produce_latency_ms", FETCH: "broker_fetch_latency_ms"}


class OwnLatency:
    """Means from the arrival of a request to its whole answer, over windows of ten seconds or more."""

    def __init__(self, counters: BrokerCounters) -> None:
        self._counters = counters
        self._ends_ms: int | None = None
        self._before = dict.fromkeys(_NAMES, (0, 0))
        self._told: Mapping[str, str] = {}

    def told(self, now_ms: int) -> Mapping[str, str]:
        """The means of the newest window, in ms; without those of APIs that nobody used in it."""
        if self._ends_ms is None or now_ms >= self._ends_ms:
            self._ends_ms = now_ms + _WINDOW_MS
            self._told = self._means()
        return self._told

    def _means(self) -> Mapping[str, str]:
        told = {}
        for key, name in _NAMES.items():
            total = self._counters.requests[key].total
            count, sum_ns = sum(total.counts), total.sum_ns
            count_before, sum_before_ns = self._before[key]
            self._before[key] = count, sum_ns
            if count > count_before:
                told[name] = f"{(sum_ns - sum_before_ns) / (count - count_before) / 1_000_000:.4g}"
        return told
