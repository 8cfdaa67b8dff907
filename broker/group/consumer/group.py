"""A consumer group as its records have it: replaying a record is the only way to change it.

Beside the records a group has timers, which no log keeps: of each member's session, and of the time in which a member
must give up partitions. They start when a record is applied or a member is heard, and anew after loading.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.group.assignors.assignor import Assignment
from highwater.broker.group.consumer.schemas import (
    CurrentAssignment,
    GroupRecord,
    Member,
    ResolvedRegex,
)


class ConsumerGroupState(Enum):
    """The names are those that ConsumerGroupDescribe and ListGroups tell."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        self.current: dict[str, CurrentAssignment] = {}
        """Of every member."""
        self.targets: dict[str, Assignment] = {}
        """Of the members that have one."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.static_ids: dict[str, str] = {}
        """The member id of each instance id."""
        self.owners: dict[UUID, dict[int, str]] = {}
        """The member that has each partition, or that must give it up."""
        self.is_metadata_stale = True
        """A topic may have changed since the hash was computed. The broker sets it; it is not stored."""

    # Records

    def replay(self, record: GroupRecord) -> None:
        """Change the group as the record says. Never raises."""
        raise NotImplementedError

    def apply(self, records: Iterable[GroupRecord], session_timeout_ms: int, now_ms: int) -> None:
        """Replay records that are in the log now, and start the timers that they ask for (monotonic time)."""
        raise NotImplementedError

    @classmethod
    def loaded(
        cls, group_id: str, records: Iterable[GroupRecord], session_timeout_ms: int, now_ms: int
    ) -> tuple[ConsumerGroup, list[str]]:
        """A group from the last record of each key, in any order; and what was contradictory, for the log."""
        raise NotImplementedError

    def tombstones(self) -> list[GroupRecord]:
        """The records that delete the group."""
        raise NotImplementedError

    # What is asked of it

    @property
    def state(self) -> ConsumerGroupState:
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        return not self.members

    def topics_of(self, member: Member) -> frozenset[str]:
        """The names that a member subscribes to: those it names and those its regular expression matched."""
        raise NotImplementedError

    def reads_topic(self, name: str) -> bool:
        """Whether a member subscribes to the topic."""
        raise NotImplementedError

    def check_commit(
        self,
        member_id: str,
        member_epoch: int,
        partitions: Iterable[tuple[UUID | None, int]],
        *,
        is_transactional: bool,
    ) -> ErrorCode | None:
        """Return why this member may not commit offsets of these partitions now, or None.

        An epoch older than the member's is fine for partitions that it has had since (KIP-1251). A commit without a
        member, with an epoch below 0, is one of tools and needs a group without members.
        """
        raise NotImplementedError

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        """Return why this member may not read the group's offsets now, or None."""
        raise NotImplementedError

    # Timers, in monotonic time

    def heard(self, member_id: str, session_timeout_ms: int, now_ms: int) -> None:
        """Begin the member's session anew."""
        raise NotImplementedError

    @property
    def wake_ms(self) -> int | None:
        """When to ask `leaving.expire` next."""
        raise NotImplementedError

    def expired(self, now_ms: int) -> list[str]:
        """The members whose time is up."""
        raise NotImplementedError
