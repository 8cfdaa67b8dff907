"""What the controller knows of its cluster, in memory (Kafka's ControllerContext).

Each new controller reads it anew.

What is written to ZooKeeper is changed here after the write, so that this never runs ahead of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from highwater.broker.cluster.state import (
    EPOCH_DURING_DELETE,
    NO_LEADER_EPOCH,
    BrokerInfo,
    LeaderAndIsr,
    ReplicaAssignment,
)
from highwater.common.topic_partition import TopicPartition


class PartitionState(Enum):
    """The states of a partition; their order is in partitions.py."""

    NON_EXISTENT = "not there"
    NEW = "new"
    """Assigned, without a leader yet."""
    ONLINE = "online"
    OFFLINE = "offline"
    """Its leader died."""


class ReplicaState(Enum):
    """The states of a replica; their order is in replicas.py."""

    NON_EXISTENT = "not there"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "being deleted"
    DELETION_SUCCESSFUL = "deleted"
    DELETION_INELIGIBLE = "cannot be deleted yet"


class Replica(NamedTuple):
    partition: TopicPartition
    broker_id: int


class ControlledPartition:
    __slots__ = ("assignment", "leader_registered_since", "leadership", "replica_states", "state")

    def __init__(self, assignment: ReplicaAssignment) -> None:
        self.assignment = assignment
        self.leadership: LeaderAndIsr | None = None
        """The state in ZooKeeper; None before the first leader."""
        self.leader_registered_since = False
        """Whether its leader registered after that was written: maybe another process, whose log lost its end."""
        self.state = PartitionState.NON_EXISTENT
        self.replica_states: dict[int, ReplicaState] = {}
        """The state of each broker's replica; those that are not there are NON_EXISTENT."""

    @property
    def has_preferred_leader(self) -> bool:
        """Whether there is nothing to gain by electing the preferred leader."""
        if self.leadership is None:
            return True
        preferred = self.assignment.replicas[0]
        if preferred in self.assignment.adding:
            return preferred in self.leadership.in_sync_replicas
        return self.leadership.leader == preferred


class ControlledTopic:
    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, ControlledPartition] = {}


class ControllerContext:
    def __init__(self) -> None:
        self.epoch = 0
        """The epoch of this controller: each request to a broker has it, and brokers refuse older ones."""
        self.epoch_version = 0
        """The version of /controller_epoch at our election: every write of ours needs that it is this still."""
        self.brokers: dict[int, BrokerInfo] = {}
        """Those that live, also while they shut down."""
        self.shutting_down: set[int] = set()
        self.offline_partitions: dict[int, set[TopicPartition]] = {}
        """The partitions on the failed log directories of each broker."""
        self.topics: dict[str, ControlledTopic] = {}
        self._names: dict[UUID, str] = {}
        self.reassigning: set[TopicPartition] = set()
        self.topics_to_delete: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()
        self.election_count = 0
        self.unclean_election_count = 0

    # Brokers

    def is_live(self, broker_id: int) -> bool:
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def live_broker_ids(self) -> set[int]:
        return self.brokers.keys() - self.shutting_down

    def is_online(self, broker_id: int, partition: TopicPartition, *, include_shutting_down: bool = False) -> bool:
        """Whether this broker can serve its replica of the partition."""
        if broker_id not in self.brokers or (broker_id in self.shutting_down and not include_shutting_down):
            return False
        return partition not in self.offline_partitions.get(broker_id, ())

    # Topics

    def add_topic(self, name: str, topic_id: UUID) -> ControlledTopic:
        topic = self.topics[name] = ControlledTopic(name, topic_id)
        self._names[topic_id] = name
        return topic

    def add_partition(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.topics[partition[0]].partitions[partition[1]] = ControlledPartition(assignment)

    def remove_topic(self, name: str) -> None:
        """Forget a topic whose znodes are gone."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            del self._names[topic.topic_id]
            for index in topic.partitions:
                self.reassigning.discard((name, index))
        self.topics_to_delete.discard(name)
        self.topics_with_deletion_started.discard(name)
        self.topics_ineligible_for_deletion.discard(name)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._names.get(topic_id)

    def is_to_be_deleted(self, topic: str) -> bool:
        return topic in self.topics_to_delete

    # Partitions

    def get(self, partition: TopicPartition) -> ControlledPartition | None:
        topic = self.topics.get(partition[0])
        return None if topic is None else topic.partitions.get(partition[1])

    def __getitem__(self, partition: TopicPartition) -> ControlledPartition:
        """KeyError for one that is not known."""
        return self.topics[partition[0]].partitions[partition[1]]

    def leadership(self, partition: TopicPartition) -> LeaderAndIsr | None:
        found = self.get(partition)
        return None if found is None else found.leadership

    def partitions(self, topic: str | None = None) -> Iterator[tuple[TopicPartition, ControlledPartition]]:
        """All, or those of one topic. The context must not change while this is gone through."""
        if topic is None:
            topics: Iterable[ControlledTopic] = self.topics.values()
        else:
            topics = [self.topics[topic]] if topic in self.topics else []
        for found in topics:
            for index, partition in found.partitions.items():
                yield (found.name, index), partition

    def partitions_in(self, *states: PartitionState, topic: str | None = None) -> list[TopicPartition]:
        return [key for key, partition in self.partitions(topic) if partition.state in states]

    def partitions_with_leadership(self) -> list[TopicPartition]:
        return [
            key
            for key, partition in self.partitions()
            if partition.leadership is not None and key[0] not in self.topics_to_delete
        ]

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        return [
            key
            for key, partition in self.partitions()
            if partition.leadership is not None
            and key[0] not in self.topics_to_delete
            and not self.is_online(partition.leadership.leader, key)
        ]

    def leader_epoch_to_stop(self, partition: TopicPartition) -> int:
        """The leader epoch in a StopReplica."""
        if partition[0] in self.topics_to_delete:
            return EPOCH_DURING_DELETE
        leadership = self.leadership(partition)
        return NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch

    # Replicas

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [Replica(key, broker_id) for key in partitions for broker_id in self[key].assignment.replicas]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        return [
            Replica(key, broker_id)
            for key, partition in self.partitions(topic)
            for broker_id in partition.assignment.replicas
        ]

    def replicas_on(self, broker_ids: Iterable[int]) -> list[Replica]:
        wanted = set(broker_ids)
        return [
            Replica(key, broker_id)
            for key, partition in self.partitions()
            for broker_id in partition.assignment.replicas
            if broker_id in wanted
        ]

    def state_of(self, replica: Replica) -> ReplicaState:
        partition = self.get(replica.partition)
        states = {} if partition is None else partition.replica_states
        return states.get(replica.broker_id, ReplicaState.NON_EXISTENT)

    def replicas_in(self, topic: str, state: ReplicaState) -> list[Replica]:
        return [replica for replica in self.replicas_of_topic(topic) if self.state_of(replica) is state]

    # Figures of metrics

    def offline_partition_count(self) -> int:
        return sum(
            partition.state is PartitionState.OFFLINE and key[0] not in self.topics_with_deletion_started
            for key, partition in self.partitions()
        )

    def preferred_replica_imbalance_count(self) -> int:
        return sum(
            not partition.has_preferred_leader and key[0] not in self.topics_to_delete
            for key, partition in self.partitions()
        )


def some_of(names: Collection[str]) -> str:
    """The first names, for a line of the log, which a thousand names would fill."""
    told = ", ".join(sorted(names)[:5])
    return told if len(names) <= 5 else f"{told} and {len(names) - 5} more"
