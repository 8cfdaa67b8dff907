"""PushTelemetry: v0-v0 (key 72)

Behaviour (KIP-714):
* Takes the metrics of a client, which are OpenTelemetry's MetricsData, and writes them to the topic
  _highwater_client_metrics. The answer does not wait for that.
* A zero or reserved instance id, or a push after the last one: INVALID_REQUEST. A push before the interval is over, but
  for the one after GetTelemetrySubscriptions and the last one: THROTTLING_QUOTA_EXCEEDED. Another subscription id than
  the instance has now: UNKNOWN_SUBSCRIPTION_ID. An unknown codec: UNSUPPORTED_COMPRESSION_TYPE. More than
  telemetry.max.bytes, or what unfolds to more than eight times that: TELEMETRY_TOO_LARGE.
* What cannot be decompressed or decoded: INVALID_RECORD. Clients then push nothing any more, so it is the answer to
  nothing else.
* With highwater.client.telemetry=false: UNSUPPORTED_VERSION, and ApiVersions leaves the API out.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.get_telemetry_subscriptions import drop_at_disconnect, identity_of
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.telemetry.instances import Instance, Push
from highwater.broker.telemetry.payload import read_payload
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError


class PushTelemetryRequest(NamedTuple):
    client_instance_id: uuid.UUID
    subscription_id: int
    is_terminating: bool
    codec: int
    metrics: memoryview
    """A part of the frame: what is too large is refused without a copy of it."""


def decode(decoder: Decoder, version: int) -> PushTelemetryRequest:
    instance_id, subscription_id = decoder.uuid(), decoder.int32()
    is_terminating, codec, metrics = decoder.boolean(), decoder.int8(), decoder.nullable_bytes()
    if metrics is None:
        raise MalformedRequestError("the metrics are null where they must not be")
    decoder.skip_tags()
    return PushTelemetryRequest(instance_id, subscription_id, is_terminating, codec, metrics)


def handle(node: Node, context: RequestContext, request: PushTelemetryRequest) -> Reply:
    if not node.telemetry.is_on:
        return {"error_code": ErrorCode.unsupported_version}
    error_code = _take(node, context, request)
    if error_code:
        size_bytes, client = len(request.metrics), context.client
        node.telemetry.tell_refusal(client.host, request.client_instance_id, size_bytes, error_code)
    return {"error_code": error_code}


def _take(node: Node, context: RequestContext, request: PushTelemetryRequest) -> ErrorCode:
    telemetry, metrics = node.telemetry, request.metrics
    push = Push(request.subscription_id, request.is_terminating, request.codec, len(metrics))
    instance = telemetry.instances.push(
        request.client_instance_id, push, partial(identity_of, context), context.client, telemetry.now_ms()
    )
    if not isinstance(instance, Instance):
        return instance
    drop_at_disconnect(node, context, instance)
    if not metrics:
        return ErrorCode.none
    payload = read_payload(push.codec, metrics, telemetry.instances.max_bytes)
    if isinstance(payload, ErrorCode):
        instance.last_error = payload
        return payload
    about = {
        "principal": context.client.principal,
        "push_interval_ms": str(instance.wanted.interval_ms),
        "is_terminating": str(request.is_terminating).lower(),
        **telemetry.own_latency.told(telemetry.now_ms()),
    }
    telemetry.publishing.add(instance.identity, payload, about)
    return ErrorCode.none
