"""Guards of requests about topics and their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from highwater.broker.handlers.authorization.access import (
    TOPIC_DENIED,
    Access,
    Guard,
    Handle,
    after,
    refusal,
)
from highwater.broker.handlers.shared.reply import Reply
from highwater.broker.handlers.shared.topics_by_id import is_unknown_id, key_of
from highwater.kafka.acl import Operation
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.topic_names import topic_name_problem

_AUTHORIZATION_FAILED: Final = "Authorization failed."
"""Kafka's message for topics that are created; for those that are deleted it has a full sentence."""

May = Callable[[Access, str], bool]


def to_topic(operation: Operation) -> May:
    return lambda access, name: access.to_topic(operation, name)


def each_topic(
    may: May,
    partition_refusal: Answer,
    *,
    name: str = "name",
    partitions: str = "partitions",
    index: str = "partition_index",
    index_of: Callable[[Any], int] = lambda partition: int(partition.partition_index),
) -> Guard:
    """Topics with partitions, in a request and in its answer. A refused topic has the refusal for each partition.

    name, partitions, index: fields of the answer's topics and partitions. An id that nobody knows is not refused.
    """

    def guard(access: Access, request: Any, handle: Handle) -> Reply:
        refused = [
            topic for topic in request.topics if not is_unknown_id(topic) and not may(access, getattr(topic, name))
        ]
        if not refused:
            return handle(request)
        told = [
            key_of(topic, name)
            | {
                "partitions": [
                    {index: index_of(each), "error_code": TOPIC_DENIED} | partition_refusal
                    for each in getattr(topic, partitions)
                ],
            }
            for topic in paced(refused)
        ]
        names = {getattr(topic, name) for topic in paced(refused)}
        allowed = tuple(topic for topic in request.topics if getattr(topic, name) not in names)
        reply = handle(replace(request, topics=allowed))
        return after(
            reply,
            # An error of the whole request says nothing about its topics.
            lambda answer: answer if answer.get("error_code") else answer | {"topics": [*answer["topics"], *told]},
        )

    return guard


def _may_read_epochs(access: Access, name: str) -> bool:
    return access.to_cluster(Operation.CLUSTER_ACTION, is_told=False) or access.to_topic(Operation.DESCRIBE, name)


LIST_OFFSETS: Final = each_topic(
    to_topic(Operation.DESCRIBE),
    {"timestamp": -1, "offset": -1, "leader_epoch": -1, "old_style_offsets": []},
)
OFFSET_FOR_LEADER_EPOCH: Final = each_topic(
    _may_read_epochs,
    {"leader_epoch": -1, "end_offset": -1},
    name="topic",
    index="partition",
    index_of=lambda partition: int(partition.partition),
)
DELETE_RECORDS: Final = each_topic(to_topic(Operation.DELETE), {"low_watermark": -1})
DESCRIBE_PRODUCERS: Final = each_topic(
    # A name that no topic can have is reported as such.
    lambda access, name: topic_name_problem(name) is not None or access.to_topic(Operation.READ, name),
    {**refusal(TOPIC_DENIED), "active_producers": []},
    partitions="partition_indexes",
    index_of=int,
)


def create_topics(access: Access, request: Any, handle: Handle) -> Reply:
    """CREATE on the cluster or the topic; the settings of a new topic are shown with DESCRIBE_CONFIGS on it."""
    if not access.node.administration.is_controller:
        return handle(request)
    named = Counter(topic.name for topic in request.topics)
    may_create_all = access.to_cluster(Operation.CREATE, is_told=False)
    refused = {
        topic.name: None
        for topic in request.topics
        if named[topic.name] == 1 and not may_create_all and not access.to_topic(Operation.CREATE, topic.name)
    }
    told = [
        {"name": name, "error_code": TOPIC_DENIED, "error_message": _AUTHORIZATION_FAILED, **_NO_SETTINGS}
        for name in paced(refused)
    ]
    allowed = tuple(topic for topic in request.topics if topic.name not in refused)

    def tell(answer: Answer) -> Answer:
        made = [
            # A creation that failed has no settings to hide.
            topic | _NO_SETTINGS
            if topic.get("error_code") and named[topic["name"]] == 1
            else _without_settings(access, topic)
            for topic in answer["topics"]
        ]
        return answer | {"topics": [*made, *(_without_settings(access, topic) for topic in paced(told))]}

    return after(handle(replace(request, topics=allowed)), tell)


_NO_SETTINGS: Final[Answer] = {"num_partitions": -1, "replication_factor": -1, "configs": []}


def _without_settings(access: Access, topic: Answer) -> Answer:
    if access.to_topic(Operation.DESCRIBE_CONFIGS, topic["name"], is_told=False):
        return topic | {"configs": topic["configs"] or []}
    return topic | _NO_SETTINGS | {"topic_config_error_code": TOPIC_DENIED}


def create_partitions(access: Access, request: Any, handle: Handle) -> Reply:
    if not access.node.administration.is_controller:
        return handle(request)
    refused = {topic.name: None for topic in request.topics if not access.to_topic(Operation.ALTER, topic.name)}
    allowed = tuple(topic for topic in request.topics if topic.name not in refused)
    told = [
        {"name": name, "error_code": TOPIC_DENIED, "error_message": "The topic authorization is failed."}
        for name in paced(refused)
    ]
    return after(
        handle(replace(request, topics=allowed)), lambda answer: answer | {"results": [*answer["results"], *told]}
    )


def delete_topics(access: Access, request: Any, handle: Handle) -> Reply:
    """DELETE on the topic. Principal to deny describe the topic of an id does not learn its name."""
    node = access.node
    if not node.administration.is_controller or not node.config.boolean("delete.topic.enable"):
        return handle(request)
    if access.version < 6:
        refused = {name: None for name in request.topic_names if not access.to_topic(Operation.DELETE, name)}
        allowed = tuple(name for name in request.topic_names if name not in refused)
        told = [{"name": name, "error_code": TOPIC_DENIED} for name in paced(refused)]
        reply = handle(replace(request, topic_names=allowed))
    else:
        told, left = [], []
        for topic in request.topics:
            view = None if topic.topic_id is None or topic.name is not None else node.cluster.topic(topic.topic_id)
            name = topic.name if view is None else view.name
            if name is None or access.to_topic(Operation.DELETE, name):
                left.append(topic)
                continue
            shown = name if view is None or access.to_topic(Operation.DESCRIBE, name, is_told=False) else None
            told.append({"name": shown, "topic_id": topic.topic_id, "error_code": TOPIC_DENIED})
        reply = handle(replace(request, topics=tuple(left)))
    return after(reply, lambda answer: answer | {"responses": [*answer["responses"], *told]})
