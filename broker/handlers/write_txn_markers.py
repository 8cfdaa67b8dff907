"""WriteTxnMarkers: v0-v2 (key 27)

Behaviour: ends transactions on partitions, for coordinators on other brokers and for operators who abort a hanging
transaction (KIP-664). Each partition by itself, when its marker is durable: UNKNOWN_TOPIC_OR_PARTITION,
INVALID_PRODUCER_EPOCH for an epoch below the producer's, TRANSACTION_COORDINATOR_FENCED for one below the coordinator
epoch of the last marker. A marker is also written where no transaction is open.

Versions: v2 brings the version of the transaction (KIP-1228). The epoch of a marker of version 2 must be above the
producer's, so that a late marker does not end the next transaction. The same epoch is allowed where no transaction is
open, as for a marker that is written twice (KAFKA-19999).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.records.record import TransactionMarker


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    answer: Answer = {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [{"partition_index": index} for index in topic.partition_indexes],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in request.markers
        ]
    }
    wanted: list[tuple[TransactionMarker, str, Answer]] = [
        (
            TransactionMarker(
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.transaction_result,
                getattr(marker, "transaction_version", 0),
            ),
            topic["name"],
            partition,
        )
        for marker, told in zip(request.markers, answer["markers"], strict=True)
        for topic in paced(told["topics"])
        for partition in paced(topic["partitions"])
    ]
    if not wanted:
        return answer
    deferred = Deferred()
    left = len(wanted)

    def written(partition: Answer, error: ErrorCode) -> None:
        nonlocal left
        partition["error_code"] = error
        left -= 1
        if left == 0:
            deferred.complete(answer)

    for marker, topic, partition in paced(wanted):
        node.markers.write_one(topic, partition["partition_index"], marker, partial(written, partition))
    return deferred.now_or_later()
