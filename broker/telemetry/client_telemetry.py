"""The part of a broker that takes the telemetry of clients: subscriptions, instances, the topic."""

from __future__ import annotations

import logging
import uuid
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.counters import BrokerCounters
from highwater.broker.runtime import Runtime
from highwater.broker.settings.metadata_tree import CLIENT_METRICS_CONFIGS
from highwater.broker.settings.store import SettingsStore
from highwater.broker.telemetry.instances import Instances, text_of_id
from highwater.broker.telemetry.own_latency import OwnLatency
from highwater.broker.telemetry.publishing import Publishing
from highwater.broker.telemetry.subscriptions import Subscription, subscription_of

_logger = logging.getLogger(__name__)

_TELL_AGAIN_MS: Final = 60_000
_TOLD: Final = {
    ErrorCode.invalid_request: "its client instance id is no id, or it said before that it ends",
    ErrorCode.unsupported_compression_type: "it is compressed in no way that Kafka has",
    ErrorCode.telemetry_too_large: "it is larger than telemetry.max.bytes, unfolds to too much, or has too many fields",
    ErrorCode.invalid_record: "it cannot be decompressed, or is not OpenTelemetry's MetricsData",
}
"""Others are a part of how clients find out what to do."""


class ClientTelemetry:
    def __init__(
        self, runtime: Runtime, store: SettingsStore, publishing: Publishing, counters: BrokerCounters
    ) -> None:
        self.is_on = runtime.config.boolean("highwater.client.telemetry")
        self.instances = Instances(runtime.config.integer("telemetry.max.bytes"))
        self.publishing = publishing
        self.own_latency = OwnLatency(counters)
        self._store = store
        self._clock = runtime.clock
        self._told_ms: dict[ErrorCode, int] = {}
        self.take_up()

    def now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000

    def take_up(self) -> None:
        """Use the subscriptions of the store from now on."""
        usable: list[Subscription] = []
        for name, settings in self._store.own_configs(CLIENT_METRICS_CONFIGS).items():
            subscription = subscription_of(settings)
            if isinstance(subscription, Subscription):
                usable.append(subscription)
            else:
                _logger.warning("subscription %s to client metrics is not used: %s", name, subscription.message)
        self.instances.subscribe(usable)

    def tell_refusal(self, address: str, instance_id: uuid.UUID, size_bytes: int, error: ErrorCode) -> None:
        """Log why a push is refused: once a minute for each reason, whoever pushes."""
        reason, now_ms = _TOLD.get(error), self.now_ms()
        if reason is None or now_ms - self._told_ms.get(error, -_TELL_AGAIN_MS) < _TELL_AGAIN_MS:
            return
        self._told_ms[error] = now_ms
        _logger.warning(
            "a push of telemetry of client instance %s at %s (%d bytes) is refused with %s: %s",
            text_of_id(instance_id),
            address,
            size_bytes,
            error.name.upper(),
            reason,
        )
