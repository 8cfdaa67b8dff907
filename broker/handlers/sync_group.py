"""SyncGroup: v0-v5 (key 14)

Behaviour: followers wait until the leader's SyncGroup brings the assignment and the log has it; see
highwater.broker.group.classic.

Versions: v3 brings static members (KIP-345); from v5 on protocol type and name must be there and be the group's, else
INCONSISTENT_GROUP_PROTOCOL (KIP-559).
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.group.events import SyncAnswer, SyncRequest
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    version = context.version
    protocol_type = getattr(request, "protocol_type", None)
    protocol_name = getattr(request, "protocol_name", None)
    if version >= 5 and (protocol_type is None or protocol_name is None):
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    deferred = Deferred()

    def answer(synced: SyncAnswer) -> None:
        deferred.complete(synced._asdict())

    node.groups.sync(
        request.group_id,
        SyncRequest(
            request.member_id,
            request.generation_id,
            getattr(request, "group_instance_id", None),
            protocol_type,
            protocol_name,
            {assignment.member_id: assignment.assignment for assignment in request.assignments},
        ),
        answer,
    )
    return deferred.now_or_later()
