"""What a consumer group is asked and what it decides: heartbeats, answers, records to append."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.group.assignors.assignor import Assignment, Assignor
from highwater.broker.group.consumer.schemas import ClassicMember, GroupRecord

JOIN_EPOCH: Final = 0
STATIC_LEAVE_EPOCH: Final = -2
"""A static member leaves and will come back; its partitions are kept for it until its session ends."""


class KnownTopic(NamedTuple):
    topic_id: UUID
    partition_count: int


Topics = Callable[[str], KnownTopic | None]
"""Finds a topic by its name."""


class ConsumerSettings(NamedTuple):
    """The settings of one group: the broker's, and those of the group where it has its own."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    max_size: int
    assignors: Mapping[str, Assignor]
    """The first one is the default."""


class HeartbeatRequest(NamedTuple):
    """A field that is None is as in the member's requests before."""

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    """The partitions that the member has now."""
    client_id: str = ""
    client_host: str = ""
    classic: ClassicMember | None = None
    """What else there is in a JoinGroup, which counts as a request to join that may own partitions."""

    @property
    def is_full(self) -> bool:
        """Whether the request has everything: a member sends such a one when it lost an answer."""
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None


class HeartbeatAnswer(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    """None if the member knows it."""


class Decision(NamedTuple):
    """An answer that goes out when the log has the records and the group has replayed them."""

    answer: HeartbeatAnswer
    records: tuple[GroupRecord, ...] = ()
    """To append as one batch. An answer without records goes out at once."""
