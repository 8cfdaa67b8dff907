"""Controllers with played brokers (harness.py), and who administers the cluster by whichever is active."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.cluster.state import BrokerInfo
from highwater.broker.controller.administration import ClusterAdministration
from highwater.broker.controller.context import ControllerContext
from highwater.broker.settings import metadata_tree
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.primitives import Decoder
from tests.broker.controller.harness import ControllerCluster, FakeBroker


class InformedBroker(FakeBroker):
    """Knows of the cluster what clients are told of it."""

    def __init__(self, cluster: AdministeredCluster, broker_id: int, rack: str | None) -> None:
        super().__init__(broker_id, cluster.scheduler)
        self.rack = rack
        self.cache = MetadataCache("cluster")

    def info(self) -> BrokerInfo:
        return super().info()._replace(rack=self.rack)

    def handle(self, name: str, request: Any) -> cold.Answer:
        if name == "update_metadata":
            self.cache.update(request, 8)
        return super().handle(name, request)


class AdministeredCluster(ControllerCluster):
    """Brokers 1 to n; the first is the controller."""

    def __init__(self, count: int = 3, racks: Mapping[int, str] | None = None, **properties: str) -> None:
        super().__init__(settings={name.replace("_", "."): text for name, text in properties.items()})
        self.informed = {
            broker_id: InformedBroker(self, broker_id, (racks or {}).get(broker_id))
            for broker_id in range(1, count + 1)
        }
        self.brokers.update(self.informed)
        for broker_id in self.informed:
            self.start(broker_id)

    def administration_of(self, broker_id: int) -> ClusterAdministration:
        return ClusterAdministration(
            self.config,
            self.scheduler,
            self.informed[broker_id].cache,
            self.hosts[broker_id].controller,
            Random(1),
        )

    @property
    def administration(self) -> ClusterAdministration:
        """The controller's."""
        return self.administration_of(self.controller.broker_id)

    @property
    def cache(self) -> MetadataCache:
        """The controller's."""
        return self.informed[self.controller.broker_id].cache

    @property
    def context(self) -> ControllerContext:
        assert self.controller.context is not None
        return self.controller.context

    def next_controller(self) -> None:
        """The controller loses its session, and comes back as any broker."""
        former = self.controller.broker_id
        self.ensemble.expire(self.hosts[former].session_id)
        self.run()
        assert self.controller.broker_id != former

    def make_partitions(self, name: str, *replicas: Iterable[int]) -> None:
        self.make_topic(name, {index: list(brokers) for index, brokers in enumerate(replicas)})

    def forget(self) -> None:
        """What brokers were told up to now."""
        for broker in self.brokers.values():
            broker.told.clear()

    def told(self, api: str) -> list[tuple[int, Any]]:
        """Who was told by such requests since, and what."""
        return [
            (broker_id, request)
            for broker_id, broker in self.brokers.items()
            for name, request in broker.told
            if name == api
        ]

    def set_in_sync(self, topic: str, in_sync: tuple[int, ...], index: int = 0) -> ErrorCode:
        """What the leader of a partition asks for by AlterPartition, and is answered."""
        state = self.context[topic, index].leadership
        assert state is not None
        partition = {
            "partition_index": index,
            "leader_epoch": state.leader_epoch,
            "new_isr_with_epochs": [{"broker_id": replica, "broker_epoch": -1} for replica in in_sync],
            "partition_epoch": state.partition_epoch,
        }
        fields: cold.Answer = {
            "broker_id": state.leader,
            "broker_epoch": self.context.brokers[state.leader].epoch,
            "topics": [{"topic_id": self.context.topics[topic].topic_id, "partitions": [partition]}],
        }
        encoded = cold.encode_request("alter_partition", 3, fields)
        request = cold.decode_request("alter_partition", 3, Decoder(memoryview(encoded), 0, flexible=True))
        answers: list[Any] = []
        self.controller.alter_partitions(request, 3, answers.append)
        self.run()
        (answer,) = answers
        if error := answer.get("error_code"):
            return ErrorCode(error)
        return ErrorCode(answer["topics"][0]["partitions"][0].get("error_code", 0))


def partitions_of(request: Any) -> list[TopicPartition]:
    """Those that a request of the controller is about, in order."""
    return [
        (topic.topic_name, state.partition_index) for topic in request.topic_states for state in topic.partition_states
    ]


def is_there(cluster: ControllerCluster, topic: str) -> list[str]:
    """The znodes that tell of a topic."""
    paths = (znodes.topic_path(topic), metadata_tree.topic_config_path(topic), znodes.delete_topic_path(topic))
    return [path for path in paths if cluster.ensemble.stat(path) is not None]
