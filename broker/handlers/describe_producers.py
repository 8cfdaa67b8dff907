"""DescribeProducers: v0-v0 (key 61)

Behaviour: returns the active producers of each partition (KIP-664), the first offset of their open transaction (-1:
there is none), and the epoch of the coordinator that last ended one. An invalid topic name: INVALID_TOPIC_EXCEPTION; a
partition that does not exist: UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.refusal import refusal
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.topic_names import topic_name_problem


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": index} | _describe(node, topic.name, index) for index in topic.partition_indexes
                ],
            }
            for topic in request.topics
        ]
    }


def _describe(node: Node, topic: str, index: int) -> Answer:
    if reason := topic_name_problem(topic):
        return _refusal(ErrorCode.invalid_topic_exception, reason)
    partition = node.partitions.find(topic, index)
    if partition is None:
        return _refusal(
            refusal(node.partitions, node.cluster, topic, index), "This server does not host this topic-partition."
        )
    if partition.has_failed:
        return _refusal(ErrorCode.kafka_storage_error, "The partition's log directory failed.")
    return {
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": state.epoch,
                "last_sequence": state.last_sequence,
                "last_timestamp": state.last_timestamp_ms,
                "coordinator_epoch": state.coordinator_epoch,
                "current_txn_start_offset": state.transaction_first_offset,
            }
            for producer_id, state in partition.log.producer_states
        ]
    }


def _refusal(error: ErrorCode, message: str) -> Answer:
    return {"error_code": error, "error_message": message, "active_producers": []}
