"""The cluster as a lone broker sees it: itself, the leader of every partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from highwater.broker.cluster.state import NO_LEADER, BrokerInfo, PartitionView, TopicView
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.topic import Topic


class LoneBroker:
    """Implements `ClusterView`."""

    def __init__(self, runtime: Runtime, cluster_id: str, partitions: Partitions) -> None:
        self.cluster_id = cluster_id
        self.controller_id = runtime.broker_id
        self._runtime = runtime
        self._partitions = partitions
        self.is_complete = True

    @property
    def topics_version(self) -> int:
        return self._partitions.topics_version

    def brokers(self) -> list[BrokerInfo]:
        return [BrokerInfo(self._runtime.broker_id, -1, (), self._runtime.config.string("broker.rack"))]

    def brokers_gone_lately(self) -> list[BrokerInfo]:
        return []

    def broker(self, broker_id: int) -> BrokerInfo | None:
        return self.brokers()[0] if broker_id == self._runtime.broker_id else None

    def topics(self) -> list[TopicView]:
        return [_topic_view(topic) for topic in self._partitions.topics()]

    def topic(self, name: str | UUID) -> TopicView | None:
        topic = self._partitions.topic(name)
        return None if topic is None else _topic_view(topic)

    def partition(self, topic: str | UUID, index: int) -> PartitionView | None:
        partition = self._partitions.find(topic, index)
        return None if partition is None else _view(partition)


class _Partitions(Mapping[int, PartitionView]):
    """The partitions of a topic. Each view is made when it is asked for: most who ask for a topic need none of them."""

    __slots__ = ("_partitions",)

    def __init__(self, partitions: Mapping[int, Partition]) -> None:
        self._partitions = partitions

    def __getitem__(self, index: int) -> PartitionView:
        return _view(self._partitions[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)


def _topic_view(topic: Topic) -> TopicView:
    return TopicView(topic.name, topic.topic_id, _Partitions(topic.partitions))


def _view(partition: Partition) -> PartitionView:
    return PartitionView(
        NO_LEADER if partition.has_failed else partition.replicas[0],
        partition.leader_epoch,
        partition.replicas,
        partition.in_sync_replicas,
        partition.replicas if partition.has_failed else [],
    )
