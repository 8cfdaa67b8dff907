"""The events of a consumer group, one after the other: decided, appended, applied.

A client that does not get its answer in time sends again: what waits of its member then is dropped, and the answer to
that is to send again. So two requests of a member wait at most, as one to leave is dropped for another one to leave
only. Thousands of members may wait at once, so that nothing goes over all that waits.

The group changes only by records that the log has. What the log refuses is dropped, so that nothing has to be undone.
What does not fit into one batch is written in several (see `parts`), with no other event between them.

A removal that leaves members of the classic protocol only has a classic group as `successor` (see `migration`): the
last of its batches removes the whole group. So has the change of a classic group that the log refuses.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.consumer.classic_members import NameOfTopic
from highwater.broker.group.consumer.events import ConsumerSettings, Topics
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.migration import MigrationPolicy, downgraded
from highwater.broker.group.consumer.parts import MOST_BYTES_OF_CHANGE, Encoded, Part, encoded, in_parts, size_of
from highwater.broker.group.consumer.schemas import ConsumerMember, GroupRecord, RecordKind, Value
from highwater.broker.group.events import NO_MEMBER_ID, Answer, AnswerJoin, Effect, JoinRequest, Now, Store, Work
from highwater.broker.group.rebalance import GroupSettings

_logger = logging.getLogger(__name__)

_RETRY_MS: Final = 1000
"""After the log refused records, what comes by the clock waits so long: removals, and topics of regular expressions."""


class World(NamedTuple):
    """What all consumer groups of a broker know."""

    settings: Callable[[str], ConsumerSettings]
    """The settings of a group."""
    regex_refresh_interval_ms: int
    topics: Topics
    all_topics: Callable[[], Iterable[str]]
    """The names of the topics that there are."""
    topics_version: Callable[[], int]
    """Changes whenever a topic comes, goes or grows."""
    name_of: NameOfTopic
    classic: GroupSettings
    """The settings of classic groups."""
    policy: MigrationPolicy


class Decided(NamedTuple):
    records: Sequence[GroupRecord]
    then: Callable[[Now], None]
    """What follows when the log has them."""


class GroupEvent(NamedTuple):
    member_id: str
    """Whose event it is; NO_MEMBER_ID for nobody's in particular."""
    decide: Callable[[Now], Generator[None, None, Decided]]
    fail: Callable[[ErrorCode], None]
    """What follows when the log refuses the records, or the group is here no longer."""
    join: tuple[JoinRequest, AnswerJoin] | None = None
    """What the event is to a classic group."""
    is_leaving: bool = False
    """Whether the member itself asks to leave."""


class Successor(NamedTuple):
    """The group that the log has now in place of this one."""

    group: ClassicGroup
    join: tuple[JoinRequest, AnswerJoin] | None
    """Who is to join it first."""


class EventQueue:
    def __init__(self, group: ConsumerGroup, world: World, leftovers: Sequence[Encoded] = ()) -> None:
        """`leftovers`: records that the log lacks, to append with the first ones.

        They are tombstones of the group that had this name before, and, if it had members, those of this group.
        """
        self.group = group
        self.successor: Successor | None = None
        self._world = world
        self._leftovers = leftovers
        self._topics_version = -1
        self._current: GroupEvent | None = None
        self._removed: Mapping[str, ErrorCode] = {}
        """The members that the records under way remove, and the answer to each until then."""
        self._leaves_classic_only = False
        """Whether the records under way leave members, and none of the consumer protocol."""
        self._waiting: OrderedDict[Hashable, GroupEvent] = OrderedDict()
        """The key is the member and whether it leaves; an event of nobody's has one of its own."""
        self._not_before_ms = 0
        self._is_dead = False
        self._effects: list[Effect] = []

    @property
    def _settings(self) -> ConsumerSettings:
        return self._world.settings(self.group.group_id)

    def _submit(self, event: GroupEvent, now: Now) -> list[Effect]:
        if self._is_dead:
            event.fail(ErrorCode.not_coordinator)
        else:
            self._line_up(event)
            self._go_on(now)
        return self._take_effects()

    def _line_up(self, event: GroupEvent) -> None:
        place: Hashable = (event.member_id, event.is_leaving)
        if event.member_id == NO_MEMBER_ID:
            place = object()
        dropped = [self._waiting.get(place)]
        if event.is_leaving:
            dropped.append(self._waiting.pop((event.member_id, False), None))
        for earlier in dropped:
            if earlier is not None:
                earlier.fail(ErrorCode.coordinator_load_in_progress)
        self._waiting[place] = event

    def _is_waiting(self, member_id: str) -> bool:
        return (member_id, True) in self._waiting or (member_id, False) in self._waiting

    def _go_on(self, now: Now) -> None:
        if self._current is None and self._waiting:
            _, event = self._waiting.popitem(last=False)
            self._current = event
            self._effects.append(Work(self._decide(event, now)))

    def _decide(self, event: GroupEvent, now: Now) -> Generator[None, None, Sequence[Effect]]:
        self._look_at_topics()
        try:
            decided = yield from event.decide(now)
            parts = yield from in_parts(self.group, decided.records, self._leftovers)
        except Exception:
            # A bug must not hold up the group for ever: the next event comes with the next request.
            self._ended(event, lambda _: None, ErrorCode.unknown_server_error, now)
            raise
        if self._is_dead:
            return ()
        members = {key.name: value for key, value in decided.records if key.kind is RecordKind.MEMBER}
        self._removed = self._removed_by(members)
        self._leaves_classic_only = bool(self._removed) and self._are_classic_after(members)
        self._store_next(event, deque(parts), decided.then, now)
        return self._take_effects()

    def _store_next(self, event: GroupEvent, left: deque[Part], then: Callable[[Now], None], now: Now) -> None:
        if not left:
            self._ended(event, then, ErrorCode.none, now)
            return
        if len(left) == 1 and (change := self._change(now)) is not None:
            classic, records = change
            self._effects.append(Store(records, partial(self._has_successor, event, then, classic), is_patient=True))
            return
        part = left.popleft()

        def stored(error: ErrorCode, now: Now) -> None:
            if error:
                self._ended(event, then, error, now)
            elif not self._is_dead:
                self._apply(part.records, now)
                self._store_next(event, left, then, now)

        self._effects.append(Store(part.encoded, stored, is_patient=True))

    def _apply(self, records: Sequence[GroupRecord], now: Now) -> None:
        self._leftovers = ()
        self._world.classic.counters.consumer_rebalances += any(
            key.kind is RecordKind.GROUP and value is not None for key, value in records
        )
        self.group.apply(records, self._settings.session_timeout_ms, now.monotonic_ms)

    def _removed_by(self, members: Mapping[str, Value | None]) -> dict[str, ErrorCode]:
        taken = [member.instance_id for member in members.values() if isinstance(member, ConsumerMember)]
        replaced = {self.group.member_of(instance_id) for instance_id in taken}
        return {
            id_: ErrorCode.fenced_instance_id if id_ in replaced else ErrorCode.unknown_member_id
            for id_, value in members.items()
            if value is None
        }

    def _are_classic_after(self, members: Mapping[str, Value | None]) -> bool:
        """Whether there are members after these records of members, and all are of the classic protocol."""
        others = (member for id_, member in self.group.members.items() if id_ not in members)
        is_left = False
        for member in chain(filter(None, members.values()), others):
            if not isinstance(member, ConsumerMember) or member.classic is None:
                return False
            is_left = True
        return is_left

    def _change(self, now: Now) -> tuple[ClassicGroup, list[Encoded]] | None:
        """The classic group that is left, and the records that make it so; None for a consumer group."""
        if not self._leaves_classic_only or not self._world.policy.may_downgrade:
            return None
        classic = downgraded(self.group, self._removed, self._world.classic, self._world.name_of, now)
        if classic is None:
            return None
        records = [*self._leftovers, *map(encoded, self.group.tombstones()), classic.first_record]
        if (size := size_of(records)) > MOST_BYTES_OF_CHANGE:
            _logger.warning(
                "group %s: has classic members only and remains a consumer group: the change takes %d bytes in the "
                "log, and may take %d",
                self.group.group_id,
                size,
                MOST_BYTES_OF_CHANGE,
            )
            return None
        return classic, records

    def _has_successor(
        self, event: GroupEvent, then: Callable[[Now], None], classic: ClassicGroup, error: ErrorCode, now: Now
    ) -> None:
        if error:
            self._ended(event, then, error, now)
        elif not self._is_dead:
            self.successor = Successor(classic, event.join)
            if event.join is None:
                then(now)
            self._current = None

    def _ended(self, event: GroupEvent, then: Callable[[Now], None], error: ErrorCode, now: Now) -> None:
        if self._is_dead:
            return
        self._current, self._removed = None, {}
        if error:
            self._not_before_ms = now.monotonic_ms + _RETRY_MS
            event.fail(error)
        else:
            then(now)
        self._go_on(now)

    def stored(self, store: Store, error: ErrorCode, now: Now) -> list[Effect]:
        store.then(error, now)
        if error and not self._is_dead and any(value is not None for _, value in self._leftovers):
            # The log has the classic group that this one was. It goes on, so that nothing has come of the change.
            classic = downgraded(self.group, (), self._world.classic, self._world.name_of, now)
            self.successor = None if classic is None else Successor(classic, None)
        return self._take_effects()

    def die(self, error: ErrorCode) -> list[Effect]:
        self._is_dead = True
        for event in (self._current, *self._waiting.values()):
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

    def _look_at_topics(self) -> None:
        version = self._world.topics_version()
        if version != self._topics_version:
            self._topics_version = version
            self.group.is_metadata_stale = True
