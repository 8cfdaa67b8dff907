"""DescribeLogDirs: v0-v4 (key 35)

Behaviour: each log directory with the size of each partition in it, of all topics when null is asked for; one that
failed with KAFKA_STORAGE_ERROR. Nothing lags here and nothing moves between directories. The sizes of the volume (v4,
KIP-827) are told as unknown.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker.handlers.reply import Reply, RequestContext
from broker.log.log_directory import LogDirectory
from broker.node import Node, Topic
from broker.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if request.topics is None:
        wanted = [(topic, list(range(len(topic.partitions)))) for topic in node.topics()]
    else:
        wanted = [
            (topic, [index for index in entry.partitions if node.partition(entry.topic, index) is not None])
            for entry in request.topics
            if (topic := node.topic(entry.topic)) is not None
        ]
    return {"results": [_describe_directory(node, directory, wanted) for directory in node.log_directories.all]}


def _describe_directory(node: Node, directory: LogDirectory, wanted: list[tuple[Topic, list[int]]]) -> Answer:
    has_failed = directory not in node.log_directories.live
    here = [
        (topic, [index for index in indexes if (topic.name, index) in directory.logs])
        for topic, indexes in wanted
        if not has_failed
    ]
    return {
        "error_code": ErrorCode.kafka_storage_error if has_failed else ErrorCode.none,
        "log_dir": str(directory.path),
        "topics": [_describe(topic, indexes) for topic, indexes in here if indexes],
        "total_bytes": -1,
        "usable_bytes": -1,
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
