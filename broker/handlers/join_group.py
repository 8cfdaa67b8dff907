"""JoinGroup: v0-v9 (key 11)

Behaviour:
* Waits until the members of the rebalance have joined; see broker.group.classic. In a consumer group (KIP-848) it waits
  for nobody; see broker.group.consumer.classic_members.
* Session time-outs outside of group.min/max.session.timeout.ms: INVALID_SESSION_TIMEOUT; a group that has
  group.max.size members: GROUP_MAX_SIZE_REACHED.

Versions: v0 has no rebalance time-out and uses the session time-out; v4 answers a first join with a member id, with
which the client joins again (KIP-394); v5 brings static members (KIP-345); v9 skip_assignment (KIP-814).
"""

from __future__ import annotations

from typing import Any

from highwater.broker.group.events import JoinAnswer, JoinRequest, Protocol
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.protocol.cold import milliseconds


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    version = context.version
    instance_id = getattr(request, "group_instance_id", None)
    deferred = Deferred()

    def answer(joined: JoinAnswer) -> None:
        deferred.complete(_encode(joined, version))

    node.groups.join(
        request.group_id,
        JoinRequest(
            request.member_id,
            request.protocol_type,
            tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
            milliseconds(request.session_timeout),
            milliseconds(request.session_timeout if version == 0 else request.rebalance_timeout),
            instance_id,
            context.client_id or "",
            f"/{context.client.host}",
            must_know_member_id=version >= 4 and instance_id is None,
            may_skip_assignment=version >= 9,
            reason=getattr(request, "reason", None) or "not provided",
        ),
        answer,
    )
    return deferred.now_or_later()


def _encode(joined: JoinAnswer, version: int) -> dict[str, Any]:
    return {
        "error_code": joined.error_code,
        "generation_id": joined.generation_id,
        "protocol_type": joined.protocol_type,
        "protocol_name": joined.protocol_name or ("" if version < 7 else None),
        "leader": joined.leader_id,
        "skip_assignment": joined.skip_assignment,
        "member_id": joined.member_id,
        "members": [member._asdict() for member in joined.members],
    }
