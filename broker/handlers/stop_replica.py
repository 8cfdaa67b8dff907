"""StopReplica: v0-v4 (key 5)

Behaviour: the controller stops replicas of this broker, or deletes them; broker.member.replica_manager executes it. The
whole request is refused as in LeaderAndIsr.

Versions: v1 brings the broker epoch; v3 has for each partition whether to delete it, and its leader epoch.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.shared.member import member_of
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    deferred = Deferred()
    member_of(node).replicas.stop_replica(request, context.version, deferred.complete)
    return deferred.now_or_later()
