"""DeleteRecords: v0-v2 (key 21)

Behaviour:
* Each partition by itself: its log starts at the offset asked for, -1 being the high watermark, and the answer tells
  where it starts now. An offset below its start changes nothing; one past the high watermark, or below -1:
  OFFSET_OUT_OF_RANGE.
* POLICY_VIOLATION where `cleanup.policy` has no `delete`; INVALID_TOPIC_EXCEPTION for the broker's own topics.
* The answer comes when the start offsets are checkpointed. Kafka leaves that to its next periodic checkpoint, as other
  replicas have them as well; a broker alone has nobody to remember them for it.
* Files go with the next retention check, when a whole segment lies below the start.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker.handlers.reply import Deferred, Reply, RequestContext
from broker.internal_topic import INTERNAL_TOPICS
from broker.node import Node
from broker.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    answer: Answer = {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": wanted.partition_index}
                    | _delete(node, topic.name, wanted.partition_index, wanted.offset)
                    for wanted in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
    partitions = [partition for topic in answer["topics"] for partition in topic["partitions"]]
    if all("error_code" in partition for partition in partitions):
        return answer
    deferred = Deferred()
    node.request_checkpoint(partial(_complete, deferred, answer))
    return deferred


def _delete(node: Node, topic: str, index: int, offset: int) -> Answer:
    partition = node.partition(topic, index)
    if topic in INTERNAL_TOPICS:
        return _refusal(ErrorCode.invalid_topic_exception)
    if partition is None:
        return _refusal(ErrorCode.unknown_topic_or_partition)
    low_watermark = partition.delete_records(offset)
    return _refusal(low_watermark) if isinstance(low_watermark, ErrorCode) else {"low_watermark": low_watermark}


def _refusal(error: ErrorCode) -> Answer:
    return {"low_watermark": -1, "error_code": error}


def _complete(deferred: Deferred, answer: Answer, failure: OSError | None) -> None:
    if failure is not None:
        for topic in answer["topics"]:
            for partition in topic["partitions"]:
                if "error_code" not in partition:
                    partition.update(_refusal(ErrorCode.kafka_storage_error))
    deferred.complete(answer)
