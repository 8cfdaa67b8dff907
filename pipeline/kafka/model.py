"""What brokers answer, as values: errors too, with the names that Kafka gives them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from highwater.kafka.requests.broker_error import BrokerError


class Edge(enum.Enum):
    """The first offset of a partition, or the one after the last; never a time, which is a whole number of ms.

    The values are the timestamps of ListOffsets that mean the edges. No time that data or users give becomes one.
    """

    EARLIEST = -2
    LATEST = -1


EARLIEST: Final = Edge.EARLIEST
LATEST: Final = Edge.LATEST


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """leader: id of the broker, None while there is none."""

    leader: int | None
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Topic:
    """topic_id: changes when a topic is deleted and created again; None from brokers before Kafka 2.8.

    error: why there are no partitions, such as UNKNOWN_TOPIC_OR_PARTITION.
    """

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]
    error: BrokerError | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """brokers: id → (host, port). topics: those that were asked for, or all."""

    cluster_id: str | None
    brokers: Mapping[int, tuple[str, int]]
    topics: Mapping[str, Topic]


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """offset: None where no record has the timestamp or a later one. timestamp_ms: of the record; −1 for an edge."""

    offset: int | None
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The offset is not in the log any more, or not yet: the log has `log_start_offset` <= offset < `end_offset`."""

    log_start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a group has committed for a partition, or is to commit."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Producer:
    """The identity of an idempotent or transactional producer."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a produced batch is. base_offset: −1 for a repeated batch that the broker cannot place any more."""

    base_offset: int
    log_append_time_ms: int
