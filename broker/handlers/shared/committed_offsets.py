"""Reads committed offsets from requests, and encodes the outcomes by partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import ClusterView
from highwater.broker.group.commits import Outcomes
from highwater.broker.group.offsets import CommittedOffset
from highwater.broker.handlers.shared.topics_by_id import is_unknown_id, key_of
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer


def requested_offsets(
    request: Any, cluster: ClusterView, now_ms: int, expire_timestamp_ms: int | None = None
) -> tuple[dict[TopicPartition, CommittedOffset], dict[TopicPartition, ErrorCode]]:
    """Return the offsets of partitions that exist, and the errors of the others."""
    offsets: dict[TopicPartition, CommittedOffset] = {}
    unknown: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        view = cluster.topic(topic.name)
        topic_id = None if view is None or not view.topic_id.int else view.topic_id
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            if is_unknown_id(topic):
                unknown[key] = ErrorCode.unknown_topic_id
                continue
            if cluster.partition(*key) is None:
                unknown[key] = ErrorCode.unknown_topic_or_partition
                continue
            offsets[key] = CommittedOffset(
                wanted.committed_offset,
                getattr(wanted, "committed_leader_epoch", -1),
                wanted.committed_metadata or "",
                now_ms,
                expire_timestamp_ms,
                topic_id,
            )
    return offsets, unknown


def in_older_terms(outcomes: Outcomes, terms: Mapping[ErrorCode, ErrorCode]) -> Outcomes:
    """The outcomes for a version that lacks some errors: `terms` has what stands for each of them."""
    return {key: terms.get(error, error) for key, error in paced(outcomes.items())}


def outcomes_by_topic(request: Any, outcomes: Outcomes) -> list[Answer]:
    """Return the topics of the answer, with the outcome of each partition of the request."""
    return [
        key_of(topic)
        | {
            "partitions": [
                {"partition_index": wanted.partition_index, "error_code": outcomes[topic.name, wanted.partition_index]}
                for wanted in topic.partitions
            ],
        }
        for topic in request.topics
    ]
