"""DescribeLogDirs: v0-v5 (key 35)

Behaviour: returns each log directory with the size of each partition in it, of all topics when the request has null; a
failed directory with KAFKA_STORAGE_ERROR. A partition that is being moved is also in its future directory, with its
bytes there and its lag in offsets. v4 brings the size of the volume and its usable bytes (KIP-827): -1, unknown, when
the directory failed or does not report them. v5 brings whether a directory is cordoned (KIP-1066): none is.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.moving import Move
from highwater.broker.node import Node
from highwater.broker.topics.topic import Topic
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer

_UNKNOWN: Final = (-1, -1)


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if request.topics is None:
        wanted = [(topic, sorted(topic.partitions)) for topic in node.partitions.topics()]
    else:
        wanted = [
            (topic, [index for index in paced(entry.partitions) if index in topic.partitions])
            for entry in request.topics
            if (topic := node.partitions.topic(entry.topic)) is not None
        ]
    directories = node.storage.log_directories
    results = [_describe_directory(node, directory, wanted) for directory in directories.all]
    return {"results": results + [_failed(str(path)) for path in directories.lacking]}


def _failed(path: str) -> Answer:
    return {
        "error_code": ErrorCode.kafka_storage_error,
        "log_dir": path,
        "topics": [],
        "total_bytes": _UNKNOWN[0],
        "usable_bytes": _UNKNOWN[1],
    }


def _describe_directory(node: Node, directory: LogDirectory, wanted: list[tuple[Topic, list[int]]]) -> Answer:
    if directory not in node.storage.log_directories.live:
        return _failed(str(directory.path))
    here = [
        (topic, [index for index in paced(indexes) if _is_in(node, directory, (topic.name, index))])
        for topic, indexes in paced(wanted)
    ]
    total_bytes, usable_bytes = _volume(directory)
    return {
        "error_code": ErrorCode.none,
        "log_dir": str(directory.path),
        "topics": [_describe(node, directory, topic, indexes) for topic, indexes in paced(here) if indexes],
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
    }


def _volume(directory: LogDirectory) -> tuple[int, int]:
    try:
        return directory.files.volume_size(directory.path)
    except OSError:
        return _UNKNOWN


def _is_in(node: Node, directory: LogDirectory, key: TopicPartition) -> bool:
    return key in directory.logs or _move_to(node, directory, key) is not None


def _move_to(node: Node, directory: LogDirectory, key: TopicPartition) -> Move | None:
    move = node.partitions.moves.get(key)
    return move if move is not None and move.destination is directory else None


def _describe(node: Node, directory: LogDirectory, topic: Topic, indexes: list[int]) -> Answer:
    partitions = []
    for index in paced(indexes):
        partition = topic.partitions.get(index)
        if partition is None:
            continue  # It was deleted meanwhile.
        log = partition.log
        move = _move_to(node, directory, (topic.name, index))
        partitions.append(
            {
                "partition_index": index,
                "partition_size": log.size_bytes if move is None else move.copied_bytes,
                "offset_lag": 0 if move is None else max(log.log_end_offset - move.copied_to_offset, 0),
                "is_future_key": move is not None,
            }
        )
    return {"name": topic.name, "partitions": partitions}
