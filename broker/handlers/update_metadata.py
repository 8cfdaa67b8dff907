"""UpdateMetadata: v0-v8 (key 6)

Behaviour: the controller sends the live brokers, the leaders of partitions, and the deleted partitions. The request is
refused with STALE_BROKER_EPOCH if it is for an earlier registration of this broker, and with STALE_CONTROLLER_EPOCH
after a request of a later controller.

A new controller sends the brokers first, and the partitions after it has elected their leaders. A broker that has
replicas delays its answers to clients until then (highwater.broker.handlers.dispatch).

Versions: v1 brings several endpoints of a broker, v2 racks, v3 the names of listeners, v4 offline replicas, v5 the
broker epoch and topics, v7 topic ids. v8 brings the type, which only migration to KRaft needs (KIP-866).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from highwater.broker.cluster.epochs import UNKNOWN_EPOCH
from highwater.broker.handlers.shared.member import member_of
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node

_PARTITIONS_FOLLOW_WITHIN_MS: Final = 2000
"""The partitions never come when all topics were deleted while the broker was down."""


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    member = member_of(node)
    metadata = member.metadata
    broker_epoch = request.broker_epoch if context.version >= 5 else UNKNOWN_EPOCH
    error_code = member.epochs.obey(request.controller_epoch, broker_epoch)
    if not error_code:
        # Kafka's controller notices a stopped broker at the end of its session; until then clients see the broker.
        gone = metadata.update(request, context.version)
        for broker in gone:
            timeout_ms = node.config.integer("zookeeper.session.timeout.ms")
            node.scheduler.call_later(timeout_ms, partial(metadata.forget, broker))
        if gone:
            member.replicas.brokers_are_gone()
        if not metadata.is_complete:
            if any(node.storage.log_directories.keys()):
                node.scheduler.call_later(_PARTITIONS_FOLLOW_WITHIN_MS, metadata.complete)
            else:
                metadata.complete()
    return {"error_code": error_code}
