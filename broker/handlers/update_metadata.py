"""UpdateMetadata: v0-v8 (key 6)

Behaviour: the controller tells which brokers live, who leads which partition, and which partitions are no more. It is
refused with STALE_BROKER_EPOCH if it means an earlier registration of this broker, and with STALE_CONTROLLER_EPOCH if a
later controller was heard before.

A controller that takes over tells of the brokers first, and of the partitions when it has looked after them. A broker
that has replicas waits for that with its answers to clients (highwater.broker.handlers.dispatch).

Versions: v1 brings several endpoints of a broker, v2 racks, v3 the names of listeners, v4 offline replicas, v5 the
broker epoch and topics, v7 topic ids. Type, of v8, matters to those who migrate to KRaft (KIP-866).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from highwater.broker.cluster.epochs import UNKNOWN_EPOCH
from highwater.broker.handlers.member import member_of
from highwater.broker.handlers.reply import Reply, RequestContext
from highwater.broker.node import Node

_PARTITIONS_FOLLOW_WITHIN_MS: Final = 2000
"""They never do when all topics were deleted while the broker was down."""


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    member = member_of(node)
    metadata = member.metadata
    broker_epoch = request.broker_epoch if context.version >= 5 else UNKNOWN_EPOCH
    error_code = member.epochs.obey(request.controller_epoch, broker_epoch)
    if not error_code:
        # Kafka's controller learns that a broker is gone by its session, and tells clients of it for so long.
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
