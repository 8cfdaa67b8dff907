"""Creates, extends and deletes topics for clients: one interface, alone or in a cluster.

Every call passes one result for each item of the request, in the order of the request, to `then`, which may be called
before the call returns. An item that takes longer than `timeout_ms` gets REQUEST_TIMED_OUT, and its work goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.settings.config import BrokerConfig, TopicConfig, check_new_topic_overrides
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.problem import Problem
from highwater.kafka.topic_names import metric_name, topic_name_problem

_CLUSTER_METADATA: Final = "__cluster_metadata"
"""The name of Kafka's own topic in KRaft mode; nobody may create it (KafkaApis.handleCreateTopicsRequest)."""
MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""The limit of Kafka's controller; without one, a request could fill the disk with folders."""


NOT_CONTROLLER: Final = Problem(ErrorCode.not_controller, "This is not the correct controller for this cluster.")
UNKNOWN_TOPIC: Final = Problem(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
DELETION_DISABLED: Final = Problem(
    ErrorCode.topic_deletion_disabled, "Topic deletion is disabled (delete.topic.enable)."
)


Charge: TypeAlias = Callable[[int], Problem | None]


def free_of_charge(partition_count: int) -> None:
    """The charge of clients without a quota."""


class Terms(NamedTuple):
    """On which terms topics are created, extended or deleted."""

    timeout_ms: int
    validate_only: bool = False
    """Change nothing: the results are those of a change."""
    charge: Charge = free_of_charge
    """Asked with the number of partitions before each change, after all other checks.

    A problem that it returns refuses the topic (quotas, KIP-599).
    """


class NewTopic(NamedTuple):
    """A topic to create. A count of -1 stands for the broker's default; with an assignment both counts are -1."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, list[int]] | None = None
    config: Mapping[str, str | None] | None = None

    @property
    def overrides(self) -> dict[str, str]:
        return {name: text for name, text in (self.config or {}).items() if text is not None}

    def counts(self, config: BrokerConfig) -> tuple[int, int]:
        """Return the numbers of partitions, and of replicas of each, of a topic without an assignment."""
        partition_count, replication_factor = self.partition_count, self.replication_factor
        return (
            config.integer("num.partitions") if partition_count == -1 else partition_count,
            config.integer("default.replication.factor") if replication_factor == -1 else replication_factor,
        )


class CreatedTopic(NamedTuple):
    name: str
    topic_id: UUID | None
    """None if the request only validates."""
    partition_count: int
    replication_factor: int
    config: TopicConfig


class MorePartitions(NamedTuple):
    """A topic that gets more partitions, up to a total; `assignments` has the replicas of each new partition."""

    name: str
    total: int
    assignments: list[list[int]] | None = None


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A partition that is being reassigned: its present replicas, and which of them are added and removed."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


Outcomes: TypeAlias = list[Problem | None]
"""What each topic has; None if it was changed."""
PartitionOutcomes: TypeAlias = Problem | dict[TopicPartition, Problem | None]
"""A problem of the whole request, or what each partition has."""
Reassignments: TypeAlias = Problem | dict[TopicPartition, Reassignment]
"""A problem of the whole request, or the partitions that are being reassigned."""


class Administration(Protocol):
    @property
    def is_controller(self) -> bool:
        """Whether this broker is the one that changes topics; its metadata has all topics."""

    def create_topics(
        self, wanted: Sequence[NewTopic], terms: Terms, then: Callable[[list[CreatedTopic | Problem]], None]
    ) -> None: ...

    def add_partitions(
        self, wanted: Sequence[MorePartitions], terms: Terms, then: Callable[[Outcomes], None]
    ) -> None: ...

    def delete_topics(self, names: Sequence[str], terms: Terms, then: Callable[[Outcomes], None]) -> None: ...

    def elect_leaders(
        self,
        partitions: Sequence[TopicPartition] | None,
        election_type: ElectionType,
        timeout_ms: int,
        then: Callable[[PartitionOutcomes], None],
    ) -> None:
        """Elect the preferred replica, or any live one, as the leader; None stands for all partitions that need it."""

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, list[int] | None],
        then: Callable[[PartitionOutcomes], None],
        *,
        may_change_replication_factor: bool = True,
    ) -> None:
        """Begin to move partitions to these replicas, or cancel a move (None); answered when it began (KIP-455)."""

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None, then: Callable[[Reassignments], None]
    ) -> None:
        """Pass the moves of these partitions, or of all (None), to `then`."""


def check_new_topic(wanted: NewTopic, names: Mapping[str, str]) -> Problem | None:
    """Return why a topic cannot be created, None if it can. `names` has the existing topics by their metric names."""
    if reason := topic_name_problem(wanted.name):
        return Problem(ErrorCode.invalid_topic_exception, reason)
    if wanted.name == _CLUSTER_METADATA:
        return Problem(ErrorCode.invalid_request, f"Creation of internal topic {wanted.name} is prohibited.")
    twin = names.get(metric_name(wanted.name))
    if twin == wanted.name:
        return Problem(ErrorCode.topic_already_exists, f"Topic '{wanted.name}' already exists.")
    if twin is not None:
        return Problem(
            ErrorCode.invalid_topic_exception,
            f"Topic '{wanted.name}' collides with existing topic {twin}: '.' and '_' are the same in metric names",
        )
    if reason := check_new_topic_overrides(wanted.config or {}):
        return Problem(ErrorCode.invalid_config, reason)
    if wanted.assignment and (wanted.partition_count != -1 or wanted.replication_factor != -1):
        return Problem(
            ErrorCode.invalid_request,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    return None


def check_growth(current: int, total: int) -> Problem | None:
    """Return why a topic of `current` partitions cannot get `total` partitions, None if it can."""
    if total < current:
        reason = f"Topic currently has {current} partitions, which is higher than the requested {total}."
        return Problem(ErrorCode.invalid_partitions, reason)
    if total == current:
        return Problem(ErrorCode.invalid_partitions, f"Topic already has {current} partitions.")
    if total - current > MAX_PARTITIONS_PER_REQUEST:
        return too_many_partitions(total - current)
    return None


def marked_for_deletion(name: str) -> Problem:
    return Problem(ErrorCode.topic_already_exists, f"Topic '{name}' is marked for deletion.")


def unknown_topic(name: str) -> Problem:
    return Problem(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")


def too_many_partitions(count: int) -> Problem:
    return Problem(
        ErrorCode.policy_violation,
        f"{count} partitions in one request; at most {MAX_PARTITIONS_PER_REQUEST} are created at once.",
    )
