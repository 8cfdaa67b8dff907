"""AlterReplicaLogDirs: v0-v2 (key 34)

Behaviour (KIP-113):
* Moves partitions to another log directory of this broker, in the background, while they are used. The answer comes
  when the move is accepted. DescribeLogDirs shows its progress.
* The current directory of a partition cancels its move; a third directory starts the move again, to that one.
* A path that is not a log directory: LOG_DIR_NOT_FOUND; a failed one: KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.refusal import refusal
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    results: dict[str, list[Answer]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            results.setdefault(topic.name, []).extend(
                {"partition_index": index, "error_code": _move(node, topic.name, index, directory.path)}
                for index in topic.partitions
            )
    return {"results": [{"topic_name": name, "partitions": partitions} for name, partitions in paced(results.items())]}


def _move(node: Node, topic: str, index: int, path: str) -> ErrorCode:
    partition = node.partitions.find(topic, index)
    if partition is None:
        return refusal(node.partitions, node.cluster, topic, index)
    return node.partitions.move_log(partition, path)
