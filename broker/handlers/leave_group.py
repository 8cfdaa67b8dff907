"""LeaveGroup: v0-v5 (key 13)

Behaviour: each member by itself. The member is removed at once, or in a consumer group (KIP-848) when the log
has it, and its group rebalances. A static member can be
removed by its instance id alone, with an empty member id.

Versions: v3 brings several members in one request, each with an error code (KIP-345); before v3 the answer has the
error code of the one member.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.group.events import Leaver
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if context.version < 3:
        leavers = [Leaver(request.member_id)]
    else:
        leavers = [
            Leaver(member.member_id, member.group_instance_id, getattr(member, "reason", None) or "not provided")
            for member in request.members
        ]
    deferred = Deferred()

    def answer(outcomes: ErrorCode | list[ErrorCode]) -> None:
        deferred.complete(lambda: _answer(context.version, leavers, outcomes))

    node.groups.leave(request.group_id, leavers, answer)
    return deferred.now_or_later()


def _answer(version: int, leavers: Sequence[Leaver], outcomes: ErrorCode | list[ErrorCode]) -> Answer:
    if isinstance(outcomes, ErrorCode):
        return {"error_code": outcomes}
    if version < 3:
        return {"error_code": outcomes[0]}
    return {
        "error_code": ErrorCode.none,
        "members": [
            {"member_id": leaver.member_id, "group_instance_id": leaver.group_instance_id, "error_code": outcome}
            for leaver, outcome in zip(leavers, outcomes, strict=True)
        ],
    }
