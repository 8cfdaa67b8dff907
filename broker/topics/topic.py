"""A topic: its stored form, and what this broker holds of it (settings, partitions here)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID, uuid4

from highwater.broker.counters import TopicCounters
from highwater.broker.log.checkpoint import encode_topic_id
from highwater.broker.replica.partition import Partition
from highwater.broker.settings.config import TopicConfig


class TopicRecord(NamedTuple):
    name: str
    topic_id: UUID
    assignment: Mapping[int, list[int]]
    """Replicas by partition, the preferred leader first; partitions are numbered from 0 without gaps."""
    config: Mapping[str, str]
    """The topic's own overrides."""


class Topic:
    __slots__ = ("config", "counters", "name", "partition_count", "partitions", "topic_id")

    def __init__(self, record: TopicRecord, config: TopicConfig, counters: TopicCounters) -> None:
        self.name = record.name
        self.topic_id = record.topic_id
        self.config = config
        self.partition_count = len(record.assignment)
        self.partitions: dict[int, Partition] = {}
        """The partitions by index; in a cluster only those whose replica is on this broker."""
        self.counters = counters


def random_topic_id() -> UUID:
    """A topic id as Kafka's Uuid.randomUuid makes it: its text has no dash in front, which tools take for an option."""
    while True:
        topic_id = uuid4()
        if not encode_topic_id(topic_id).startswith("-"):
            return topic_id
