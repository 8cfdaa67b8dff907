"""One broker without its sockets: the parts that a handler may ask.

broker/alone/assembly.py and broker/member/assembly.py each build a complete node. Nothing replaces a part of it later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from highwater.broker.cluster.state import ClusterView
from highwater.broker.counters import BrokerCounters
from highwater.broker.features import Features, FeatureStore
from highwater.broker.group.coordinator import GroupCoordinator
from highwater.broker.quota.client_quotas import ClientQuotas
from highwater.broker.quota.replication_throttle import ReplicationThrottles
from highwater.broker.replica.fetch_sessions import FetchSessions
from highwater.broker.runtime import Runtime
from highwater.broker.security.audit import Audit
from highwater.broker.settings.acl_store import AclStore
from highwater.broker.settings.store import SettingsStore
from highwater.broker.telemetry.client_telemetry import ClientTelemetry
from highwater.broker.topics.administration import Administration
from highwater.broker.topics.auto_creation import AutoCreation
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.storage import Storage
from highwater.broker.txn.coordinator import TransactionCoordinator
from highwater.broker.txn.markers import LocalMarkers
from highwater.broker.txn.producer_ids import ProducerIds

if TYPE_CHECKING:
    from highwater.broker.member.parts import ClusterParts  # a broker that runs alone needs none of what it imports


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Node(Runtime):
    features: Features
    feature_store: FeatureStore
    storage: Storage
    store: SettingsStore
    acls: AclStore | None
    """None while every client may do everything."""
    inside_listener: str | None
    """The only one on which the requests of brokers are served; None if they are served on each."""
    audit: Audit | None
    """None without an authorizer and without a file for it."""
    counters: BrokerCounters
    quotas: ClientQuotas
    replication_throttles: ReplicationThrottles
    partitions: Partitions
    """The topics and partitions that are on this broker."""
    cluster: ClusterView
    """What clients learn about all brokers and partitions."""
    administration: Administration
    auto_creation: AutoCreation
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    telemetry: ClientTelemetry
    """What clients say of how they are served (KIP-714)."""
    producer_ids: ProducerIds
    markers: LocalMarkers
    """Writes markers to the partitions that this broker leads."""
    fetch_sessions: FetchSessions
    fetch_max_bytes: int
    member: ClusterParts | None
    """What only a member of a cluster has; None for a broker that runs alone."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic; None for an id that nobody knows.

        A member may lead a partition before UpdateMetadata has its topic; the partition has the name.
        """
        topic = self.partitions.topic(topic_id) or self.cluster.topic(topic_id)
        return None if topic is None else topic.name
