"""AllocateProducerIds: v0 (key 67), served by the controller to brokers

Behaviour: allocates a block of 1000 unused ids (KIP-730).
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.member import member_of
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.settings.metadata_tree import ProducerIdBlock


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    deferred = Deferred()

    def done(outcome: ProducerIdBlock | ErrorCode) -> None:
        if isinstance(outcome, ErrorCode):
            deferred.complete({"error_code": outcome})
        else:
            length = outcome.last - outcome.first + 1
            deferred.complete({"producer_id_start": outcome.first, "producer_id_len": length})

    member_of(node).controller.allocate_producer_ids(request.broker_id, request.broker_epoch, done)
    return deferred.now_or_later()
