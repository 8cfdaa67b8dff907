"""The values that describe the brokers and partitions of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from highwater.broker.cluster.peers import Endpoint

NO_LEADER: Final = -1
NO_BROKER: Final = -1
NO_LEADER_EPOCH: Final = -1
"""The leader epoch of a replica that knows none yet, and of a StopReplica that has none."""
EPOCH_DURING_DELETE: Final = -2
"""The leader epoch in StopReplica for a topic that is to go: it goes for every epoch, as a deletion begins none
(LeaderAndIsr.EpochDuringDelete, KIP-570)."""
LEADER_DURING_DELETE: Final = -2
"""The leader that a partition has in UpdateMetadata when its topic is deleted (LeaderAndIsr.LeaderDuringDelete)."""


class BrokerInfo(NamedTuple):
    """A registered broker: /brokers/ids/N."""

    broker_id: int
    epoch: int
    """The czxid of the broker's znode: a new registration has a higher one."""
    endpoints: tuple[Endpoint, ...]
    rack: str | None

    def endpoint(self, listener_name: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener_name == listener_name), None)


class LeaderAndIsr(NamedTuple):
    """The leader and ISR of a partition: /brokers/topics/T/partitions/P/state."""

    leader: int
    leader_epoch: int
    in_sync_replicas: tuple[int, ...]
    controller_epoch: int
    """The epoch of the controller that wrote it."""
    partition_epoch: int
    """The version of the znode: a change needs the current version (KIP-497)."""
    is_recovering: bool = False
    """Whether the leader was elected uncleanly (KIP-704)."""


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition, the preferred leader first: /brokers/topics/T (KIP-455)."""

    replicas: tuple[int, ...]
    """All replicas, including those that are being added and removed."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def reassigned_to(self, target: tuple[int, ...]) -> ReplicaAssignment:
        origin = self.origin
        return ReplicaAssignment(
            tuple(dict.fromkeys(target + origin)),
            tuple(dict.fromkeys(replica for replica in target if replica not in origin)),
            tuple(replica for replica in origin if replica not in target),
        )

    def without(self, replica: int) -> ReplicaAssignment:
        return ReplicaAssignment(*(tuple(other for other in part if other != replica) for part in self))


class PartitionView(NamedTuple):
    """The metadata of a partition, which every broker has."""

    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync_replicas: list[int]
    offline_replicas: list[int]


class TopicView(NamedTuple):
    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionView]


class ClusterView(Protocol):
    """The cluster metadata that a broker returns to clients, from the controller (UpdateMetadata)."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def controller_id(self) -> int:
        """The controller's id; NO_BROKER while it is unknown."""

    @property
    def is_complete(self) -> bool:
        """False shortly after the start in a cluster, when existing topics may still be unknown."""

    @property
    def topics_version(self) -> int:
        """It grows whenever a topic comes, goes or grows."""

    def brokers(self) -> list[BrokerInfo]:
        """The live brokers, sorted by id."""

    def brokers_gone_lately(self) -> list[BrokerInfo]:
        """The brokers that are no longer alive but are still returned to clients."""

    def broker(self, broker_id: int) -> BrokerInfo | None: ...

    def topics(self) -> list[TopicView]: ...

    def topic(self, name: str | UUID) -> TopicView | None: ...

    def partition(self, topic: str | UUID, index: int) -> PartitionView | None: ...
