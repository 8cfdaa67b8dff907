"""What the coordinator asks of the members of a group, whatever protocol they speak."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from kio.schema.errors import ErrorCode

from highwater.broker.group.events import (
    AnswerJoin,
    AnswerLeave,
    AnswerSync,
    Committer,
    Effect,
    JoinRequest,
    Leaver,
    Now,
    Store,
    SyncRequest,
)
from highwater.common.topic_partition import TopicPartition


class GroupProtocol(Protocol):
    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> str:
        """The type of the group in ListGroups."""

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def wake_ms(self) -> int | None:
        """The latest time for the next `tick`, or None; it may be earlier than needed."""

    @property
    def state_name(self) -> str:
        """The state as clients know it."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no member, so that the group may be deleted."""

    @property
    def is_unused(self) -> bool:
        """Whether it is empty, and nobody is about to become a member."""

    def reads_topic(self, topic: str) -> bool:
        """Whether a member reads this topic, as far as that is known."""

    def retained_since(self, topic: str, committed_ms: int) -> int | None:
        """Return when the retention time of an offset began that was committed then; None if it does not expire now."""

    def check_commit(self, committer: Committer, partitions: Collection[TopicPartition], now: Now) -> ErrorCode | None:
        """Return why this member may not commit offsets of these partitions now, or None."""

    def check_transactional_commit(
        self, committer: Committer, partitions: Collection[TopicPartition]
    ) -> ErrorCode | None:
        """Return why a producer may not commit for this member, or None. Old producers name no member (KIP-447)."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        """Return why this member may not read the group's offsets now, or None; without a member id anybody may."""

    def join(self, request: JoinRequest, answer: AnswerJoin, now: Now) -> list[Effect]: ...

    def sync(self, request: SyncRequest, answer: AnswerSync, now: Now) -> list[Effect]: ...

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, now: Now) -> ErrorCode: ...

    def leave(self, leavers: Sequence[Leaver], answer: AnswerLeave, now: Now) -> list[Effect]:
        """Remove members."""

    def tick(self, now: Now) -> list[Effect]:
        """Do what is due, and set `wake_ms` anew."""

    def stored(self, store: Store, error: ErrorCode, now: Now) -> list[Effect]:
        """Continue after the append of a `Store` effect: `error` is its outcome."""

    def tombstones(self) -> Sequence[tuple[bytes, None]]:
        """Return what removes the group from the log."""

    def die(self, error: ErrorCode) -> list[Effect]:
        """End the group: it was deleted, or this broker no longer coordinates it. Answers every waiting request."""
