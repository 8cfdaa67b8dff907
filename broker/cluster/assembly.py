"""Puts together what makes a node a member of a cluster. The server and the simulation both begin here.

LeaderAndIsr, StopReplica      ->  ReplicaManager  ->  Fetchers (following), InSyncChanges (leading), Coordinators
UpdateMetadata                 ->  MetadataCache   ->  answers to clients, who lives where
sessions and watches           ->  Member          ->  Controller, settings
requests to the controller     <-  ControllerChannel
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from random import Random
from typing import Any

from broker.cluster import znodes
from broker.cluster.administration import ClusterAdministration
from broker.cluster.controller.controller import Controller
from broker.cluster.controller_channel import ControllerChannel
from broker.cluster.coordinators import Coordinators
from broker.cluster.member import SessionPart
from broker.cluster.metadata import MetadataCache
from broker.cluster.peers import Endpoint, Peers
from broker.cluster.zookeeper import Get, Request, WatchEvent, ZooKeeper, ZooKeeperError, run
from broker.cluster.zookeeper import Node as Znode
from broker.config import TopicConfig
from broker.node import Node
from broker.replica.fetcher import Fetchers
from broker.replica.in_sync_changes import InSyncChanges
from broker.replica.manager import Overrides, ReplicaManager

_RETRY_MS = 100


class _Registration:
    """Tells the node which life of the broker this is. Implements `SessionPart`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def session_began(self, broker_epoch: int) -> None:
        self._node.epochs.broker_epoch = broker_epoch

    def session_ended(self) -> None:
        """The epoch stays: who led goes on leading until somebody else is told to."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        """It has none."""


class ClusteredNode:
    def __init__(
        self,
        node: Node,
        zookeeper: ZooKeeper,
        peers: Peers,
        *,
        listener_name: str,
        random: Random,
    ) -> None:
        """`listener_name` is that of the brokers among themselves; `random` spreads the replicas of new topics."""
        cluster = node.cluster
        assert isinstance(cluster, MetadataCache)
        self._node = node
        self._zookeeper = zookeeper
        scheduler, clock, config = node.scheduler, node.clock, node.config

        def endpoint_of(broker_id: int) -> Endpoint | None:
            broker = cluster.broker(broker_id)
            return None if broker is None else broker.endpoint(listener_name)

        def broker_epoch() -> int:
            return node.epochs.broker_epoch

        self.controller = Controller(
            broker_id=node.broker_id,
            config=config,
            listener_name=listener_name,
            zookeeper=zookeeper,
            peers=peers,
            clock=clock,
            scheduler=scheduler,
            is_unclean_election_allowed=self._is_unclean_election_allowed,
        )
        self._channel = ControllerChannel(
            peers,
            lambda: endpoint_of(cluster.controller_id),
            clock,
            scheduler,
            client_id=f"broker-{node.broker_id}-to-controller",
            request_timeout_ms=config.integer("controller.socket.timeout.ms"),
        )
        self._fetchers = Fetchers(
            broker_id=node.broker_id,
            broker_epoch=broker_epoch,
            config=config,
            clock=clock,
            scheduler=scheduler,
            peers=peers,
            endpoint_of=endpoint_of,
        )
        self._in_sync_changes = InSyncChanges(
            self._channel, scheduler, broker_id=node.broker_id, broker_epoch=broker_epoch
        )
        self._coordinators = Coordinators(node, peers, self._channel, listener_name)
        self.replicas = ReplicaManager(
            node,
            self._fetchers,
            self._in_sync_changes,
            read_topic_configs=self._read_topic_configs,
            on_leader=self._coordinators.on_leader,
            on_follower=self._coordinators.on_follower,
        )
        node.replicas = self.replicas
        node.controller = self.controller
        node.administration = ClusterAdministration(config, scheduler, zookeeper, cluster, self.controller, random)

    def session_parts(self) -> Sequence[SessionPart]:
        """What the member begins in each session, after the settings."""
        return (_Registration(self._node), self.controller)

    def start(self) -> None:
        self.replicas.start()

    def close(self) -> None:
        """The broker stops: nothing more is asked of anybody."""
        self.controller.close()
        self.replicas.close()
        self._coordinators.close()
        self._in_sync_changes.close()
        self._fetchers.close()
        self._channel.close()

    def _is_unclean_election_allowed(self, topic: str) -> bool:
        overrides = self._node.store.topic_config(topic)
        return TopicConfig(self._node.config, overrides).boolean("unclean.leader.election.enable")

    def _read_topic_configs(self, topics: Sequence[str], then: Callable[[Mapping[str, Overrides]], None]) -> None:
        """The settings of topics that are new here: of a topic's making nobody is told."""

        def read(configs: dict[str, Overrides] | None) -> None:
            if configs is None:
                # Without a session. What is asked for here waits for it.
                self._node.scheduler.call_later(_RETRY_MS, lambda: self._read_topic_configs(topics, then))
            else:
                then(configs)

        run(self._zookeeper, _topic_configs(topics), read)


def _topic_configs(topics: Sequence[str]) -> Generator[Sequence[Request], list[Any], dict[str, Overrides] | None]:
    nodes = yield [Get(znodes.topic_config_path(topic)) for topic in topics]
    if any(node is ZooKeeperError.SESSION_EXPIRED for node in nodes):
        return None
    return {
        topic: znodes.read(node.data, znodes.parse_config) if isinstance(node, Znode) else {}
        for topic, node in zip(topics, nodes, strict=True)
    }
