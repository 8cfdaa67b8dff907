"""ControlledShutdown: v1-v3 (key 7), served by the controller to brokers that are about to stop

Behaviour: every partition that the broker leads gets another leader from the ISR, and the broker leaves the ISR of the
partitions that it follows. The answer lists partitions without another leader: the broker retries, or stops.
v2 brings the broker epoch: an earlier registration of the broker cannot shut down the current one.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.member import member_of
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.common.topic_partition import TopicPartition

_UNKNOWN_EPOCH = -1


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    deferred = Deferred()

    def done(outcome: tuple[ErrorCode, list[TopicPartition]]) -> None:
        error_code, remaining = outcome
        partitions = [{"topic_name": topic, "partition_index": index} for topic, index in remaining]
        deferred.complete({"error_code": error_code, "remaining_partitions": partitions})

    broker_epoch = request.broker_epoch if context.version >= 2 else _UNKNOWN_EPOCH
    member_of(node).controller.shut_down(request.broker_id, broker_epoch, done)
    return deferred.now_or_later()
