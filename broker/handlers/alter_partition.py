"""AlterPartition: v0-v3 (key 56), served by the controller to leaders

Behaviour: each partition by itself, all written in one round (highwater.broker.controller.alter_partition).
v1 brings the leader recovery state (KIP-704), v2 topic ids (KIP-841), v3 the epochs of the replicas (KIP-903).
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.member import member_of
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    deferred = Deferred()
    member_of(node).controller.alter_partitions(request, context.version, deferred.complete)
    return deferred.now_or_later()
