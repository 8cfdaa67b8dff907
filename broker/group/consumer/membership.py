"""The members of a consumer group as the coordinator sees them: one event after the other.

    event                                  while no other is under way    while another is
    a heartbeat that writes nothing        answered                       answered, unless one of its member waits
    a heartbeat that writes                decided, appended, applied     waits for its turn
    a member is removed, or its time ends  decided, appended, applied     waits for its turn
    topics of regular expressions          decided, appended, applied     waits for its turn
    JoinGroup of the classic protocol      decided, appended, applied     waits for its turn
    its SyncGroup and Heartbeat            answered                       answered

How an event goes on is in `event_queue`, what it decides in `heartbeat`, `leaving`, `regexes` and `classic_members`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.consumer import classic_members, regexes
from highwater.broker.group.consumer.classic_members import as_heartbeat
from highwater.broker.group.consumer.event_queue import Decided, EventQueue, GroupEvent, World
from highwater.broker.group.consumer.events import JOIN_EPOCH, HeartbeatAnswer, HeartbeatRequest
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.heartbeat import cannot_join, heartbeat
from highwater.broker.group.consumer.leaving import expire, leave, remove
from highwater.broker.group.consumer.migration import upgraded
from highwater.broker.group.consumer.parts import encoded
from highwater.broker.group.consumer.schemas import GroupRecord, encode_key
from highwater.broker.group.consumer.target import assignor_of
from highwater.broker.group.events import (
    NO_MEMBER_ID,
    Answer,
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
    Work,
)
from highwater.broker.group.members import CONSUMER
from highwater.broker.slices import run
from highwater.common.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

AnswerHeartbeat = Callable[[HeartbeatAnswer], None]
Sees = Callable[[str], bool]
"""Whether the client of a member may know of a topic."""


class ConsumerMembership(EventQueue):
    kind: Final = CONSUMER
    protocol_type: Final = CONSUMER

    def __init__(
        self, group: ConsumerGroup, world: World, leftovers: Sequence[tuple[bytes, bytes | None]] = ()
    ) -> None:
        super().__init__(group, world, leftovers)
        self._is_expiring = False
        self._is_resolving = False

    @classmethod
    def upgraded(cls, classic: ClassicGroup, world: World, now: Now) -> ConsumerMembership | str:
        """Return the consumer group that a classic one with members becomes, or why it cannot."""
        settings = world.settings(classic.group_id)
        if not world.policy.may_upgrade:
            return "group.consumer.migration.policy forbids it while there are members"
        records = upgraded(classic, world.topics, settings.max_size)
        if isinstance(records, str):
            return records
        group = ConsumerGroup(classic.group_id)
        group.apply(records, settings.session_timeout_ms, now.monotonic_ms)
        return cls(group, world, [*classic.tombstones(), *map(encoded, records)])

    @classmethod
    def restored(cls, group_id: str, world: World, records: Iterable[GroupRecord], now: Now) -> ConsumerMembership:
        """Return a group from its records in the log; its members have one session time to send again."""
        group, contradictions = ConsumerGroup.loaded(
            group_id, records, world.settings(group_id).session_timeout_ms, now.monotonic_ms
        )
        for text in contradictions:
            _logger.warning("group %s: %s", group_id, text)
        return cls(group, world)

    # Heartbeats

    def refusal(self, request: HeartbeatRequest) -> HeartbeatAnswer | None:
        """Return why nobody may join like this, or None."""
        return cannot_join(self.group, request, self._settings)

    def consumer_heartbeat(
        self, request: HeartbeatRequest, sees: Sees, answer: AnswerHeartbeat, now: Now
    ) -> list[Effect]:
        if (
            self._current is not None
            and request.member_epoch > JOIN_EPOCH
            and not self._is_busy_with(request.member_id)
        ):
            world = self._world
            decision = run(heartbeat(self.group, request, world.topics, self._settings, now, may_assign=False))
            if not decision.records:
                return [Answer(partial(answer, decision.answer))]
        return self._submit(
            GroupEvent(
                request.member_id,
                partial(self._decide_heartbeat, request, sees, answer),
                lambda error: self._answer(partial(answer, _refused(request, error))),
                is_leaving=request.member_epoch < JOIN_EPOCH,
            ),
            now,
        )

    def _is_busy_with(self, member_id: str) -> bool:
        """Whether the answer to this member depends on what is under way, or on an earlier request of its own."""
        is_under_way = self._current is not None and self._current.member_id == member_id
        return is_under_way or member_id in self._removed or self._is_waiting(member_id)

    def _decide_heartbeat(
        self, request: HeartbeatRequest, sees: Sees, answer: AnswerHeartbeat, now: Now
    ) -> Generator[None, None, Decided]:
        topics, settings = self._world.topics, self._settings
        is_leaving = request.member_epoch < JOIN_EPOCH
        if is_leaving:
            decision = leave(self.group, request, topics)
        else:
            decision = yield from heartbeat(self.group, request, topics, settings, now)

        def then(now: Now) -> None:
            self._answer(partial(answer, decision.answer))
            if not is_leaving and not decision.answer.error_code:
                self._resolve_if_due(sees, now)

        return Decided(decision.records, then)

    # Members of the classic protocol

    def join(self, request: JoinRequest, answer: AnswerJoin, now: Now) -> list[Effect]:
        new_id = request.new_member_id(self._world.classic.new_id())
        if request.member_id == NO_MEMBER_ID and request.must_know_member_id:
            return [Answer(partial(answer, JoinAnswer(ErrorCode.member_id_required, new_id)))]
        member_id = request.member_id or new_id
        return self._submit(
            GroupEvent(
                member_id,
                partial(self._decide_join, member_id, request, answer),
                lambda error: self._answer(partial(answer, JoinAnswer(error, request.member_id))),
                (request, answer),
            ),
            now,
        )

    def _decide_join(
        self, member_id: str, request: JoinRequest, answer: AnswerJoin, now: Now
    ) -> Generator[None, None, Decided]:
        def refused(error: ErrorCode) -> Decided:
            return Decided((), lambda _: self._answer(partial(answer, JoinAnswer(error, request.member_id))))

        if self.group.is_empty:
            # It was not when the request came. The next one finds a group that may become classic.
            return refused(ErrorCode.rebalance_in_progress)
        topics = self._world.topics
        asked = as_heartbeat(self.group, member_id, request, topics)
        if isinstance(asked, ErrorCode):
            return refused(asked)
        decision = yield from heartbeat(self.group, asked, topics, self._settings, now)
        error = decision.answer.error_code
        if error:
            return refused(ErrorCode.unknown_member_id if error is ErrorCode.fenced_member_epoch else error)
        joined = JoinAnswer(
            ErrorCode.none, member_id, decision.answer.member_epoch, CONSUMER, request.protocols[0].name
        )

        def then(now: Now) -> None:
            self.group.expect(member_id, now.monotonic_ms, anew=True)
            self._answer(partial(answer, joined))

        return Decided(decision.records, then)

    def sync(self, request: SyncRequest, answer: AnswerSync, now: Now) -> list[Effect]:
        if self._is_busy_with(request.member_id):
            return [Answer(partial(answer, SyncAnswer(ErrorCode.rebalance_in_progress)))]
        synced = classic_members.sync(self.group, request, self._world.name_of)
        if not synced.error_code:
            self.group.heard(request.member_id, self._settings.session_timeout_ms, now.monotonic_ms)
            self.group.answered(request.member_id)
        return [Answer(partial(answer, synced))]

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, now: Now) -> ErrorCode:
        if (error := self._removed.get(member_id)) is not None:
            return error
        self._look_at_topics()
        return classic_members.heartbeat(
            self.group, member_id, group_instance_id, generation_id, self._world.topics, self._settings, now
        )

    # Regular expressions

    def _resolve_if_due(self, sees: Sees, now: Now) -> None:
        may_resolve = not self._is_resolving and now.monotonic_ms >= self._not_before_ms
        if may_resolve and regexes.is_due(self.group, self._world.regex_refresh_interval_ms, now):
            self._is_resolving = True
            self._effects.append(Work(self._resolve(sees, now)))

    def _resolve(self, sees: Sees, now: Now) -> Generator[None, None, Sequence[Effect]]:
        patterns = {member.regex for member in self.group.members.values() if member.regex}
        names = []
        for name in [*self._world.all_topics()]:
            if sees(name):
                names.append(name)
            yield
        result = yield from regexes.resolve(patterns, names)
        return self._submit(
            GroupEvent(NO_MEMBER_ID, partial(self._decide_regexes, result), self._resolving_failed), now
        )

    def _decide_regexes(self, result: regexes.Resolved, now: Now) -> Generator[None, None, Decided]:
        yield

        def then(now: Now) -> None:
            self._is_resolving = False

        return Decided(regexes.resolved(self.group, result, self._world.topics, now), then)

    def _resolving_failed(self, error: ErrorCode) -> None:
        self._is_resolving = False
        self.group.has_new_topics = True  # so that it is due soon
        if not self._is_dead:
            _logger.warning(
                "group %s: not all topics of its regular expressions are stored: %s; it is tried again",
                self.group.group_id,
                error.name,
            )

    # Members that go without a heartbeat

    def leave(self, leavers: Sequence[Leaver], answer: AnswerLeave, now: Now) -> list[Effect]:
        return self._submit(
            GroupEvent(
                NO_MEMBER_ID,
                partial(self._decide_removal, leavers, answer),
                lambda error: self._answer(partial(answer, [error] * len(leavers))),
            ),
            now,
        )

    def _decide_removal(
        self, leavers: Sequence[Leaver], answer: AnswerLeave, now: Now
    ) -> Generator[None, None, Decided]:
        yield
        found = [self._leaver_id(leaver) for leaver in leavers]
        outcomes = [one if isinstance(one, ErrorCode) else ErrorCode.none for one in found]
        ids = dict.fromkeys(one for one in found if not isinstance(one, ErrorCode))
        records = remove(self.group, ids, self._world.topics) if ids else []
        return Decided(records, lambda now: self._answer(partial(answer, outcomes)))

    def _leaver_id(self, leaver: Leaver) -> str | ErrorCode:
        member_id, instance_id, _ = leaver
        if instance_id is None:
            return member_id if member_id in self.group.members else ErrorCode.unknown_member_id
        current_id = self.group.member_of(instance_id)
        if current_id is None:
            return ErrorCode.unknown_member_id
        return current_id if member_id in (NO_MEMBER_ID, current_id) else ErrorCode.fenced_instance_id

    @property
    def wake_ms(self) -> int | None:
        wake_ms = None if self._is_dead or self._is_expiring else self.group.wake_ms
        return None if wake_ms is None else max(wake_ms, self._not_before_ms)

    def tick(self, now: Now) -> list[Effect]:
        wake_ms = self.wake_ms
        if wake_ms is None or wake_ms > now.monotonic_ms:
            return []
        self._is_expiring = True
        return self._submit(GroupEvent(NO_MEMBER_ID, self._decide_expiry, self._expiry_failed), now)

    def _decide_expiry(self, now: Now) -> Generator[None, None, Decided]:
        yield

        def then(now: Now) -> None:
            self._is_expiring = False

        return Decided(expire(self.group, self._world.topics, now.monotonic_ms), then)

    def _expiry_failed(self, error: ErrorCode) -> None:
        self._is_expiring = False

    # What the coordinator asks

    @property
    def group_id(self) -> str:
        return self.group.group_id

    @property
    def assignor_name(self) -> str:
        return assignor_of(self.group, self._settings)

    @property
    def state_name(self) -> str:
        return self.group.state.value

    @property
    def is_empty(self) -> bool:
        return self.group.is_empty and self._current is None

    is_unused = is_empty

    def reads_topic(self, topic: str) -> bool:
        return self.group.reads_topic(topic)

    def retained_since(self, topic: str, committed_ms: int) -> int | None:
        return None if self.reads_topic(topic) else committed_ms

    def check_commit(self, committer: Committer, partitions: Collection[TopicPartition], now: Now) -> ErrorCode | None:
        """A commit does not prolong the member's session."""
        member = self.group.members.get(committer.member_id)
        if not committer.knows_epochs and member is not None and member.classic is None:
            return ErrorCode.unsupported_version
        return self._check(committer, partitions, is_transactional=False)

    def check_transactional_commit(
        self, committer: Committer, partitions: Collection[TopicPartition]
    ) -> ErrorCode | None:
        return self._check(committer, partitions, is_transactional=True)

    def _check(
        self, committer: Committer, partitions: Collection[TopicPartition], *, is_transactional: bool
    ) -> ErrorCode | None:
        topics = {name: self._world.topics(name) for name in {topic for topic, _ in partitions}}
        by_id = [(None if (topic := topics[name]) is None else topic.topic_id, index) for name, index in partitions]
        return self.group.check_commit(
            committer.member_id, committer.generation_id, by_id, is_transactional=is_transactional
        )

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode | None:
        return self.group.check_fetch(member_id, member_epoch)

    def tombstones(self) -> list[tuple[bytes, None]]:
        own = [(encode_key(record.key), None) for record in self.group.tombstones()] if self.group.epoch else []
        return [*((key, None) for key, value in self._leftovers if value is None), *own]


def _refused(request: HeartbeatRequest, error: ErrorCode) -> HeartbeatAnswer:
    text = "the log refuses it; the broker says why" if error is ErrorCode.unknown_server_error else None
    return HeartbeatAnswer(error, text, request.member_id, request.member_epoch)
