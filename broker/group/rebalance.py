"""The rebalance of a classic group as a state machine: (event, now) in, effects out; no I/O, no clock.

    state                event                                                    next state
    Empty                a first join                                             PreparingRebalance
    PreparingRebalance   all members have joined, or the rebalance time is up     CompletingRebalance
    PreparingRebalance   the same, and nobody is left                             Empty
    CompletingRebalance  the leader's assignment is stored                        Stable
    CompletingRebalance  a join with other metadata, a new member, a member
                         leaves or expires or does not sync, storing fails        PreparingRebalance
    Stable               a join of the leader, a join with other metadata, a
                         new member, a member leaves or expires or does not sync  PreparingRebalance
    any                  the group is deleted, or its coordinator stops           Dead

A group that was empty waits `initial_rebalance_delay_ms` for more members, and again whenever new members joined
during the delay, up to the rebalance timeout (KIP-134). Every JoinGroup and SyncGroup is answered exactly once.
highwater.broker.group.classic handles the requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, Self, TypeVar

from kio.schema.errors import ErrorCode

from highwater.broker.group.counters import GroupCounters
from highwater.broker.group.embedded import subscribed_topics
from highwater.broker.group.events import (
    NO_STATE_TIMESTAMP,
    Answer,
    AnswerJoin,
    Effect,
    JoinAnswer,
    Now,
    Store,
    StoredGroup,
    SyncAnswer,
)
from highwater.broker.group.members import CONSUMER, GroupMember, Members
from highwater.broker.group.schemas import GroupKey, encode_group, encode_group_key

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class GroupState(Enum):
    """The values are the names in DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupSettings(NamedTuple):
    initial_rebalance_delay_ms: int
    max_size: int
    new_id: Callable[[], str]
    """Returns a text that is different on each call."""
    counters: GroupCounters


class _InitialDelay(NamedTuple):
    """The delay in which a group that was empty waits for more members."""

    delay_ms: int
    remaining_ms: int
    """How long the group may still wait after this delay."""


class Rebalance:
    kind: Final = "classic"

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = NO_STATE_TIMESTAMP
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = Members()
        self.pending_members: dict[str, int] = {}
        """Member ids that were returned to clients that have not joined yet, and when each expires."""
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that a consumer group reads; None when unknown."""
        self.wake_ms: int | None = None
        self._settings = settings
        self._effects: list[Effect] = []
        self._initial_delay: _InitialDelay | None = None
        self._has_new_member = False
        self._joining_count = 0
        """How many members wait for the answer to their JoinGroup."""
        self._joins_until_ms: int | None = None
        self._not_synced: set[str] = set()
        self._syncs_until_ms: int | None = None

    @classmethod
    def restored(cls, group_id: str, settings: GroupSettings, stored: StoredGroup, now: Now) -> Self:
        """Return a group from its record in the internal topic; its members have one session timeout to send again."""
        group = cls(group_id, settings)
        group.state = GroupState.STABLE if stored.members else GroupState.EMPTY
        group.state_timestamp_ms = stored.state_timestamp_ms
        group.generation_id = stored.generation_id
        group.protocol_type = stored.protocol_type or None
        group.protocol_name = stored.protocol_name
        for entry in stored.members:
            group.members.add(GroupMember.restored(entry, stored.protocol_type, stored.protocol_name))
        if stored.leader_id is not None and stored.leader_id in group.members:
            group.members.leader_id = stored.leader_id
        group.subscribed_topics = group._subscribed_topics()
        for member in group.members:
            group._expect_heartbeat(member, now)
        if len(group.members) > settings.max_size:
            group._prepare_rebalance("it has more members than group.max.size", now)
        elif group.members and stored.leader_id is None:
            group._prepare_rebalance("it has become a classic group", now)
        return group

    @classmethod
    def of_members(
        cls, group_id: str, settings: GroupSettings, generation_id: int, members: Sequence[GroupMember], now: Now
    ) -> Self:
        """Return a group of consumers that was of another kind: store it, and `begin` when the log has it."""
        group = cls(group_id, settings)
        group.generation_id = generation_id
        group.protocol_type = CONSUMER
        for member in members:
            group.members.add(member)
        group.protocol_name = group.members.vote() if members else None
        group.subscribed_topics = group._subscribed_topics()
        group._enter(GroupState.STABLE if members else GroupState.EMPTY, now)
        return group

    @property
    def first_record(self) -> tuple[bytes, bytes]:
        """The record of a group that has not begun. It has no leader: whoever loads it has its members join again."""
        stored = self.to_store({member.member_id: member.assignment for member in self.members})
        return encode_group_key(GroupKey(self.group_id)), encode_group(stored._replace(leader_id=None))

    def begin(self, now: Now) -> list[Effect]:
        """Have all members join again."""
        for member in self.members:
            self._expect_heartbeat(member, now)
        if self.members:
            self._prepare_rebalance("it has become a classic group", now)
        return self._take_effects()

    # The rebalance

    def _rebalance_if_settled(self, reason: str, now: Now) -> None:
        if self.state in (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            self._prepare_rebalance(reason, now)

    def _prepare_rebalance(self, reason: str, now: Now) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._propagate_failure(ErrorCode.rebalance_in_progress, now)
        self._not_synced.clear()
        self._syncs_until_ms = None
        rebalance_timeout_ms = self.members.rebalance_timeout_ms
        if self.state is GroupState.EMPTY:
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._initial_delay = _InitialDelay(delay_ms, max(rebalance_timeout_ms - delay_ms, 0))
            self._joins_until_ms = self._wake_at(now.monotonic_ms + delay_ms)
        else:
            self._joins_until_ms = self._wake_at(now.monotonic_ms + rebalance_timeout_ms)
        self._enter(GroupState.PREPARING_REBALANCE, now)
        _logger.info("group %s: rebalance after generation %d: %s", self.group_id, self.generation_id, reason)
        self._complete_join_if_all_joined(now)

    def _complete_join_if_all_joined(self, now: Now) -> None:
        if (
            self._initial_delay is None
            and self.state is GroupState.PREPARING_REBALANCE
            and not self.pending_members
            and self._joining_count == len(self.members)
        ):
            self._complete_join(now)

    def _end_initial_delay(self, delay: _InitialDelay, now: Now) -> None:
        if self._has_new_member and delay.remaining_ms:
            self._has_new_member = False
            next_ms = min(self._settings.initial_rebalance_delay_ms, delay.remaining_ms)
            self._initial_delay = _InitialDelay(next_ms, max(delay.remaining_ms - delay.delay_ms, 0))
            self._joins_until_ms = self._wake_at(now.monotonic_ms + next_ms)
        else:
            self._complete_join(now)

    def _complete_join(self, now: Now) -> None:
        """Begin the next generation with the members that have joined, and the static members that have not."""
        self._initial_delay = None
        self._joins_until_ms = None
        for member in self.members:
            if member.join is None and not member.is_static:
                self._remove(member.member_id)
        if not self.members.elect_joined_leader() and self.members:
            _logger.warning("group %s: no member has joined again; waiting for another rebalance time", self.group_id)
            self._joins_until_ms = self._wake_at(now.monotonic_ms + self.members.rebalance_timeout_ms)
            return
        self.generation_id += 1
        if not self.members:
            self.protocol_name = None
            self.subscribed_topics = self._subscribed_topics()
            self._enter(GroupState.EMPTY, now)
            self._store({}, self._empty_stored)
            return
        self.protocol_name = self.members.vote()
        self.subscribed_topics = self._subscribed_topics()
        self._enter(GroupState.COMPLETING_REBALANCE, now)
        _logger.info("group %s: generation %d has %d members", self.group_id, self.generation_id, len(self.members))
        self._not_synced = {member.member_id for member in self.members}
        self._syncs_until_ms = self._wake_at(now.monotonic_ms + self.members.rebalance_timeout_ms)
        for member in self.members:
            self._answer_join(member, self.joined(member))
            self._expect_heartbeat(member, now)
            member.is_new = False

    def _empty_stored(self, error: ErrorCode, now: Now) -> None:
        if error:
            # After a restart the members of the previous generation would be back until they expire.
            _logger.warning("group %s: cannot write that it is empty: %s", self.group_id, error.name)

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER:
            return None
        topics: frozenset[str] = frozenset()
        for member in self.members:
            subscribed = subscribed_topics(member.metadata(self.protocol_name or ""))
            if subscribed is None:
                return None
            topics |= subscribed
        return topics

    # The assignment

    def _assignment_stored(self, generation_id: int, assignments: dict[str, bytes], error: ErrorCode, now: Now) -> None:
        if self.state is not GroupState.COMPLETING_REBALANCE or generation_id != self.generation_id:
            return
        if error:
            self._propagate_failure(error, now)
            self._prepare_rebalance(f"the assignment could not be stored: {error.name}", now)
            return
        self._enter(GroupState.STABLE, now)
        self._settings.counters.classic_rebalances += 1
        for member in self.members:
            member.assignment = assignments[member.member_id]
            if self._answer_sync(member, self.assigned(member)):
                self._expect_heartbeat(member, now)

    def assigned(self, member: GroupMember) -> SyncAnswer:
        return SyncAnswer(ErrorCode.none, self.protocol_type, self.protocol_name, member.assignment)

    def _propagate_failure(self, error: ErrorCode, now: Now) -> None:
        for member in self.members:
            member.assignment = b""
            if self._answer_sync(member, SyncAnswer(error)):
                self._expect_heartbeat(member, now)

    def joined(self, member: GroupMember) -> JoinAnswer:
        """Return the current generation as the JoinGroup answer of `member`."""
        protocol_name = self.protocol_name or ""
        is_leader = self.members.is_leader(member.member_id)
        return JoinAnswer(
            ErrorCode.none,
            member.member_id,
            self.generation_id,
            self.protocol_type,
            protocol_name,
            self.members.leader_id or "",
            tuple(other.as_told_to_leader(protocol_name) for other in self.members) if is_leader else (),
        )

    # What the coordinator asks

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_unused(self) -> bool:
        return self.is_empty and not self.pending_members

    def reads_topic(self, topic: str) -> bool:
        return not self.is_empty and (self.subscribed_topics is None or topic in self.subscribed_topics)

    def retained_since(self, topic: str, committed_ms: int) -> int | None:
        if self.protocol_type is None:
            return committed_ms
        if self.is_empty:
            return committed_ms if self.state_timestamp_ms == NO_STATE_TIMESTAMP else self.state_timestamp_ms
        is_unread = self.protocol_type == CONSUMER and not self.reads_topic(topic)
        return committed_ms if is_unread and self.state is GroupState.STABLE else None

    def tombstones(self) -> list[tuple[bytes, None]]:
        return [(encode_group_key(GroupKey(self.group_id)), None)] if self.generation_id > 0 else []

    # The end

    def die(self, error: ErrorCode) -> list[Effect]:
        for member in self.members:
            self._answer_join(member, JoinAnswer(error, member.member_id))
            self._answer_sync(member, SyncAnswer(error))
        self.state = GroupState.DEAD
        self.wake_ms = None
        return self._take_effects()

    # Time and stored records

    def stored(self, store: Store, error: ErrorCode, now: Now) -> list[Effect]:
        store.then(error, now)
        return self._take_effects()

    def tick(self, now: Now) -> list[Effect]:
        if self.state is GroupState.DEAD:
            return []
        now_ms = now.monotonic_ms
        for member_id, expires_ms in tuple(self.pending_members.items()):
            if expires_ms <= now_ms:
                _logger.info("group %s: %s was given a member id and has not joined", self.group_id, member_id)
                self._remove_pending(member_id, now)
        for member in self.members:
            is_due = member.expires_ms is not None and member.expires_ms <= now_ms
            if is_due and member.member_id in self.members:
                self._expire(member, now)
        if self._syncs_until_ms is not None and self._syncs_until_ms <= now_ms:
            self._end_syncs(now)
        if self._joins_until_ms is not None and self._joins_until_ms <= now_ms:
            if self._initial_delay is None:
                self._complete_join(now)
            else:
                self._end_initial_delay(self._initial_delay, now)
        self.wake_ms = min(self._deadlines(), default=None)
        return self._take_effects()

    def _deadlines(self) -> list[int]:
        deadlines = [*self.pending_members.values(), *(member.expires_ms for member in self.members)]
        return [due_ms for due_ms in (*deadlines, self._joins_until_ms, self._syncs_until_ms) if due_ms is not None]

    def _expire(self, member: GroupMember, now: Now) -> None:
        if not member.is_new and (member.join is not None or member.sync is not None):
            # The member waits for an answer; its session continues after the answer.
            member.expires_ms = None
        else:
            self._remove_and_rebalance(member.member_id, f"{member.member_id} was not heard of in its session", now)

    def _end_syncs(self, now: Now) -> None:
        self._syncs_until_ms = None
        if self._not_synced:
            late = sorted(self._not_synced)
            for member_id in late:
                self._remove(member_id)
            self._prepare_rebalance(f"{', '.join(late)} did not sync in time", now)

    # Small things

    def _enter(self, state: GroupState, now: Now) -> None:
        self.state = state
        self.state_timestamp_ms = now.wall_ms

    def _remove_and_rebalance(self, member_id: str, reason: str, now: Now) -> None:
        self._remove(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_all_joined(now)
        else:
            self._rebalance_if_settled(reason, now)

    def _remove_pending(self, member_id: str, now: Now) -> None:
        del self.pending_members[member_id]
        self._complete_join_if_all_joined(now)

    def _remove(self, member_id: str) -> None:
        self.pending_members.pop(member_id, None)
        self._not_synced.discard(member_id)
        if (member := self.members.remove(member_id)) is not None:
            self._answer_join(member, JoinAnswer(ErrorCode.unknown_member_id))
            self._answer_sync(member, SyncAnswer(ErrorCode.unknown_member_id))

    def _expect_heartbeat(self, member: GroupMember, now: Now) -> None:
        member.expires_ms = self._wake_at(now.monotonic_ms + member.session_timeout_ms)

    def _wake_at(self, due_ms: int) -> int:
        if self.wake_ms is None or due_ms < self.wake_ms:
            self.wake_ms = due_ms
        return due_ms

    def _store(self, assignments: dict[str, bytes], then: Callable[[ErrorCode, Now], None]) -> None:
        value = encode_group(self.to_store(assignments))
        self._effects.append(Store(((encode_group_key(GroupKey(self.group_id)), value),), then))

    def to_store(self, assignments: dict[str, bytes]) -> StoredGroup:
        protocol_name = self.protocol_name
        return StoredGroup(
            self.protocol_type or "",
            self.generation_id,
            protocol_name,
            self.members.leader_id,
            self.state_timestamp_ms,
            tuple(member.stored(protocol_name or "", assignments[member.member_id]) for member in self.members),
        )

    def _answer(self, answer: Callable[[T], None], value: T) -> None:
        self._effects.append(Answer(partial(answer, value)))

    def _let_join(self, member: GroupMember, answer: AnswerJoin) -> None:
        member.join = answer
        self._joining_count += 1

    def _answer_join(self, member: GroupMember, value: JoinAnswer) -> None:
        if member.join is not None:
            self._answer(member.join, value)
            member.join = None
            self._joining_count -= 1

    def _answer_sync(self, member: GroupMember, value: SyncAnswer) -> bool:
        if member.sync is None:
            return False
        self._answer(member.sync, value)
        member.sync = None
        return True

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
