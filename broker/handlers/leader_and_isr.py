"""LeaderAndIsr: v0-v7 (key 4)

Behaviour: the controller sends the partitions that this broker leads and follows. broker.member.replica_manager does
this and returns the errors. The whole request is refused with STALE_BROKER_EPOCH if it is for another registration of
this broker, and with STALE_CONTROLLER_EPOCH after a request of a later controller.

Versions: v2 brings the broker epoch and topics, v3 reassignments, v5 topic ids, v6 KIP-704's recovery of the leader.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.member import member_of
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    deferred = Deferred()
    member_of(node).replicas.leader_and_isr(request, context.version, deferred.complete)
    return deferred.now_or_later()
