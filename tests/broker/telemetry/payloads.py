"""Metrics as a client pushes them, by the library of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

LATENCY = "org.apache.kafka.producer.request.latency.avg"


def pushed(gauges: Mapping[str, float] | None = None, **resource: str) -> bytes:
    """One point of each gauge, about a client with these attributes."""
    data = MetricsData()
    of_resource = data.resource_metrics.add()
    for key, text in resource.items():
        attribute = of_resource.resource.attributes.add()
        attribute.key, attribute.value.string_value = key, text
    scope = of_resource.scope_metrics.add()
    for name, value in ({LATENCY: 2.5} if gauges is None else gauges).items():
        metric = scope.metrics.add()
        metric.name = name
        metric.gauge.data_points.add().as_double = value
    return bytes(data.SerializeToString())


def headers_of(message: Any) -> dict[str, str]:
    """The headers of a message of confluent-kafka, which are texts."""
    return {name: text.decode() for name, text in message.headers() or ()}
