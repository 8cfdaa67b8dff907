"""OffsetFetch: v1-v10 (key 9)

Behaviour: returns the committed offsets in every state of the group; -1 without a commit, also for an unknown group.
Null topics request all. A member of a consumer group (KIP-848) whose epoch is not the current one: STALE_MEMBER_EPOCH.

Versions: v2 brings null topics and an error for the whole answer, where v1 repeats it for every partition; v7
require_stable, which answers UNSTABLE_OFFSET_COMMIT before a commit is decided (KIP-447); v8 several groups in one
request (KIP-709); v9 the member of a consumer group and its epoch; v10 names topics by id: UNKNOWN_TOPIC_ID for one
that nobody knows. An offset of a topic that was deleted and made again is that of another id, as if there were none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.group.offsets import GroupOffsets
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.handlers.shared.topics_by_id import TopicById, is_unknown_id, key_of, with_names
from highwater.broker.node import Node
from highwater.kafka.protocol.cold import Answer

_TOPIC_IDS_FROM: Final = 10


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    version = context.version
    is_stable = getattr(request, "require_stable", False)
    if version >= 8:
        return {
            "groups": [
                {"group_id": group.group_id}
                | _fetch(node, group, with_names(node, group.topics), is_stable, version >= _TOPIC_IDS_FROM)
                for group in request.groups
            ]
        }
    answer = _fetch(node, request, request.topics, is_stable)
    error = answer["error_code"]
    if version < 2 and error:
        answer["topics"] = _topics(
            (topic, [_entry(index, error) for index in topic.partition_indexes]) for topic in request.topics
        )
    return answer


def _fetch(node: Node, group: Any, topics: Any, is_stable: bool, by_id: bool = False) -> Answer:
    member = getattr(group, "member_id", None), getattr(group, "member_epoch", -1)
    offsets = node.groups.commits.of_group(group.group_id, *member)
    if isinstance(offsets, ErrorCode):
        return {"error_code": offsets, "topics": []}
    wanted = _all_topics(node, offsets, by_id) if topics is None else topics
    return {
        "error_code": ErrorCode.none,
        "topics": _topics(
            (topic, [_offset(offsets, topic, index, is_stable) for index in topic.partition_indexes])
            for topic in wanted
        ),
    }


class _Topic(NamedTuple):
    name: str
    partition_indexes: list[int]


def _all_topics(node: Node, offsets: GroupOffsets, by_id: bool) -> Iterator[_Topic | TopicById]:
    indexes: dict[str, list[int]] = {}
    for topic, index in offsets.all():
        indexes.setdefault(topic, []).append(index)
    for name, of_topic in indexes.items():
        if not by_id:
            yield _Topic(name, of_topic)
        elif (view := node.cluster.topic(name)) is not None:
            known = ((index, offsets.get((name, index))) for index in of_topic)
            own = [index for index, offset in known if offset is not None and offset.is_of(view.topic_id)]
            if own:
                yield TopicById(name, view.topic_id, partition_indexes=own)


def _offset(offsets: GroupOffsets, topic: Any, index: int, is_stable: bool) -> Answer:
    if is_unknown_id(topic):
        return _entry(index, ErrorCode.unknown_topic_id)
    partition = topic.name, index
    if is_stable and offsets.is_pending(partition):
        return _entry(index, ErrorCode.unstable_offset_commit)
    found = offsets.get(partition)
    if found is None or not found.is_of(getattr(topic, "topic_id", None)):
        return _entry(index, ErrorCode.none)
    return _entry(index, ErrorCode.none) | {
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
    }


def _entry(index: int, error_code: ErrorCode) -> Answer:
    return {"partition_index": index, "committed_offset": -1, "metadata": "", "error_code": error_code}


def _topics(entries: Iterable[tuple[Any, list[Answer]]]) -> list[Answer]:
    """The topics of the answer, each once."""
    topics: dict[tuple[Any, ...], Answer] = {}
    for topic, partitions in entries:
        key = key_of(topic)
        topics.setdefault(tuple(key.values()), key | {"partitions": []})["partitions"] += partitions
    return list(topics.values())
