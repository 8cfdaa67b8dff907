"""StopReplica: v0-v4 (key 5)

Behaviour: the controller has replicas of this broker follow nobody any more, or go altogether; broker.replica.manager
carries it out. The whole request is refused as LeaderAndIsr is.

Versions: v1 brings the broker epoch; v3 says of each partition whether it goes, and in which leader epoch that is told.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.member import member_of
from highwater.broker.handlers.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    deferred = Deferred()
    member_of(node).replicas.stop_replica(request, context.version, deferred.complete)
    return deferred.now_or_later()
