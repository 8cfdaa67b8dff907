"""The members of a consumer group as the coordinator sees them: one event after the other.

    event                                  while no other is under way    while another is
    a heartbeat that writes nothing        answered                       answered, unless one of its member waits
    a heartbeat that writes                decided, appended, applied     waits for its turn
    a member is removed, or its time ends  decided, appended, applied     waits for its turn
    topics of regular expressions          decided, appended, applied     waits for its turn

The group changes only by records that the log has. What the log refuses is dropped, so that nothing has to be undone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.group.consumer import regexes
from highwater.broker.group.consumer.events import (
    JOIN_EPOCH,
    ConsumerSettings,
    HeartbeatAnswer,
    HeartbeatRequest,
    Topics,
)
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.heartbeat import heartbeat
from highwater.broker.group.consumer.leaving import expire, leave, remove
from highwater.broker.group.consumer.schemas import GroupRecord, RecordKind, encode_key, encode_value
from highwater.broker.group.consumer.target import assignor_of
from highwater.broker.group.events import NO_MEMBER_ID, Answer, AnswerLeave, Committer, Effect, Leaver, Now, Store, Work
from highwater.broker.group.members import CONSUMER
from highwater.broker.slices import run
from highwater.common.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

_RETRY_MS: Final = 1000
"""After the log refused records, what comes by the clock waits so long: removals, and topics of regular expressions."""

AnswerHeartbeat = Callable[[HeartbeatAnswer], None]
Sees = Callable[[str], bool]
"""Whether the client of a member may know of a topic."""


class World(NamedTuple):
    """What all consumer groups of a broker know."""

    settings: Callable[[str], ConsumerSettings]
    """The settings of a group."""
    regex_refresh_interval_ms: int
    topics: Topics
    topic_names: Callable[[], Iterable[str]]
    topics_version: Callable[[], int]
    """Changes whenever a topic comes, goes or grows."""


class _Decided(NamedTuple):
    records: Sequence[GroupRecord]
    then: Callable[[Now], None]
    """What follows when the log has them."""


class _Event(NamedTuple):
    member_id: str
    """Whose event it is; NO_MEMBER_ID for nobody's in particular."""
    decide: Callable[[Now], Generator[None, None, _Decided]]
    fail: Callable[[ErrorCode], None]
    """What follows when the log refuses the records, or the group is here no longer."""


class ConsumerMembership:
    kind: Final = CONSUMER
    protocol_type: Final = CONSUMER

    def __init__(self, group: ConsumerGroup, world: World, leftovers: Sequence[tuple[bytes, None]] = ()) -> None:
        """`leftovers`: tombstones of the group that had this name before, to append with the first records."""
        self.group = group
        self._world = world
        self._leftovers = leftovers
        self._topics_version = -1
        self._current: _Event | None = None
        self._removed: frozenset[str] = frozenset()
        """The members that the records under way remove."""
        self._waiting: deque[_Event] = deque()
        self._is_expiring = False
        self._not_before_ms = 0
        self._is_resolving = False
        self._is_dead = False
        self._effects: list[Effect] = []

    @classmethod
    def restored(cls, group_id: str, world: World, records: Iterable[GroupRecord], now: Now) -> ConsumerMembership:
        """Return a group from its records in the log; its members have one session time to send again."""
        group, contradictions = ConsumerGroup.loaded(
            group_id, records, world.settings(group_id).session_timeout_ms, now.monotonic_ms
        )
        for text in contradictions:
            _logger.warning("group %s: %s", group_id, text)
        return cls(group, world)

    @property
    def _settings(self) -> ConsumerSettings:
        return self._world.settings(self.group.group_id)

    # Heartbeats

    def heartbeat(self, request: HeartbeatRequest, sees: Sees, answer: AnswerHeartbeat, now: Now) -> list[Effect]:
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
            _Event(
                request.member_id,
                partial(self._decide_heartbeat, request, sees, answer),
                lambda error: self._answer(partial(answer, _refused(request, error))),
            ),
            now,
        )

    def _is_busy_with(self, member_id: str) -> bool:
        """Whether the answer to this member depends on what is under way, or on an earlier request of its own."""
        events = (event for event in (self._current, *self._waiting) if event is not None)
        return member_id in self._removed or any(event.member_id == member_id for event in events)

    def _decide_heartbeat(
        self, request: HeartbeatRequest, sees: Sees, answer: AnswerHeartbeat, now: Now
    ) -> Generator[None, None, _Decided]:
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

        return _Decided(decision.records, then)

    # Regular expressions

    def _resolve_if_due(self, sees: Sees, now: Now) -> None:
        may_resolve = not self._is_resolving and now.monotonic_ms >= self._not_before_ms
        if may_resolve and regexes.is_due(self.group, self._world.regex_refresh_interval_ms, now):
            self._is_resolving = True
            self._effects.append(Work(self._resolve(sees, now)))

    def _resolve(self, sees: Sees, now: Now) -> Generator[None, None, Sequence[Effect]]:
        patterns = {member.regex for member in self.group.members.values() if member.regex}
        names = []
        for name in [*self._world.topic_names()]:
            if sees(name):
                names.append(name)
            yield
        result = yield from regexes.resolve(patterns, names)
        return self._submit(_Event(NO_MEMBER_ID, partial(self._decide_regexes, result), self._resolving_failed), now)

    def _decide_regexes(self, result: regexes.Resolved, now: Now) -> Generator[None, None, _Decided]:
        yield

        def then(now: Now) -> None:
            self._is_resolving = False

        return _Decided(regexes.resolved(self.group, result, self._world.topics, now), then)

    def _resolving_failed(self, error: ErrorCode) -> None:
        self._is_resolving = False
        self.group.has_new_topics = True  # so that it is due soon

    # Members that go without a heartbeat

    def leave(self, leavers: Sequence[Leaver], answer: AnswerLeave, now: Now) -> list[Effect]:
        return self._submit(
            _Event(
                NO_MEMBER_ID,
                partial(self._decide_removal, leavers, answer),
                lambda error: self._answer(partial(answer, [error] * len(leavers))),
            ),
            now,
        )

    def _decide_removal(
        self, leavers: Sequence[Leaver], answer: AnswerLeave, now: Now
    ) -> Generator[None, None, _Decided]:
        yield
        found = [self._leaver_id(leaver) for leaver in leavers]
        outcomes = [one if isinstance(one, ErrorCode) else ErrorCode.none for one in found]
        ids = dict.fromkeys(one for one in found if not isinstance(one, ErrorCode))
        records = remove(self.group, ids, self._world.topics) if ids else []
        return _Decided(records, lambda now: self._answer(partial(answer, outcomes)))

    def _leaver_id(self, leaver: Leaver) -> str | ErrorCode:
        by_instance = self.group.static_ids.get(leaver.group_instance_id or "")
        if leaver.member_id == NO_MEMBER_ID:
            return by_instance or ErrorCode.unknown_member_id
        if leaver.member_id not in self.group.members:
            return ErrorCode.unknown_member_id
        if leaver.group_instance_id is not None and by_instance != leaver.member_id:
            return ErrorCode.fenced_instance_id
        return leaver.member_id

    @property
    def wake_ms(self) -> int | None:
        wake_ms = None if self._is_dead or self._is_expiring else self.group.wake_ms
        return None if wake_ms is None else max(wake_ms, self._not_before_ms)

    def tick(self, now: Now) -> list[Effect]:
        wake_ms = self.wake_ms
        if wake_ms is None or wake_ms > now.monotonic_ms:
            return []
        self._is_expiring = True
        return self._submit(_Event(NO_MEMBER_ID, self._decide_expiry, self._expiry_failed), now)

    def _decide_expiry(self, now: Now) -> Generator[None, None, _Decided]:
        yield

        def then(now: Now) -> None:
            self._is_expiring = False

        return _Decided(expire(self.group, self._world.topics, now.monotonic_ms), then)

    def _expiry_failed(self, error: ErrorCode) -> None:
        self._is_expiring = False

    # One event after the other

    def _submit(self, event: _Event, now: Now) -> list[Effect]:
        if self._is_dead:
            event.fail(ErrorCode.not_coordinator)
        else:
            self._waiting.append(event)
            self._go_on(now)
        return self._take_effects()

    def _go_on(self, now: Now) -> None:
        if self._current is None and self._waiting:
            event = self._current = self._waiting.popleft()
            self._effects.append(Work(self._decide(event, now)))

    def _decide(self, event: _Event, now: Now) -> Generator[None, None, Sequence[Effect]]:
        self._look_at_topics()
        try:
            decided = yield from event.decide(now)
        except Exception:
            # A bug must not hold up the group for ever: the next event comes with the next request.
            self._ended(event, (), lambda _: None, ErrorCode.unknown_server_error, now)
            raise
        if self._is_dead:
            return ()
        if not decided.records:
            self._ended(event, *decided, ErrorCode.none, now)
            return self._take_effects()
        tombstones = (key for key, value in decided.records if value is None)
        self._removed = frozenset([key.name for key in tombstones if key.kind is RecordKind.MEMBER])
        records = [*self._leftovers, *map(_encoded, decided.records)]
        return [Store(records, partial(self._ended, event, *decided), is_patient=True)]

    def _ended(
        self, event: _Event, records: Sequence[GroupRecord], then: Callable[[Now], None], error: ErrorCode, now: Now
    ) -> None:
        if self._is_dead:
            return
        self._current, self._removed = None, frozenset()
        if error:
            self._not_before_ms = now.monotonic_ms + _RETRY_MS
            event.fail(error)
        else:
            if records:
                self._leftovers = ()
                self.group.apply(records, self._settings.session_timeout_ms, now.monotonic_ms)
            then(now)
        self._go_on(now)

    def stored(self, store: Store, error: ErrorCode, now: Now) -> list[Effect]:
        store.then(error, now)
        return self._take_effects()

    def die(self, error: ErrorCode) -> list[Effect]:
        self._is_dead = True
        for event in (self._current, *self._waiting):
            if event is not None:
                event.fail(error)
        self._current = None
        self._waiting.clear()
        return self._take_effects()

    def _answer(self, deliver: Callable[[], None]) -> None:
        self._effects.append(Answer(deliver))

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

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
        if not committer.knows_epochs and committer.member_id in self.group.members:
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
        own = self.group.tombstones() if self.group.epoch else []
        return [*self._leftovers, *((encode_key(record.key), None) for record in own)]

    def _look_at_topics(self) -> None:
        version = self._world.topics_version()
        if version != self._topics_version:
            self._topics_version = version
            self.group.is_metadata_stale = True


def _encoded(record: GroupRecord) -> tuple[bytes, bytes | None]:
    return encode_key(record.key), None if record.value is None else encode_value(record.value)


def _refused(request: HeartbeatRequest, error: ErrorCode) -> HeartbeatAnswer:
    return HeartbeatAnswer(error, None, request.member_id, request.member_epoch)
