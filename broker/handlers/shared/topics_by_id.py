"""Topics of requests about committed offsets by their names, where a request has ids (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from highwater.broker.node import Node
from highwater.kafka.arrays import array
from highwater.kafka.protocol.cold import Answer


class TopicById(NamedTuple):
    """A topic of OffsetCommit or OffsetFetch from version 10 on, or of TxnOffsetCommit from version 6 on."""

    name: str
    """Empty for an id that nobody knows."""
    topic_id: UUID | None
    """None for the id of zeros."""
    partitions: Sequence[Any] = ()
    """Those of a commit."""
    partition_indexes: Sequence[int] = ()
    """Those of OffsetFetch."""


def with_names(node: Node, topics: Any) -> Any:
    """The topics of a request; those by id get the names that they have now, once."""
    if not topics or hasattr(topics[0], "name"):
        return topics
    return array(
        TopicById(
            "" if topic.topic_id is None else node.topic_name(topic.topic_id) or "",
            topic.topic_id,
            getattr(topic, "partitions", ()),
            getattr(topic, "partition_indexes", ()),
        )
        for topic in topics
    )


def is_unknown_id(topic: Any) -> bool:
    return isinstance(topic, TopicById) and not topic.name


def key_of(topic: Any, name: str = "name") -> Answer:
    """The topic as its answer has it; `name` is the field of its name, which an answer by id leaves out."""
    named = {name: getattr(topic, name)}
    return named | {"topic_id": topic.topic_id} if isinstance(topic, TopicById) else named
