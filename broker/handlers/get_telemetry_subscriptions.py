"""GetTelemetrySubscriptions: v0-v0 (key 71)

Behaviour (KIP-714):
* Returns which metrics the client shall push, and how often: what all subscriptions that match it ask for, at the
  shortest of their intervals. Without one: no metrics, and to ask again after five minutes.
* A client without an instance id is given one. The subscription id follows from the answer and the instance id alone.
* A request before the interval is over: THROTTLING_QUOTA_EXCEEDED, unless the last push was refused because of its
  subscription id or codec, or the subscriptions changed.
* With highwater.client.telemetry=false: UNSUPPORTED_VERSION, and ApiVersions leaves the API out.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.telemetry.instances import Instance, text_of_id
from highwater.broker.telemetry.subscriptions import Identity
from highwater.kafka.records.batch import Codec

_ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""Clients shall prefer them in this order. None at all is always accepted."""


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    telemetry = node.telemetry
    if not telemetry.is_on:
        return {"error_code": ErrorCode.unsupported_version}
    connection = context.client
    instance, error_code = telemetry.instances.get(
        request.client_instance_id, partial(identity_of, context), connection, telemetry.now_ms()
    )
    drop_at_disconnect(node, context, instance)
    if error_code:
        return {"error_code": error_code}
    return {
        "client_instance_id": instance.id,
        "subscription_id": instance.subscription_id,
        "accepted_compression_types": _ACCEPTED,
        "push_interval": instance.wanted.interval_ms,
        "telemetry_max_bytes": telemetry.instances.max_bytes,
        "delta_temporality": True,
        "requested_metrics": instance.wanted.metrics,
    }


def identity_of(context: RequestContext, instance_id: uuid.UUID) -> Identity:
    client = context.client
    return Identity(
        text_of_id(instance_id),
        context.client_id or "",
        client.software_name,
        client.software_version,
        client.host,
        str(client.port),
    )


def drop_at_disconnect(node: Node, context: RequestContext, instance: Instance) -> None:
    client = context.client
    client.when_gone = partial(node.telemetry.instances.disconnected, instance.id, client)
