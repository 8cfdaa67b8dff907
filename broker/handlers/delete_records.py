"""DeleteRecords: v0-v2 (key 21)

Behaviour:
* Each partition by itself: the request sets the log start offset, -1 being the high watermark; the answer returns the
  new log start offset. A lower offset changes nothing; one above the high watermark, or below -1: OFFSET_OUT_OF_RANGE.
* POLICY_VIOLATION where `cleanup.policy` has no `delete`; INVALID_TOPIC_EXCEPTION for the broker's own topics.
* The answer comes when all live replicas have the new log start offset: REQUEST_TIMED_OUT if that takes too long. A
  broker that runs alone has no other replicas, so it checkpoints the start offsets first; Kafka leaves that to its next
  periodic checkpoint.
* The next retention check deletes segments that lie below the log start offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Timer
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.replica.leader import Leader
from highwater.broker.topics.internal_topic import INTERNAL_TOPICS
from highwater.broker.topics.refusal import refusal
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer, milliseconds


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
    deleted = [
        (topic["name"], partition)
        for topic in paced(answer["topics"])
        for partition in paced(topic["partitions"])
        if "error_code" not in partition
    ]
    if not deleted:
        return answer
    deferred = Deferred()
    if node.member is not None:
        _wait_for_replicas(node, deferred, answer, deleted, milliseconds(request.timeout))
        return deferred.now_or_later()
    node.storage.request_checkpoint(partial(_complete, deferred, answer))
    return deferred


def _wait_for_replicas(
    node: Node, deferred: Deferred, answer: Answer, deleted: Sequence[tuple[str, Answer]], timeout_ms: int
) -> None:
    undecided = set(range(len(deleted)))
    timer: Timer | None = None

    def decide(slot: int, error: ErrorCode) -> None:
        if slot not in undecided:
            return
        undecided.discard(slot)
        if error:
            deleted[slot][1].update(_refusal(error))
        if not undecided:
            if timer is not None:
                timer.cancel()
            deferred.complete(answer)

    def give_up() -> None:
        for slot in tuple(undecided):
            decide(slot, ErrorCode.request_timed_out)

    timer = node.scheduler.call_later(max(timeout_ms, 0), give_up)
    for slot, (topic, told) in enumerate(paced(deleted)):
        partition = node.partitions.find(topic, told["partition_index"])
        if partition is None or not isinstance(partition.role, Leader):
            decide(slot, ErrorCode.not_leader_or_follower)
            continue
        partition.role.when_low(told["low_watermark"], partial(decide, slot))


def _delete(node: Node, topic: str, index: int, offset: int) -> Answer:
    partition = node.partitions.find(topic, index)
    if topic in INTERNAL_TOPICS:
        return _refusal(ErrorCode.invalid_topic_exception)
    if partition is None or not partition.is_leader:
        return _refusal(refusal(node.partitions, node.cluster, topic, index))
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
