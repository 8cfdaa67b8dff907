"""DescribeLogDirs: v1-v4 (key 35)

Behaviour: the log directory with the size of each partition in it, of all topics when null is asked for. Nothing lags
here and nothing moves between directories. The sizes of the volume (v4, KIP-827) are told as unknown.
"""

from __future__ import annotations

from typing import Any

from broker.handlers.reply import Reply, RequestContext
from broker.node import Node, Topic


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if request.topics is None:
        wanted = [(topic, list(range(len(topic.partitions)))) for topic in node.topics()]
    else:
        wanted = [
            (topic, [index for index in entry.partitions if node.partition(entry.topic, index) is not None])
            for entry in request.topics
            if (topic := node.topic(entry.topic)) is not None
        ]
    return {
        "results": [
            {
                "log_dir": str(node.log_directory.path),
                "topics": [_describe(topic, indexes) for topic, indexes in wanted],
                "total_bytes": -1,
                "usable_bytes": -1,
            }
        ]
    }


def _describe(topic: Topic, indexes: list[int]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": [
            {
                "partition_index": index,
                "partition_size": topic.partitions[index].log.size_bytes,
                "offset_lag": 0,
                "is_future_key": False,
            }
            for index in indexes
        ],
    }
