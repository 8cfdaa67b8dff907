"""One consumer group of the classic protocol as a state machine: (event, now) in, effects out.

    request          Empty               PreparingRebalance      CompletingRebalance           Stable
    JoinGroup        waits               waits                   waits, or this generation     waits, or this generation
    SyncGroup        UNKNOWN_MEMBER_ID   REBALANCE_IN_PROGRESS   waits for the leader's        its assignment
    Heartbeat        UNKNOWN_MEMBER_ID   REBALANCE_IN_PROGRESS   NONE                          NONE
    LeaveGroup       UNKNOWN_MEMBER_ID   NONE                    NONE, and rebalances          NONE, and rebalances
    OffsetCommit     simple consumers    NONE                    REBALANCE_IN_PROGRESS         NONE

    Dead answers every request with COORDINATOR_NOT_AVAILABLE. highwater.broker.group.rebalance has the transitions
    between the states.

A request is checked in this order: is its instance id fenced (FENCED_INSTANCE_ID), is its member known
(UNKNOWN_MEMBER_ID), is its generation the current one (ILLEGAL_GENERATION). Dynamic members first get an id and join
with it (KIP-394); static members (KIP-345) that disconnect stay members until their session ends.

The semantics are those of Apache Kafka 3.9's GroupCoordinator, with one exception: in Kafka a join or sync may stay
unanswered when a newer one of the same member replaces it or the member is removed; here the answer is to join again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.group.events import (
    NO_MEMBER_ID,
    AnswerJoin,
    AnswerLeave,
    AnswerSync,
    Committer,
    Effect,
    JoinAnswer,
    JoinRequest,
    Leaver,
    Now,
    SyncAnswer,
    SyncRequest,
)
from highwater.broker.group.members import GroupMember
from highwater.broker.group.rebalance import GroupState, Rebalance
from highwater.common.topic_partition import TopicPartition

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""The session of a first join: its client has no member id yet, so it cannot send heartbeats."""


class ClassicGroup(Rebalance):
    # JoinGroup

    def join(self, request: JoinRequest, answer: AnswerJoin, now: Now) -> list[Effect]:
        if not self._has_room_for(request.member_id):
            self._remove(request.member_id)
            self._answer(answer, JoinAnswer(ErrorCode.group_max_size_reached))
        elif (refusal := self._cannot_join(request)) is not None:
            self._answer(answer, JoinAnswer(refusal, request.member_id))
        elif request.member_id == NO_MEMBER_ID:
            self._join_new(request, answer, now)
        elif request.member_id in self.pending_members and request.group_instance_id is None:
            self._add_and_rebalance(request.member_id, request, answer, now)
        else:
            self._join_again(request, answer, now)
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_all_joined(now)
        return self._take_effects()

    def _has_room_for(self, member_id: str) -> bool:
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            # Count the joined members, so that a group above the limit loses the members that join last.
            return (member is not None and member.join is not None) or (self._joining_count < self._settings.max_size)
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member is not None or len(self.members) < self._settings.max_size
        return True

    def _cannot_join(self, request: JoinRequest) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if self.state is GroupState.EMPTY:
            agrees = bool(request.protocol_type and request.protocols)
        else:
            agrees = request.protocol_type == self.protocol_type and self.members.can_agree(request.protocols)
        return None if agrees else ErrorCode.inconsistent_group_protocol

    def _join_new(self, request: JoinRequest, answer: AnswerJoin, now: Now) -> None:
        instance_id = request.group_instance_id
        new_id = request.new_member_id(self._settings.new_id())
        if instance_id is not None and self.members.static_id(instance_id) is not None:
            self._replace_static(instance_id, new_id, request, answer, now)
        elif instance_id is None and request.must_know_member_id:
            self.pending_members[new_id] = self._wake_at(now.monotonic_ms + request.session_timeout_ms)
            self._answer(answer, JoinAnswer(ErrorCode.member_id_required, new_id))
        else:
            self._add_and_rebalance(new_id, request, answer, now)

    def _join_again(self, request: JoinRequest, answer: AnswerJoin, now: Now) -> None:
        member_id = request.member_id
        if (error := self._check_member(member_id, request.group_instance_id)) is not None:
            self._answer(answer, JoinAnswer(error, member_id))
            return
        member = self.members[member_id]
        is_unchanged = member.protocols == request.protocols
        if self.state is GroupState.EMPTY:
            self._answer(answer, JoinAnswer(ErrorCode.unknown_member_id, member_id))
        elif is_unchanged and (
            self.state is GroupState.COMPLETING_REBALANCE
            or (self.state is GroupState.STABLE and not self.members.is_leader(member_id))
        ):
            # The member may not have received the answer to its join. A leader that joins a stable group wants a new
            # assignment, for example because of new partitions.
            self._answer(answer, self.joined(member))
        else:
            self._update(member, request, answer)
            self._rebalance_if_settled(f"{member_id} joined again; {request.reason}", now)

    def _add_and_rebalance(self, member_id: str, request: JoinRequest, answer: AnswerJoin, now: Now) -> None:
        self.pending_members.pop(member_id, None)
        member = GroupMember(member_id, request)
        member.is_new = True
        self._let_join(member, answer)
        if not self.members:
            self.protocol_type = request.protocol_type
        self._has_new_member |= self.state is GroupState.PREPARING_REBALANCE and self.generation_id == 0
        self.members.add(member)
        member.expires_ms = self._wake_at(now.monotonic_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance_if_settled(f"{member_id} joined; {request.reason}", now)

    def _update(self, member: GroupMember, request: JoinRequest, answer: AnswerJoin) -> None:
        self._answer_join(member, JoinAnswer(ErrorCode.rebalance_in_progress, member.member_id))
        self.members.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        self._let_join(member, answer)

    def _replace_static(
        self, instance_id: str, new_id: str, request: JoinRequest, answer: AnswerJoin, now: Now
    ) -> None:
        """Give a restarted static member a new id; a client that still uses the old id is fenced."""
        old_leader_id = self.members.leader_id or ""
        old_id = self.members.static_id(instance_id) or ""
        member = self.members.rename(instance_id, new_id)
        self._answer_join(member, JoinAnswer(ErrorCode.fenced_instance_id, old_id))
        self._answer_sync(member, SyncAnswer(ErrorCode.fenced_instance_id))
        if old_id in self._not_synced:
            self._not_synced.symmetric_difference_update((old_id, new_id))
        self._expect_heartbeat(member, now)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._update(member, request, answer)
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning partitions to the old id at this moment.
            self._prepare_rebalance(f"{new_id} takes the place of {old_id}; {request.reason}", now)
        elif self.state is GroupState.STABLE and self.members.vote() != self.protocol_name:
            self._prepare_rebalance(f"{new_id} brings another protocol; {request.reason}", now)
        elif self.state is GroupState.STABLE:

            def stored(error: ErrorCode, now: Now) -> None:
                if member.join is not answer or self.state is not GroupState.STABLE:
                    return  # A newer rebalance has the member and will answer it.
                if error:
                    self.members.rename(instance_id, old_id)
                    self.members.update(member, *before)
                    self._expect_heartbeat(member, now)
                    self._answer_join(member, JoinAnswer(error))
                else:
                    self._answer_join(member, self._replaced(member, old_leader_id, request.may_skip_assignment))

            self._store({member.member_id: member.assignment for member in self.members}, stored)

    def _replaced(self, member: GroupMember, old_leader_id: str, may_skip_assignment: bool) -> JoinAnswer:
        """Return the current generation for a static member that came back; no new assignment is needed (KIP-814)."""
        joined = self.joined(member)
        if may_skip_assignment:
            return joined._replace(skip_assignment=self.members.is_leader(member.member_id))
        # A client that cannot skip the assignment gets the leader's old id, so that it does not act as the leader.
        return joined._replace(leader_id=old_leader_id, members=())

    # SyncGroup

    def sync(self, request: SyncRequest, answer: AnswerSync, now: Now) -> list[Effect]:
        if (error := self._cannot_sync(request)) is not None:
            self._answer(answer, SyncAnswer(error))
            return self._take_effects()
        member = self.members[request.member_id]
        self._not_synced.discard(member.member_id)
        if self.state is GroupState.STABLE:
            self._answer(answer, self.assigned(member))
            self._expect_heartbeat(member, now)
            return self._take_effects()
        self._answer_sync(member, SyncAnswer(ErrorCode.rebalance_in_progress))
        member.sync = answer
        if self.members.is_leader(member.member_id):
            assignments = {other.member_id: request.assignments.get(other.member_id, b"") for other in self.members}
            self._store(assignments, partial(self._assignment_stored, self.generation_id, assignments))
        return self._take_effects()

    def _cannot_sync(self, request: SyncRequest) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if (error := self._check_member(request.member_id, request.group_instance_id)) is not None:
            return error
        if request.generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        if request.protocol_type not in (None, self.protocol_type):
            return ErrorCode.inconsistent_group_protocol
        if request.protocol_name not in (None, self.protocol_name):
            return ErrorCode.inconsistent_group_protocol
        return ErrorCode.rebalance_in_progress if self.state is GroupState.PREPARING_REBALANCE else None

    # Heartbeat, LeaveGroup, and the check of an OffsetCommit

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, now: Now) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if (error := self._check_member(member_id, group_instance_id)) is not None:
            return error
        if generation_id != self.generation_id:
            return ErrorCode.illegal_generation
        self._expect_heartbeat(self.members[member_id], now)
        is_preparing = self.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.rebalance_in_progress if is_preparing else ErrorCode.none

    def leave(self, leavers: Sequence[Leaver], answer: AnswerLeave, now: Now) -> list[Effect]:
        outcomes = [self._leave(leaver, now) for leaver in leavers]
        self._answer(answer, outcomes)
        return self._take_effects()

    def _leave(self, leaver: Leaver, now: Now) -> ErrorCode:
        member_id, instance_id, reason = leaver
        if member_id == NO_MEMBER_ID:
            member_id = (instance_id and self.members.static_id(instance_id)) or NO_MEMBER_ID
            instance_id = None
        if member_id in self.pending_members:
            self._remove_pending(member_id, now)
            return ErrorCode.none
        if (error := self._check_member(member_id, instance_id)) is not None:
            return error
        self._remove_and_rebalance(member_id, f"{member_id} left; {reason}", now)
        return ErrorCode.none

    def check_commit(self, committer: Committer, partitions: Collection[TopicPartition], now: Now) -> ErrorCode | None:
        """A commit counts as a heartbeat."""
        if self.state not in (GroupState.EMPTY, GroupState.DEAD) and _is_nobody(committer):
            return ErrorCode.unknown_member_id
        error = self.check_transactional_commit(committer, partitions)
        if error is not None or committer.generation_id < 0:
            return error
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        self._expect_heartbeat(self.members[committer.member_id], now)
        return None

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        return None

    def check_transactional_commit(
        self, committer: Committer, partitions: Collection[TopicPartition]
    ) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if self.state is GroupState.EMPTY and committer.generation_id < 0:
            return None
        if _is_nobody(committer):
            return None
        if (error := self._check_member(committer.member_id, committer.group_instance_id)) is not None:
            return error
        return ErrorCode.illegal_generation if committer.generation_id != self.generation_id else None

    def _check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode | None:
        if group_instance_id is not None:
            current_id = self.members.static_id(group_instance_id)
            if current_id is not None and current_id != member_id:
                return ErrorCode.fenced_instance_id
            if current_id is None:
                return ErrorCode.unknown_member_id
        return None if member_id in self.members else ErrorCode.unknown_member_id


def _is_nobody(committer: Committer) -> bool:
    return committer.generation_id < 0 and committer.member_id == NO_MEMBER_ID and committer.group_instance_id is None
