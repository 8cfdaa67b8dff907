"""Builds the complete node of a member of a cluster. The server and the simulation both begin here.

LeaderAndIsr, StopReplica      ->  ReplicaManager  ->  Fetchers (following), InSyncChanges (leading), Coordinators
UpdateMetadata                 ->  MetadataCache   ->  answers to clients, who lives where
sessions and watches           ->  Member          ->  settings, Controller
requests to the controller     <-  ControllerChannel
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

from highwater.broker.cluster.closed_leaders import ClosedLeaders
from highwater.broker.cluster.connections import Connections
from highwater.broker.cluster.controller_channel import ControllerChannel
from highwater.broker.cluster.epochs import Epochs
from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.cluster.peers import Endpoint, Peers
from highwater.broker.cluster.znodes import topic_path
from highwater.broker.cluster.zookeeper import Exists, ZooKeeper, ZooKeeperError
from highwater.broker.controller.administration import ClusterAdministration
from highwater.broker.controller.controller import Controller
from highwater.broker.counters import BrokerCounters
from highwater.broker.dynamic_settings import following
from highwater.broker.features import GROUP_VERSION, TRANSACTION_VERSION
from highwater.broker.group.coordinator import GroupCoordinator
from highwater.broker.member.auto_creation import ClusterAutoCreation
from highwater.broker.member.features import ClusterFeatures
from highwater.broker.member.groups_elsewhere import GroupsElsewhere
from highwater.broker.member.markers import RemoteMarkers
from highwater.broker.member.member import SessionPart
from highwater.broker.member.parts import ClusterParts
from highwater.broker.member.producer_ids import AllocatedProducerIds
from highwater.broker.member.replica_manager import Overrides, ReplicaManager
from highwater.broker.member.strays import Strays
from highwater.broker.member.verification import RemoteVerification
from highwater.broker.member.zookeeper_acls import ZooKeeperAcls
from highwater.broker.member.zookeeper_store import ZooKeeperStore
from highwater.broker.node import Node
from highwater.broker.quota.client_quotas import ClientQuotas
from highwater.broker.quota.replication_throttle import ReplicationThrottles
from highwater.broker.replica.fetch_sessions import FetchSessions
from highwater.broker.replica.fetchers import Fetchers
from highwater.broker.replica.in_sync_changes import InSyncChanges
from highwater.broker.runtime import Runtime
from highwater.broker.settings.authorization import audit_of, inside_listener_of
from highwater.broker.settings.config import TopicConfig
from highwater.broker.settings.metadata_tree import GROUP_CONFIGS
from highwater.broker.telemetry.client_telemetry import ClientTelemetry
from highwater.broker.telemetry.publishing import Publishing
from highwater.broker.topics.coordinators import Coordinators
from highwater.broker.topics.internal_topic import ADMIN_CLIENT_ID
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.storage import Storage
from highwater.broker.txn.coordinator import TransactionCoordinator
from highwater.broker.txn.markers import LocalMarkers


class ClusteredNode:
    """A node of a member, with its start, the parts that follow its sessions, and its end."""

    def __init__(
        self,
        runtime: Runtime,
        store: ZooKeeperStore,
        acls: ZooKeeperAcls | None,
        features: ClusterFeatures,
        storage: Storage,
        zookeeper: ZooKeeper,
        peers: Peers,
        *,
        listener_name: str,
        random: Random,
    ) -> None:
        """`listener_name` is the inter-broker listener; `random` spreads the replicas of new topics.

        The broker opens a log when the controller assigns its partition.
        """
        broker_id, config = runtime.broker_id, runtime.config
        clock, scheduler = runtime.clock, runtime.scheduler
        metadata = MetadataCache(store.cluster_id)
        epochs = Epochs()

        def endpoint_of(other_id: int) -> Endpoint | None:
            broker = metadata.broker(other_id)
            return None if broker is None else broker.endpoint(listener_name)

        def endpoint_of_controller() -> Endpoint | None:
            return endpoint_of(metadata.controller_id)

        def broker_epoch() -> int:
            return epochs.broker_epoch

        def connections(purpose: str) -> Connections:
            return Connections(peers, endpoint_of, f"broker-{broker_id}-{purpose}")

        def topic_is_gone(topic: str, then: Callable[[bool], None]) -> None:
            question = [Exists(topic_path(topic))]
            zookeeper.execute(question, lambda results: then(results[0] is ZooKeeperError.NO_NODE))

        def is_unclean_election_allowed(overrides: Mapping[str, str]) -> bool:
            return TopicConfig(config, overrides).value("unclean.leader.election.enable") is True

        def read_topic_configs(topics: Sequence[str], then: Callable[[Mapping[str, Overrides]], None]) -> None:
            # The settings of topics that are new here: nobody reports the settings with which a topic is made. Without
            # a session they are not known now, and read when there is one.
            store.read_topic_configs(topics, lambda _: then({topic: store.topic_config(topic) for topic in topics}))

        counters = BrokerCounters()
        throttles = ReplicationThrottles(broker_id, config)
        quotas = ClientQuotas.of(config, store.client_quotas())
        partitions = Partitions(config, storage, counters, throttles)
        self._channel = ControllerChannel(
            peers,
            endpoint_of_controller,
            clock,
            scheduler,
            client_id=f"broker-{broker_id}-to-controller",
            request_timeout_ms=config.integer("controller.socket.timeout.ms"),
        )
        # Creating a topic may take long, and answers come in order: use a connection without other requests.
        self._creation_channel = ControllerChannel(
            peers,
            endpoint_of_controller,
            clock,
            scheduler,
            client_id=f"broker-{broker_id}-topic-creation",
            request_timeout_ms=config.integer("request.timeout.ms"),
        )
        groups = GroupCoordinator(runtime, partitions, metadata, partial(features.features.level, GROUP_VERSION))
        markers = LocalMarkers(clock, partitions, metadata, groups.commits.transaction_ended)
        transaction_level = partial(features.features.level, TRANSACTION_VERSION)
        self._remote_markers = RemoteMarkers(
            runtime, metadata, markers, connections("txn-marker-sender"), topic_is_gone, transaction_level
        )
        producer_ids = AllocatedProducerIds(runtime, partitions, self._channel, broker_epoch)
        transactions = TransactionCoordinator(
            runtime, partitions, metadata, producer_ids, self._remote_markers, transaction_level
        )
        coordinators = Coordinators(groups, transactions)
        metadata.when_deleted.append(coordinators.partitions_deleted)
        controller = Controller(
            broker_id=broker_id,
            config=config,
            listener_name=listener_name,
            zookeeper=zookeeper,
            peers=peers,
            clock=clock,
            scheduler=scheduler,
            is_unclean_election_allowed=is_unclean_election_allowed,
        )
        closed_leaders = ClosedLeaders(scheduler)
        self._fetchers = Fetchers(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            config=config,
            clock=clock,
            scheduler=scheduler,
            peers=peers,
            endpoint_of=endpoint_of,
            leaders=closed_leaders,
            throttle=throttles.follower,
        )
        self._in_sync_changes = InSyncChanges(self._channel, scheduler, broker_id=broker_id, broker_epoch=broker_epoch)
        replicas = ReplicaManager(
            runtime,
            partitions,
            metadata,
            epochs,
            counters,
            self._fetchers,
            self._in_sync_changes,
            read_topic_configs=read_topic_configs,
            on_leader=coordinators.on_leader,
            on_follower=coordinators.on_follower,
        )
        self._strays = Strays(broker_id, partitions, metadata)
        partitions.resume_moves()
        auto_creation = ClusterAutoCreation(config, self._creation_channel)
        self._publishing = Publishing(
            runtime,
            partitions,
            metadata,
            auto_creation,
            # Only the broker and Kafka's tools write to internal topics.
            Connections(peers, endpoint_of, ADMIN_CLIENT_ID),
        )
        telemetry = ClientTelemetry(runtime, store, self._publishing, counters)
        following.follow(
            runtime,
            store,
            partitions,
            quotas,
            throttles,
            enable_unclean_election=controller.enable_unclean_election,
            client_metrics_changed=telemetry.take_up,
            group_settings_changed=lambda: groups.take_up_settings(store.own_configs(GROUP_CONFIGS)),
        )
        self._store = store
        self._acls = acls
        self._features = features
        self.parts = ClusterParts(
            metadata=metadata,
            closed_leaders=closed_leaders,
            epochs=epochs,
            replicas=replicas,
            controller=controller,
            verification=RemoteVerification(
                runtime, metadata, transactions.partition_of, connections("add-partitions-to-txn-manager")
            ),
            groups_elsewhere=GroupsElsewhere(broker_id, metadata, connections("list-groups")),
        )
        self.node = Node(
            broker_id=broker_id,
            config=config,
            clock=clock,
            scheduler=scheduler,
            turns=runtime.turns,
            features=features.features,
            feature_store=features,
            storage=storage,
            store=store,
            acls=acls,
            inside_listener=inside_listener_of(config),
            audit=audit_of(config, broker_id, clock, scheduler, has_authorizer=acls is not None),
            counters=counters,
            quotas=quotas,
            replication_throttles=throttles,
            partitions=partitions,
            cluster=metadata,
            administration=ClusterAdministration(config, scheduler, metadata, controller, random),
            auto_creation=auto_creation,
            groups=groups,
            transactions=transactions,
            telemetry=telemetry,
            producer_ids=producer_ids,
            markers=markers,
            fetch_sessions=FetchSessions(config.integer("max.incremental.fetch.session.cache.slots")),
            fetch_max_bytes=config.integer("fetch.max.bytes"),
            member=self.parts,
        )

    def session_parts(self) -> Sequence[SessionPart]:
        """The parts that the member starts in each session, in this order."""
        acls = () if self._acls is None else (self._acls,)
        return (self._store, *acls, self._features, self.parts.epochs, self.parts.controller)

    def start(self) -> None:
        self.parts.replicas.start()

    def close(self) -> None:
        """Stop the controller, the replicas and all requests to other brokers, because the broker stops."""
        self.parts.controller.close()
        self.parts.replicas.close()
        self._creation_channel.close()
        self._publishing.close()
        self._remote_markers.close()
        self.parts.verification.close()
        self.parts.groups_elsewhere.close()
        self._in_sync_changes.close()
        self._fetchers.close()
        self.parts.closed_leaders.close()
        self._strays.close()
        self._channel.close()
