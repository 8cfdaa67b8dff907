"""Puts together what makes a node a member of a cluster. The server and the simulation both begin here.

LeaderAndIsr, StopReplica      ->  ReplicaManager  ->  Fetchers (following), InSyncChanges (leading), Coordinators
UpdateMetadata                 ->  MetadataCache   ->  answers to clients, who lives where
sessions and watches           ->  Member          ->  Controller, settings
requests to the controller     <-  ControllerChannel
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from highwater.broker.cluster.administration import ClusterAdministration
from highwater.broker.cluster.controller.controller import Controller
from highwater.broker.cluster.controller_channel import ControllerChannel
from highwater.broker.cluster.coordinators import Coordinators
from highwater.broker.cluster.member import SessionPart
from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.cluster.peers import Endpoint, Peers
from highwater.broker.cluster.zookeeper import WatchEvent, ZooKeeper
from highwater.broker.node import Node
from highwater.broker.replica.fetchers import Fetchers
from highwater.broker.replica.in_sync_changes import InSyncChanges
from highwater.broker.replica.manager import Overrides, ReplicaManager
from highwater.broker.replica.strays import Strays
from highwater.broker.settings.config import TopicConfig


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
            throttle=node.replication_throttles.follower,
        )
        self._in_sync_changes = InSyncChanges(
            self._channel, scheduler, broker_id=node.broker_id, broker_epoch=broker_epoch
        )
        self._coordinators = Coordinators(node, zookeeper, peers, self._channel, listener_name)
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
        self._strays = Strays(node.broker_id, node.partitions, cluster)
        node.administration = ClusterAdministration(config, scheduler, cluster, self.controller, random)

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
        self._strays.close()
        self._channel.close()

    def _is_unclean_election_allowed(self, overrides: Mapping[str, str]) -> bool:
        return TopicConfig(self._node.config, overrides).value("unclean.leader.election.enable") is True

    def _read_topic_configs(self, topics: Sequence[str], then: Callable[[Mapping[str, Overrides]], None]) -> None:
        """The settings of topics that are new here: of a topic's making nobody is told."""
        store = self._node.store

        def read(_: bool) -> None:
            # Without a session they are not known now, and read when there is one.
            then({topic: store.topic_config(topic) for topic in topics})

        store.read_topic_configs(topics, read)
