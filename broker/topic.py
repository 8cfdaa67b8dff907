"""A topic as a broker holds it: its settings, and those of its partitions that are here."""

from __future__ import annotations

from highwater.broker.cluster.store import TopicRecord
from highwater.broker.metrics.counters import TopicCounters
from highwater.broker.replica.partition import Partition
from highwater.broker.settings.config import TopicConfig


class Topic:
    __slots__ = ("config", "counters", "name", "partition_count", "partitions", "topic_id")

    def __init__(self, record: TopicRecord, config: TopicConfig, counters: TopicCounters) -> None:
        self.name = record.name
        self.topic_id = record.topic_id
        self.config = config
        self.partition_count = len(record.assignment)
        self.partitions: dict[int, Partition] = {}
        """By index; where several brokers are, those whose replica is here."""
        self.counters = counters
