"""OffsetFetch: v1-v9 (key 9)

Behaviour: returns the committed offsets in every state of the group; -1 without a commit, also for an unknown group.
Null topics request all.

Versions: v2 brings null topics and an error for the whole answer, where v1 repeats it for every partition; v7
require_stable, which answers UNSTABLE_OFFSET_COMMIT before a commit is decided (KIP-447); v8 several groups in one
request (KIP-709); v9 is for groups of the newer protocol (KIP-848) too, of which there are none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.group.offsets import GroupOffsets
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.cold import Answer


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    version = context.version
    is_stable = getattr(request, "require_stable", False)
    if version >= 8:
        return {
            "groups": [
                {"group_id": group.group_id} | _fetch(node, group.group_id, group.topics, is_stable)
                for group in request.groups
            ]
        }
    answer = _fetch(node, request.group_id, request.topics, is_stable)
    error = answer["error_code"]
    if version < 2 and error:
        answer["topics"] = _topics(
            (topic.name, index, _entry(index, error)) for topic in request.topics for index in topic.partition_indexes
        )
    return answer


def _fetch(node: Node, group_id: str, topics: Any, is_stable: bool) -> Answer:
    offsets = node.groups.offsets(group_id)
    if isinstance(offsets, ErrorCode):
        return {"error_code": offsets, "topics": []}
    wanted: Iterable[TopicPartition]
    if topics is None:
        wanted = offsets.all()
    else:
        wanted = [(topic.name, index) for topic in topics for index in topic.partition_indexes]
    return {
        "error_code": ErrorCode.none,
        "topics": _topics((topic, index, _offset(offsets, (topic, index), is_stable)) for topic, index in wanted),
    }


def _offset(offsets: GroupOffsets, partition: TopicPartition, is_stable: bool) -> Answer:
    if is_stable and offsets.is_pending(partition):
        return _entry(partition[1], ErrorCode.unstable_offset_commit)
    found = offsets.get(partition)
    if found is None:
        return _entry(partition[1], ErrorCode.none)
    return _entry(partition[1], ErrorCode.none) | {
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
    }


def _entry(index: int, error_code: ErrorCode) -> Answer:
    return {"partition_index": index, "committed_offset": -1, "metadata": "", "error_code": error_code}


def _topics(entries: Iterable[tuple[str, int, Answer]]) -> list[Answer]:
    topics: dict[str, list[Answer]] = {}
    for topic, _, entry in entries:
        topics.setdefault(topic, []).append(entry)
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
