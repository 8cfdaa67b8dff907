"""A topic as a broker holds it: its settings, and those of its partitions that are here."""

from __future__ import annotations

import re
from typing import Final

from broker.cluster.store import TopicRecord
from broker.config import TopicConfig
from broker.metrics.counters import TopicCounters
from broker.replica.partition import Partition

MAX_TOPIC_NAME_LENGTH: Final = 249
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


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


def topic_name_problem(name: str) -> str | None:
    """Why this cannot be a topic's name, by Kafka's rules; None when it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"Topic name is invalid: it is longer than {MAX_TOPIC_NAME_LENGTH} characters"
    if not _TOPIC_NAME.fullmatch(name):
        return f"Topic name is invalid: '{name}' has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def metric_name(topic: str) -> str:
    """The name as metrics spell it, where it must be unique too."""
    return topic.replace(".", "_")
