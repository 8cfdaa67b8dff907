"""What clients push to a broker (KIP-714): a record of the topic of client metrics as values. Pure.

Of all metrics those are kept that say how the cluster is felt. librdkafka and the Java clients have the same names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from highwater.kafka.records.batch import CorruptBatch, ReadableBuffer, headers
from highwater.kafka.records.record import Record, decode_batch
from highwater.monitor.model import ClientPush

TOPIC: Final = "_highwater_client_metrics"
_PREFIX: Final = "org.apache.kafka."
KEPT: Final[Mapping[str, str]] = {
    f"{_PREFIX}{name}": short
    for name, short in {
        "producer.request.latency.avg": "produce_ms",
        "producer.request.latency.max": "produce_max_ms",
        "producer.record.queue.time.avg": "queue_ms",
        "producer.record.queue.time.max": "queue_max_ms",
        "producer.produce.throttle.time.avg": "throttle_ms",
        "producer.record.error.rate": "errors_per_s",
        "producer.record.retry.rate": "retries_per_s",
        "consumer.fetch.manager.fetch.latency.avg": "fetch_ms",
        "consumer.fetch.manager.fetch.latency.max": "fetch_max_ms",
        "consumer.coordinator.commit.latency.avg": "commit_ms",
        "consumer.coordinator.commit.latency.max": "commit_max_ms",
        "consumer.coordinator.rebalance.latency.max": "rebalance_max_ms",
    }.items()
}
"""The names here, by the names of clients."""
_MOST_BATCH_BYTES: Final = 64 << 20
_MOST_TEXT: Final = 249
_MOST_INTERVAL_MS: Final = 3_600_000
_LEAST, _MOST = 1e-6, 1e12
"""Anybody may push any value, and pages add values up and draw them. The largest is thirty years in milliseconds."""


def pushes_of(data: ReadableBuffer, start: int) -> Iterator[tuple[int, ClientPush | None]]:
    """Yield, of each record from offset `start` on, the offset after it and the push; None where it is none.

    What is not a valid batch is passed over.
    """
    at = start
    try:
        for position, header in headers(data):
            at = header.next_offset
            if at <= start:
                continue
            batch = memoryview(data)[position : position + header.size_bytes]
            try:
                records = [] if header.is_control else decode_batch(batch, header, limit_bytes=_MOST_BATCH_BYTES)
            except CorruptBatch:
                yield at, None
                continue
            for record in records:
                if record.offset >= start:
                    yield record.offset + 1, _push_of(record)
            yield from () if records else ((at, None),)
    except CorruptBatch:
        yield at + 1, None


def _push_of(record: Record) -> ClientPush | None:
    # Protobuf is loaded for the first push, and not in a monitor of a cluster without any.
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    told = {name: _text(value) for name, value in record.headers}
    instance_id = told.get("client_instance_id", "")
    try:
        metrics = MetricsData.FromString(record.value or b"")
        broker, interval_ms = int(told.get("broker_id", "")), int(told.get("push_interval_ms", ""))
    except (DecodeError, ValueError):
        return None
    if not instance_id:
        return None
    values, many = _values(metrics)
    return ClientPush(
        instance_id=instance_id,
        client_id=told.get("client_id", ""),
        software=told.get("client_software_name", ""),
        version=told.get("client_software_version", ""),
        address=told.get("client_source_address", ""),
        user=told.get("principal", ""),
        group=_group_of(metrics),
        broker=broker,
        at_ms=record.timestamp_ms,
        interval_ms=min(max(interval_ms, 1), _MOST_INTERVAL_MS),
        is_last=told.get("is_terminating") == "true",
        values=values,
        metrics=many,
        broker_produce_ms=_number(told.get("broker_produce_latency_ms")),
        broker_fetch_ms=_number(told.get("broker_fetch_latency_ms")),
    )


def _values(metrics: Any) -> tuple[dict[str, float], int]:
    """The kept values, and how many metrics there were."""
    values: dict[str, float] = {}
    many = 0
    for resource in metrics.resource_metrics:
        for scope in resource.scope_metrics:
            many += len(scope.metrics)
            for metric in scope.metrics:
                short = KEPT.get(metric.name)
                points = metric.gauge.data_points if short is not None else ()
                if short is not None and points:
                    point = points[0]
                    value = point.as_double if point.WhichOneof("value") == "as_double" else float(point.as_int)
                    # A client without a request says 0 or NaN.
                    if _LEAST <= value <= _MOST or (value == 0 and short.endswith("_per_s")):
                        values[short] = value
    return values, many


def _group_of(metrics: Any) -> str:
    for resource in metrics.resource_metrics:
        for attribute in resource.resource.attributes:
            if attribute.key == "group_id":
                return str(attribute.value.string_value)[:_MOST_TEXT]
    return ""


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")[:_MOST_TEXT]


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
