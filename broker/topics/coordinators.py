"""Reports to the coordinators of groups and transactions what becomes of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from highwater.broker.topics.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, InternalTopic
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.topic import Topic
from highwater.common.topic_partition import TopicPartition


class Coordinator(Protocol):
    """Keeps its state in one internal topic."""

    @property
    def topic(self) -> InternalTopic: ...

    def topic_deleted(self, name: str) -> None:
        """Any topic, of a broker that runs alone."""

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions of any topics, in a cluster."""


class Coordinators:
    def __init__(self, groups: Coordinator, transactions: Coordinator) -> None:
        self._by_topic = {OFFSETS_TOPIC: groups, TRANSACTIONS_TOPIC: transactions}

    def take_up_all(self, partitions: Partitions) -> None:
        """Lead what there is of their topics: a broker that runs alone starts."""
        for name in self._by_topic:
            topic = partitions.topic(name)
            if topic is not None:
                self.take_up(topic)

    def take_up(self, topic: Topic) -> None:
        """Lead a topic that is new, if it is one of theirs."""
        coordinator = self._by_topic.get(topic.name)
        if coordinator is not None:
            coordinator.topic.take_up(topic)

    def on_leader(self, topic: str, index: int, leader_epoch: int) -> None:
        coordinator = self._by_topic.get(topic)
        if coordinator is not None:
            coordinator.topic.on_leader(index, leader_epoch)

    def on_follower(self, topic: str, index: int) -> None:
        coordinator = self._by_topic.get(topic)
        if coordinator is not None:
            coordinator.topic.on_follower(index)

    def topic_deleted(self, name: str) -> None:
        for coordinator in self._by_topic.values():
            coordinator.topic_deleted(name)

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        for coordinator in self._by_topic.values():
            coordinator.partitions_deleted(partitions)
