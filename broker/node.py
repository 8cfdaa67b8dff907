"""One broker without its sockets: all that a handler may ask of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from kio.schema.errors import ErrorCode

from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.alone.topics import LocalTopics, take_up_topics
from highwater.broker.clock import Clock, Scheduler
from highwater.broker.cluster.epochs import Epochs
from highwater.broker.cluster.metadata import LoneBroker, MetadataCache
from highwater.broker.cluster.state import ClusterView
from highwater.broker.group.coordinator import GroupCoordinator
from highwater.broker.metrics.counters import BrokerCounters
from highwater.broker.quota.client_quotas import ClientQuotas
from highwater.broker.quota.replication_throttle import ReplicationThrottles
from highwater.broker.records.record import TransactionMarker
from highwater.broker.replica.fetch_sessions import FetchSessions
from highwater.broker.settings import dynamic
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.settings.store import SettingsStore
from highwater.broker.topics.administration import Administration
from highwater.broker.topics.auto_creation import AutoCreation, LocalAutoCreation
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.refusal import refusal
from highwater.broker.topics.storage import Storage
from highwater.broker.txn.coordinator import TransactionCoordinator
from highwater.broker.txn.markers import LocalMarkers, Markers
from highwater.broker.txn.producer_ids import ProducerIds, StoredProducerIds

if TYPE_CHECKING:
    from highwater.broker.cluster.controller.controller import Controller
    from highwater.broker.replica.manager import ReplicaManager
    from highwater.broker.txn.verification import RemoteVerification

_logger = logging.getLogger(__name__)


class Node:
    def __init__(
        self,
        *,
        broker_id: int,
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        store: SettingsStore,
        storage: Storage,
        cluster: MetadataCache | None = None,
    ) -> None:
        """Without a `cluster` the broker is alone, and takes up every topic of the store; it raises MetadataError when
        the log directory has partitions of others. In a cluster its logs wait until the controller tells of them.
        """
        self.broker_id = broker_id
        self.config = config
        self.clock = clock
        self.scheduler = scheduler
        self.store = store
        self.log_directories = storage.log_directories
        self.request_checkpoint = storage.request_checkpoint
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        self.counters = BrokerCounters()
        self.quotas = ClientQuotas(
            config.integer("quota.window.num"),
            config.integer("quota.window.size.seconds") * 1000,
            store.client_quotas(),
        )
        self.replication_throttles = ReplicationThrottles(broker_id, config)
        self.fetch_sessions = FetchSessions(config.integer("max.incremental.fetch.session.cache.slots"))
        self.partitions = Partitions(config, storage, self.counters, self.replication_throttles)
        self.is_clustered = cluster is not None
        self.cluster: ClusterView = LoneBroker(self) if cluster is None else cluster
        self.epochs = Epochs()
        self.replicas: ReplicaManager | None = None
        """What this broker has of the partitions of its cluster; the member makes it."""
        self.controller: Controller | None = None
        """In a cluster every broker has one; the controller's is active."""
        self.local_topics = LocalTopics(self)
        self.administration: Administration = self.local_topics
        """In a cluster the member replaces it by that of the cluster."""
        # In a cluster highwater.broker.cluster.coordinators replaces these.
        self.auto_creation: AutoCreation = LocalAutoCreation(self.local_topics)
        self.producer_ids: ProducerIds = StoredProducerIds(self)
        self.markers: Markers = LocalMarkers(self)
        self.remote_verification: RemoteVerification | None = None
        self.groups = GroupCoordinator(
            self, () if self.is_clustered else take_up_topics(self.partitions, self.metadata)
        )
        self.transactions = TransactionCoordinator(self)
        self.partitions.resume_moves()
        dynamic.follow(self)

    @property
    def metadata(self) -> EmbeddedMetadataStore:
        """The store of a broker that runs alone, which has the topics too."""
        assert not self.is_clustered
        return cast(EmbeddedMetadataStore, self.store)

    # Producers

    def write_transaction_marker(
        self, topic: str, index: int, marker: TransactionMarker, then: Callable[[ErrorCode], None]
    ) -> None:
        """End a producer's transaction on a partition, and call back when that is safe or refused.

        That may be before this returns.
        """
        partition = self.partitions.find(topic, index)
        if partition is None:
            then(refusal(self.partitions, self.cluster, topic, index))
            return
        try:
            appended = partition.append_marker(marker, self.clock.now_ms())
        except OSError:  # the partition tells of it
            then(ErrorCode.kafka_storage_error)
            return
        if isinstance(appended, ErrorCode):
            then(appended)
            return

        def written(error: ErrorCode) -> None:
            if topic == OFFSETS_TOPIC and not error:
                self.groups.transaction_ended(index, marker.producer_id, marker.is_commit)
            then(error)

        partition.call_when_safe(appended.last_offset, written)
