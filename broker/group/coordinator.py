"""The group coordinator: passes requests of clients to the groups that they concern.

A change is in the log before a client sees it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import ClusterView
from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.commits import COMMIT_ERRORS, Commits
from highwater.broker.group.consumer.events import JOIN_EPOCH, HeartbeatAnswer, HeartbeatRequest
from highwater.broker.group.consumer.heartbeat import refusal
from highwater.broker.group.consumer.membership import AnswerHeartbeat, ConsumerMembership, Sees
from highwater.broker.group.events import (
    NO_MEMBER_ID,
    AnswerJoin,
    AnswerSync,
    JoinAnswer,
    JoinRequest,
    Leaver,
    SyncAnswer,
    SyncRequest,
)
from highwater.broker.group.groups import Group, Groups
from highwater.broker.group.protocol import GroupProtocol
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.topics.internal_topic import fits
from highwater.broker.topics.partitions import Partitions

_logger = logging.getLogger(__name__)
_SOME_UUID: Final = str(UUID(int=0))
_Answer = TypeVar("_Answer", JoinAnswer, SyncAnswer, HeartbeatAnswer)


class GroupCoordinator:
    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        cluster: ClusterView,
        group_version: Callable[[], int],
        deleted_topics: Sequence[str] = (),
    ) -> None:
        """`group_version` is the level of that feature. `deleted_topics` were deleted since the last run: their offsets
        are not read back.
        """
        config = runtime.config
        self._cluster = cluster
        self._groups = Groups(runtime, partitions, cluster, deleted_topics)
        self.topic = self._groups.topic
        self.topic_deleted = self._groups.topic_deleted
        self.partitions_deleted = self._groups.partitions_deleted
        self.close = self._groups.close
        self.counters = self._groups.counters
        self.commits = Commits(self._groups, config.integer("offset.metadata.max.bytes"), group_version)
        self._session_timeouts_ms = range(
            config.integer("group.min.session.timeout.ms"), config.integer("group.max.session.timeout.ms") + 1
        )

    def partition_of(self, group_id: str) -> int | None:
        """Return the partition of `__consumer_offsets` for a group; None while there is no such topic."""
        return self.topic.index_of(group_id)

    def partition(self, group_id: str) -> Partition | None:
        """Return the partition of `__consumer_offsets` for a group, if this broker leads it."""
        return self.topic.partition(group_id)

    def take_up_settings(self, own: Mapping[str, Mapping[str, str]]) -> None:
        """Use these settings of groups, by group id, from now on."""
        self._groups.take_up_settings(own)

    # Members

    def join(self, group_id: str, request: JoinRequest, answer: AnswerJoin) -> None:
        error = self._groups.refusal(group_id)
        if error is None and request.session_timeout_ms not in self._session_timeouts_ms:
            error = ErrorCode.invalid_session_timeout
        names = (
            request.member_id or request.new_member_id(_SOME_UUID),
            request.group_instance_id or "",
            request.protocol_type,
            *(name for name, _ in request.protocols),
        )
        if error is None and not all(map(fits, names)):
            error = ErrorCode.invalid_request
        if error is not None:
            answer(JoinAnswer(error, request.member_id))
            return
        group = self._groups.by_id.get(group_id)
        if group is None and request.member_id == NO_MEMBER_ID:
            group = self._groups.add(group_id)
        if group is None:
            answer(JoinAnswer(ErrorCode.unknown_member_id, request.member_id))
            return
        members = group.members
        if isinstance(members, ConsumerMembership) and members.is_unused:
            if request.member_id != NO_MEMBER_ID:
                answer(JoinAnswer(ErrorCode.unknown_member_id, request.member_id))
                return
            members = self._groups.become_classic(group)
        if (error := self._knows_too_little(group)) is not None:
            answer(JoinAnswer(error, request.member_id))
            return
        if isinstance(members, ConsumerMembership):
            refused = JoinAnswer(ErrorCode.coordinator_load_in_progress, request.member_id)
            answer = self._when_known(group_id, answer, refused)
        self._groups.apply(group, members.join(request, answer, self._groups.now()))

    def sync(self, group_id: str, request: SyncRequest, answer: AnswerSync) -> None:
        group = self._groups.by_id.get(group_id)
        error = self._groups.refusal(group_id) or self._knows_too_little(group)
        if error is ErrorCode.coordinator_load_in_progress:
            # The rebalance was lost. Older clients do not expect COORDINATOR_LOAD_IN_PROGRESS here.
            error = ErrorCode.rebalance_in_progress
        if error is not None or group is None:
            answer(SyncAnswer(error or ErrorCode.unknown_member_id))
            return
        if isinstance(group.members, ConsumerMembership):
            answer = self._when_known(group_id, answer, SyncAnswer(ErrorCode.rebalance_in_progress))
        self._groups.apply(group, group.members.sync(request, answer, self._groups.now()))

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        group = self._groups.by_id.get(group_id)
        error = self._groups.refusal(group_id) or self._knows_too_little(group)
        if error is not None:
            return ErrorCode.none if error is ErrorCode.coordinator_load_in_progress else error
        if group is None:
            return ErrorCode.unknown_member_id
        outcome = group.members.heartbeat(member_id, group_instance_id, generation_id, self._groups.now())
        self._groups.schedule(group)
        return outcome

    def leave(
        self, group_id: str, leavers: Sequence[Leaver], answer: Callable[[ErrorCode | list[ErrorCode]], None]
    ) -> None:
        """Remove members. Answers an error code for each of `leavers`, or one for all."""
        if (error := self._groups.refusal(group_id)) is not None:
            answer(error)
            return
        group = self._groups.by_id.get(group_id)
        if group is None:
            answer([ErrorCode.unknown_member_id] * len(leavers))
            return
        self._groups.apply(group, group.members.leave(leavers, answer, self._groups.now()))

    # Members of consumer groups

    def _knows_too_little(self, group: Group | None) -> ErrorCode | None:
        """Topics that are not known yet would be taken from the members of a consumer group."""
        is_of_consumers = group is not None and isinstance(group.members, ConsumerMembership)
        return ErrorCode.coordinator_load_in_progress if is_of_consumers and not self._cluster.is_complete else None

    def _when_known(
        self, group_id: str, answer: Callable[[_Answer], None], refused: _Answer
    ) -> Callable[[_Answer], None]:
        """Answer, or refuse while what was read of a consumer group may be on this broker alone: it may be lost again.

        When records of this broker are acknowledged, all before them are.
        """

        def answered(value: _Answer) -> None:
            partition = self.topic.partition(group_id)
            is_known = partition is None or partition.has_caught_up_with_consumers
            answer(value if is_known or value.error_code else refused)

        return answered

    def has_consumers(self, group_id: str) -> bool:
        """Whether this consumer group has members here."""
        group = self._groups.by_id.get(group_id)
        return group is not None and isinstance(group.members, ConsumerMembership) and not group.members.is_empty

    def consumer_heartbeat(
        self, group_id: str, version: int, request: HeartbeatRequest, sees: Sees, answer: AnswerHeartbeat
    ) -> None:
        """Take a ConsumerGroupHeartbeat of this version."""
        if (
            refused := refusal(group_id, request, version, self._groups.world.settings(group_id).assignors)
        ) is not None:
            answer(refused)
            return
        if request.member_id == NO_MEMBER_ID:
            request = request._replace(member_id=str(uuid4()))
        error = self._groups.refusal(group_id)
        if error is None and not self._cluster.is_complete:
            error = ErrorCode.coordinator_load_in_progress
        if error is not None:
            answer(HeartbeatAnswer(error, None, request.member_id, request.member_epoch))
            return
        members = self._consumers(group_id, request)
        if isinstance(members, HeartbeatAnswer):
            answer(members)
            return
        group = self._groups.by_id[group_id]
        loading = HeartbeatAnswer(ErrorCode.coordinator_load_in_progress, None, request.member_id, request.member_epoch)
        when_known = self._when_known(group_id, answer, loading)

        def answered(value: HeartbeatAnswer) -> None:
            is_here = self._groups.by_id.get(group_id) is group and group.members is members
            if value.error_code and is_here and not members.tombstones():
                # Nobody has ever joined this group.
                self._groups.bury(group_id, group, [])
            when_known(value)

        self._groups.apply(group, members.consumer_heartbeat(request, sees, answered, self._groups.now()))

    def _consumers(self, group_id: str, request: HeartbeatRequest) -> ConsumerMembership | HeartbeatAnswer:
        """Return the consumer group, maybe a new one, or why `request` cannot be of its members."""
        group = self._groups.by_id.get(group_id)
        if group is not None and isinstance(group.members, ConsumerMembership):
            return group.members
        if request.member_epoch == JOIN_EPOCH:
            return self._groups.become_consumers(group_id, request)
        message = f"There is no consumer group {group_id}."
        return HeartbeatAnswer(ErrorCode.group_id_not_found, message, request.member_id, request.member_epoch)

    # Administration

    def describe(self, group_id: str) -> ErrorCode | ClassicGroup | ConsumerMembership | None:
        """Return the group, or None for an unknown group."""
        if (error := self._groups.refusal(group_id, may_be_empty=True)) is not None:
            return error
        group = self._groups.by_id.get(group_id)
        return None if group is None else group.members

    def all_groups(self) -> tuple[ErrorCode, list[GroupProtocol]]:
        """Return all groups known so far, and an error while some are still being read."""
        error = ErrorCode.none
        if self._groups.is_closed:
            error = ErrorCode.coordinator_not_available
        elif self.topic.is_loading:
            error = ErrorCode.coordinator_load_in_progress
        return error, [group.members for group in self._groups.by_id.values()]

    @property
    def offset_count(self) -> int:
        """The committed offsets of all these groups."""
        return sum(len(group.offsets) for group in self._groups.by_id.values())

    def delete(self, group_id: str, answer: Callable[[ErrorCode], None]) -> None:
        group = self._groups.by_id.get(group_id)
        error = self._groups.refusal(group_id, may_be_empty=True)
        if error is None and group is None:
            error = ErrorCode.group_id_not_found
        if error is None and group is not None and not group.members.is_empty:
            error = ErrorCode.non_empty_group
        if error is not None or group is None:
            answer(error or ErrorCode.group_id_not_found)
            return
        _logger.info("group %s is deleted", group_id)
        removed = group.offsets.remove_all()
        self._groups.bury(
            group_id, group, removed, lambda error: answer(COMMIT_ERRORS.get(error, error)), is_deletion=True
        )
