"""Why a partition cannot be led by this broker."""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import ClusterView
from highwater.broker.topics.partitions import Partitions


def refusal(partitions: Partitions, cluster: ClusterView, topic: str | UUID, index: int) -> ErrorCode:
    """The error for who takes this broker for the leader of the partition, which it is not."""
    partition = partitions.find(topic, index)
    if partition is not None:
        return ErrorCode.kafka_storage_error if partition.has_failed else ErrorCode.not_leader_or_follower
    if not cluster.is_complete:
        return ErrorCode.not_leader_or_follower
    view = cluster.topic(topic)
    if view is not None and index in view.partitions:
        return ErrorCode.not_leader_or_follower
    is_unknown_id = view is None and isinstance(topic, UUID)
    return ErrorCode.unknown_topic_id if is_unknown_id else ErrorCode.unknown_topic_or_partition
