"""Connects the coordinators of groups and transactions with the other brokers of a cluster.

The cluster tells which partitions of their topics this broker leads; they in turn write markers to the leaders of
others, and ask each other about transactions, and the controller for producer ids and for their topics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from highwater.broker.cluster.connections import Connections
from highwater.broker.cluster.controller_channel import ControllerChannel
from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.cluster.peers import Endpoint, Peers
from highwater.broker.cluster.znodes import topic_path
from highwater.broker.cluster.zookeeper import Exists, ZooKeeper, ZooKeeperError
from highwater.broker.log.checkpoint import TopicPartition
from highwater.broker.topics.auto_creation import ClusterAutoCreation
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from highwater.broker.txn.markers import RemoteMarkers
from highwater.broker.txn.producer_ids import AllocatedProducerIds
from highwater.broker.txn.verification import RemoteVerification

if TYPE_CHECKING:
    from highwater.broker.node import Node


class Coordinators:
    def __init__(
        self, node: Node, zookeeper: ZooKeeper, peers: Peers, controller: ControllerChannel, listener_name: str
    ) -> None:
        """Give the node what a broker alone does without. The listener is the one for requests between brokers."""
        self._node = node
        cluster = node.cluster
        assert isinstance(cluster, MetadataCache)
        cluster.when_deleted.append(self._partitions_deleted)

        def endpoint_of(broker_id: int) -> Endpoint | None:
            broker = cluster.broker(broker_id)
            return None if broker is None else broker.endpoint(listener_name)

        def connections(purpose: str) -> Connections:
            return Connections(peers, endpoint_of, f"broker-{node.broker_id}-{purpose}")

        def topic_is_gone(topic: str, then: Callable[[bool], None]) -> None:
            question = [Exists(topic_path(topic))]
            zookeeper.execute(question, lambda results: then(results[0] is ZooKeeperError.NO_NODE))

        # Making a topic may take long, and answers come in order: nothing else of the controller waits behind it.
        self._creation = ControllerChannel(
            peers,
            lambda: endpoint_of(cluster.controller_id),
            node.clock,
            node.scheduler,
            client_id=f"broker-{node.broker_id}-topic-creation",
            request_timeout_ms=node.config.integer("request.timeout.ms"),
        )
        self._markers = RemoteMarkers(node, connections("txn-marker-sender"), topic_is_gone)
        self._verification = RemoteVerification(node, connections("add-partitions-to-txn-manager"))
        node.markers = self._markers
        node.remote_verification = self._verification
        node.producer_ids = AllocatedProducerIds(node, controller)
        node.auto_creation = ClusterAutoCreation(node, self._creation)

    def on_leader(self, topic: str, index: int, leader_epoch: int) -> None:
        """This broker leads that partition now, or leads it in a later epoch."""
        if topic == OFFSETS_TOPIC:
            self._node.groups.on_leader(index, leader_epoch)
        elif topic == TRANSACTIONS_TOPIC:
            self._node.transactions.on_leader(index, leader_epoch)

    def on_follower(self, topic: str, index: int) -> None:
        """This broker leads that partition no longer, or has it no longer."""
        if topic == OFFSETS_TOPIC:
            self._node.groups.on_follower(index)
        elif topic == TRANSACTIONS_TOPIC:
            self._node.transactions.on_follower(index)

    def _partitions_deleted(self, partitions: list[TopicPartition]) -> None:
        self._node.groups.partitions_deleted(partitions)
        self._node.transactions.partitions_deleted(partitions)

    def close(self) -> None:
        self._creation.close()
        self._markers.close()
        self._verification.close()
