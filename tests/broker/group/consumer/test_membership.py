"""Events of a consumer group wait for the log, one after the other; what the log refuses has not been."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.group.assignors.known import ASSIGNORS
from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.consumer import target
from highwater.broker.group.consumer.draft import has_other_topics
from highwater.broker.group.consumer.event_queue import World
from highwater.broker.group.consumer.events import ConsumerSettings, HeartbeatAnswer, HeartbeatRequest, KnownTopic
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.membership import ConsumerMembership, Sees
from highwater.broker.group.consumer.migration import MigrationPolicy
from highwater.broker.group.consumer.schemas import (
    ConsumerMember,
    GroupEpoch,
    GroupRecord,
    Key,
    RecordKind,
    decode_key,
    decode_value,
)
from highwater.broker.group.counters import GroupCounters
from highwater.broker.group.events import Answer, Effect, JoinAnswer, JoinRequest, Leaver, Now, Protocol, Store
from highwater.broker.group.members import GroupMember
from highwater.broker.group.rebalance import GroupSettings
from highwater.broker.slices import run
from tests.broker.group.consumer_bytes import assignment, subscription

TOPIC = UUID(int=1)
OTHER_TOPIC = UUID(int=2)
SETTINGS = ConsumerSettings(45_000, 5_000, 0, 1_000, ASSIGNORS)

Batches = Sequence[Sequence[tuple[bytes, bytes | None]]]


class Members:
    """A group whose appends end when they are told to."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.wall_clock_ahead_ms = 0
        self.partition_count = 2
        self.other_count = 0
        self.stores: list[Store] = []
        self.log: list[Sequence[tuple[bytes, bytes | None]]] = []
        """The batches that it took."""
        self.names: Sequence[str] = ("t", "u")
        self.world = World(
            lambda _: SETTINGS,
            600_000,
            self.topic,
            lambda: self.names,
            lambda: self.partition_count + self.other_count + len(self.names),
            {TOPIC: "t", OTHER_TOPIC: "u"}.get,
            GroupSettings(0, 1000, lambda: "new", GroupCounters()),
            MigrationPolicy.BIDIRECTIONAL,
        )
        self.members = ConsumerMembership(ConsumerGroup("g"), self.world)

    def topic(self, name: str) -> KnownTopic | None:
        if name == "t":
            return KnownTopic(TOPIC, self.partition_count)
        return KnownTopic(OTHER_TOPIC, self.other_count) if name == "u" and self.other_count else None

    @property
    def now(self) -> Now:
        return Now(self.now_ms, 1_700_000_000_000 + self.wall_clock_ahead_ms + self.now_ms)

    def do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                effect.deliver()
            elif isinstance(effect, Store):
                assert effect.is_patient
                self.stores.append(effect)
                assert len(self.stores) == 1, "one append is under way"
            else:
                self.do(run(effect.steps))

    def end_append(self, error: ErrorCode = ErrorCode.none) -> None:
        store = self.stores.pop()
        if not error:
            self.log.append(store.records)
        self.do(self.members.stored(store, error, self.now))

    def loaded(self, log: Batches) -> ConsumerMembership:
        """The group as another broker reads it from this log."""
        latest = dict(record for batch in log for record in batch)
        records = [
            GroupRecord(key, decode_value(key.kind, value))
            for raw_key, value in latest.items()
            if (key := decode_key(raw_key)) is not None and value is not None
        ]
        return ConsumerMembership.restored("g", self.world, records, self.now)

    def beat(self, member_id: str, epoch: int = 0, sees: Sees = lambda _: True, **fields: Any) -> list[HeartbeatAnswer]:
        """What the member is answered, now or later."""
        joining: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topics": frozenset(["t"]), "owned": {}}
        answers: list[HeartbeatAnswer] = []
        request = HeartbeatRequest(member_id, epoch, **((joining if epoch == 0 else {}) | fields))
        self.do(self.members.consumer_heartbeat(request, sees, answers.append, self.now))
        return answers

    def advance(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        while (wake_ms := self.members.wake_ms) is not None and wake_ms <= self.now_ms:
            self.do(self.members.tick(self.now))


@pytest.fixture
def group() -> Members:
    """A group with the member a, that has both partitions."""
    group = Members()
    joined = group.beat("a")
    assert not joined
    group.end_append()
    assert (joined[0].member_epoch, joined[0].assignment) == (1, {TOPIC: frozenset([0, 1])})
    return group


def test_a_heartbeat_that_writes_nothing_does_not_wait(group: Members) -> None:
    joining = group.beat("b")
    assert group.stores
    assert [answer.member_epoch for answer in group.beat("a", 1)] == [1]
    assert not joining
    group.end_append()
    assert joining[0].member_epoch == 2


def test_what_writes_waits_for_its_turn(group: Members) -> None:
    first, second = group.beat("b"), group.beat("c")
    group.end_append()
    assert (len(first), len(second)) == (1, 0)
    group.end_append()
    assert second[0].member_epoch == 3


def test_a_member_waits_behind_itself(group: Members) -> None:
    group.beat("b")
    leaving = group.beat("a", -1)
    late = group.beat("a", 1)
    group.end_append()
    assert not leaving
    assert not late
    group.end_append()
    assert leaving[0].member_epoch == -1
    assert late[0].error_code is ErrorCode.unknown_member_id


def test_a_member_that_sends_again_waits_once(group: Members) -> None:
    """As it does when its connection or its patience ends before the log has what is under way."""
    group.beat("b")
    first, other, *later = group.beat("c"), group.beat("d"), group.beat("c"), group.beat("c")
    for dropped in (first, later[0]):
        assert [answer.error_code for answer in dropped] == [ErrorCode.coordinator_load_in_progress]
    group.end_append()
    assert not other
    group.end_append()
    assert (later[1][0].error_code, later[1][0].member_epoch) == (ErrorCode.none, 3), "in the place of the first"
    group.end_append()
    assert other[0].member_epoch == 4
    assert not group.stores


def test_a_request_to_leave_is_not_dropped_for_a_heartbeat(group: Members) -> None:
    group.beat("b")
    left = [group.beat("a", -1)]
    again = [group.beat("a") for _ in range(3)]
    left += [group.beat("a", -1) for _ in range(3)]
    group.end_append()
    group.end_append()
    assert not group.stores
    assert [answers[0].error_code for answers in again] == [ErrorCode.coordinator_load_in_progress] * 3
    assert [answers[0].error_code for answers in left] == [
        *[ErrorCode.coordinator_load_in_progress] * 3,
        ErrorCode.none,
    ]
    assert set(group.members.group.members) == {"b"}


@pytest.mark.parametrize("error", [ErrorCode.not_coordinator, ErrorCode.coordinator_not_available])
def test_what_the_log_refuses_has_not_been(group: Members, error: ErrorCode) -> None:
    first, second = group.beat("b"), group.beat("c")
    group.end_append(error)
    assert (first[0].error_code, first[0].assignment) == (error, None)
    assert set(group.members.group.members) == {"a"}
    group.end_append()
    assert (second[0].error_code, second[0].member_epoch) == (ErrorCode.none, 2)
    assert set(group.members.group.members) == {"a", "c"}


def test_partitions_are_free_only_when_the_log_has_it(group: Members) -> None:
    group.beat("b")
    group.end_append()
    group.beat("a", 1)
    group.end_append()
    (kept,) = group.members.group.current["a"].assigned[TOPIC]
    given_up = group.beat("a", 1, owned={TOPIC: frozenset([kept])})
    waiting = group.beat("b", 2)
    assert not given_up
    assert waiting[0].assignment is None
    group.end_append(ErrorCode.coordinator_not_available)
    assert group.beat("b", 2)[0].assignment is None
    group.beat("a", 1, owned={TOPIC: frozenset([kept])})
    group.end_append()
    told = group.beat("b", 2)
    group.end_append()
    assert told[0].assignment == {TOPIC: frozenset([1 - kept])}


class Vast(dict[Any, Any]):
    """A mapping that nobody may go over."""

    def __iter__(self) -> Any:
        raise AssertionError("somebody goes over it")

    keys = values = items = __iter__


def test_a_heartbeat_that_writes_goes_over_no_other_member(group: Members) -> None:
    """A rebalance of thousands of members has as many of them."""
    group.beat("b", instance_id="i")
    group.end_append()
    group.beat("a", 1)
    group.end_append()
    of_group = group.members.group
    (kept,) = of_group.current["a"].assigned[TOPIC]
    for name in ("members", "current", "targets", "static_ids"):
        setattr(of_group, name, Vast(getattr(of_group, name)))
    of_group.owners[TOPIC] = Vast(of_group.owners[TOPIC])
    given_up = group.beat("a", 1, owned={TOPIC: frozenset([kept])})
    group.end_append()
    given = group.beat("b", 2)
    group.end_append()
    assert given_up[0].member_epoch == 2
    assert given[0].assignment == {TOPIC: frozenset([1 - kept])}


def test_members_whose_time_is_up_go_when_the_log_takes_it(group: Members) -> None:
    def wake_ms() -> int | None:
        return group.members.wake_ms

    group.advance(45_000)
    assert wake_ms() is None, "it is under way"
    group.end_append(ErrorCode.coordinator_not_available)
    assert wake_ms() == 46_000, "not at once again"
    group.advance(1_000)
    group.end_append()
    assert group.members.is_empty
    assert wake_ms() is None


def test_a_member_is_not_welcomed_while_it_is_removed(group: Members) -> None:
    group.advance(45_000)
    late = group.beat("a", 1)
    assert not late
    group.end_append()
    assert late[0].error_code is ErrorCode.unknown_member_id


def test_a_member_that_is_heard_in_time_stays(group: Members) -> None:
    group.advance(44_999)
    assert group.beat("a", 1)
    group.advance(1)
    assert not group.stores
    assert group.members.wake_ms == 89_999


def test_a_bug_does_not_hold_up_the_group(group: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("highwater.broker.group.consumer.membership.heartbeat", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            group.beat("b")
    joined = group.beat("b")
    group.end_append()
    assert joined[0].error_code is ErrorCode.none


def test_what_cannot_be_encoded_does_not_hold_up_the_group(group: Members) -> None:
    with pytest.raises(struct.error):
        group.beat(40_000 * "b")
    joined = group.beat("c")
    group.end_append()
    assert joined[0].error_code is ErrorCode.none


def test_who_waits_is_answered_when_the_group_goes_elsewhere(group: Members) -> None:
    removed: list[ErrorCode] = []
    first, second = group.beat("b"), group.beat("c")
    group.do(group.members.leave([Leaver("a")], removed.extend, group.now))
    group.do(group.members.die(ErrorCode.not_coordinator))
    assert [answer.error_code for answer in (*first, *second)] == [ErrorCode.not_coordinator] * 2
    assert removed == [ErrorCode.not_coordinator]
    group.end_append()
    assert set(group.members.group.members) == {"a"}
    assert group.beat("a", 1)[0].error_code is ErrorCode.not_coordinator
    assert group.members.wake_ms is None


def test_a_topic_that_changed_is_seen_though_the_log_refused_it_first(group: Members) -> None:
    group.partition_count = 3
    group.beat("a", 1)
    group.end_append(ErrorCode.coordinator_not_available)
    told = group.beat("a", 1)
    group.end_append()
    assert told[0].assignment == {TOPIC: frozenset([0, 1, 2])}


def test_a_topic_that_grows_during_an_append_is_seen_later(group: Members) -> None:
    """Beside the records under way a heartbeat does not tell, as the group does not read the topic yet."""
    group.other_count = 1
    group.beat("a", 1)
    joining = group.beat("b", topics=frozenset(["u"]))
    group.other_count = 4
    assert group.beat("a", 1)
    group.end_append()
    grown = group.beat("b", joining[0].member_epoch)
    group.end_append()
    assert grown[0].assignment == {OTHER_TOPIC: frozenset(range(4))}


def test_a_topic_may_go_while_a_target_is_computed() -> None:
    group = ConsumerGroup("g")
    records = [
        GroupRecord(Key(RecordKind.MEMBER, "g", f"m{index}"), ConsumerMember(topics=frozenset(["t"])))
        for index in range(600)
    ]
    group.apply([*records, GroupRecord(Key(RecordKind.GROUP, "g"), GroupEpoch(1))], 45_000, 0)
    topics = {"t": KnownTopic(TOPIC, 2)}
    steps = target.compute(group, topics.get, SETTINGS, 0)
    next(steps)
    next(steps)
    del topics["t"]
    assert len(run(steps)) == 601


def test_members_whose_time_is_up_together_go_in_batches_that_the_log_takes() -> None:
    group = Members()
    for index in range(10):
        group.beat(f"{index}" + 30_000 * "x")
        group.end_append()
    group.advance(45_000)
    while group.stores:
        assert sum(len(key) for key, _ in group.stores[0].records) < 500_000
        group.end_append()
        group.advance(0)
    assert group.members.is_empty


def test_who_is_no_member_does_not_resolve_with_what_it_may_see(group: Members) -> None:
    group.beat("a", 1, regex="t.*")
    group.end_append()
    group.end_append()
    group.other_count = 1
    group.beat("a", 1)
    group.end_append()
    group.advance(10_000)
    assert group.beat("b", 7, sees=lambda _: False)[0].error_code is ErrorCode.unknown_member_id
    assert not group.stores


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_classic_member_is_not_welcomed_while_it_is_removed(group: Members, is_replaced: bool) -> None:
    """An instance that somebody else takes is told so, or it would take it back."""
    joined: list[JoinAnswer] = []
    protocols = (Protocol("range", subscription(["t"])),)
    request = JoinRequest("", "consumer", protocols, 50_000, 60_000, "i", "c", "/h")
    group.do(group.members.join(request, joined.append, group.now))
    group.end_append()
    ((_, member_id, generation_id, *_),) = joined
    assert group.members.heartbeat(member_id, "i", generation_id, group.now) is ErrorCode.none
    if is_replaced:
        group.beat("b", instance_id="i")
    else:
        group.do(group.members.leave([Leaver(member_id)], lambda _: None, group.now))
    error = ErrorCode.fenced_instance_id if is_replaced else ErrorCode.unknown_member_id
    assert group.members.heartbeat(member_id, "i", generation_id, group.now) is error
    group.end_append()
    assert group.members.heartbeat(member_id, "i", generation_id, group.now) is error


def test_an_instance_that_comes_back_with_what_it_is_to_give_up_has_it_still() -> None:
    """A cooperative member of the classic protocol that has lost its member id, but not its partitions."""
    group = Members()

    def join(member_id: str, owned: dict[str, list[int]]) -> JoinAnswer:
        joined: list[JoinAnswer] = []
        protocols = (Protocol("cooperative-sticky", subscription(["t"], owned)),)
        request = JoinRequest(member_id, "consumer", protocols, 50_000, 60_000, "i", "c", "/h")
        group.do(group.members.join(request, joined.append, group.now))
        while group.stores:
            group.end_append()
        return joined[0]

    group.beat("b", topics=frozenset(["u"]))
    group.end_append()
    first = join("", {})
    group.beat("b")
    group.end_append()
    join(first.member_id, {"t": [0, 1]})
    before = group.members.group.current[first.member_id]
    assert (len(before.assigned[TOPIC]), len(before.pending[TOPIC])) == (1, 1)
    group.world = group.world._replace(classic=group.world.classic._replace(new_id=lambda: "newer"))
    group.members._world = group.world
    again = join("", {"t": [0, 1]})
    assert again.member_id != first.member_id
    after = group.members.group.current[again.member_id]
    assert (after.assigned, after.pending) == (before.assigned, before.pending)
    assert group.loaded(group.log).group.current == group.members.group.current


def test_an_empty_instance_id_is_not_that_of_members_without_one(group: Members) -> None:
    joined: list[JoinAnswer] = []
    protocols = (Protocol("range", subscription(["t"])),)
    request = JoinRequest("", "consumer", protocols, 50_000, 60_000, "", "c", "/h")
    group.do(group.members.join(request, joined.append, group.now))
    group.end_append()
    group.beat("b")
    group.end_append()
    assert group.members.group.members.keys() == {"a", "b", joined[0].member_id}


def test_who_may_be_removed_by_what_name(group: Members) -> None:
    group.beat("b", instance_id="i")
    group.end_append()
    for member_id, instance_id, error in (
        ("nobody", None, ErrorCode.unknown_member_id),
        ("", None, ErrorCode.unknown_member_id),
        ("", "j", ErrorCode.unknown_member_id),
        ("a", "j", ErrorCode.unknown_member_id),
        ("a", "i", ErrorCode.fenced_instance_id),
        ("nobody", "i", ErrorCode.fenced_instance_id),
    ):
        outcomes: list[ErrorCode] = []
        group.do(group.members.leave([Leaver(member_id, instance_id)], outcomes.extend, group.now))
        assert outcomes == [error], (member_id, instance_id)
    for member_id, instance_id in (("b", "i"), ("a", None)):
        group.do(group.members.leave([Leaver(member_id, instance_id)], lambda _: None, group.now))
        group.end_append()
        assert member_id not in group.members.group.members


@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_rebalance_that_is_under_way_goes_on_in_a_consumer_group(is_under_way: bool) -> None:
    """Its member has asked for other topics than those that it was given partitions of."""
    request = JoinRequest("m", "consumer", (Protocol("range", subscription(["t"])),), 10_000, 60_000, None, "c", "/h")
    member = GroupMember("m", request)
    member.assignment = assignment({"t": [0, 1]})
    group = Members()
    classic = ClassicGroup.of_members("g", GroupSettings(0, 1000, str, GroupCounters()), 7, [member], group.now)
    if is_under_way:
        classic.join(request._replace(protocols=(Protocol("range", subscription(["t", "u"])),)), print, group.now)
    upgraded = ConsumerMembership.upgraded(classic, group.world, group.now)
    assert isinstance(upgraded, ConsumerMembership)
    upgraded.group.is_metadata_stale = True
    assert has_other_topics(upgraded.group, group.topic) == is_under_way


def test_a_classic_group_that_cannot_become_a_consumer_group_goes_on() -> None:
    """The log refuses the change, for example because the batch is too large."""
    protocols = (Protocol("range", subscription(["t"])),)
    request = JoinRequest("m", "consumer", protocols, 10_000, 60_000, None, "c", "/h")
    member = GroupMember("m", request)
    member.assignment = assignment({"t": [0, 1]})
    group = Members()
    classic = ClassicGroup.of_members("g", GroupSettings(0, 1000, str, GroupCounters()), 7, [member], group.now)
    upgraded = ConsumerMembership.upgraded(classic, group.world, group.now)
    assert isinstance(upgraded, ConsumerMembership)
    group.members = upgraded
    joining = group.beat("b")
    keys = [(decode_key(key) or classic, value is None) for key, value in group.stores[0].records]
    assert keys[0] == (classic, True), "the classic group is removed"
    assert not any(is_gone for _, is_gone in keys[1:])
    group.end_append(ErrorCode.message_too_large)
    assert joining[0].error_code is ErrorCode.message_too_large
    assert upgraded.successor is not None
    after = upgraded.successor.group
    assert (after.generation_id, [(each.member_id, each.assignment) for each in after.members]) == (
        7,
        [("m", member.assignment)],
    )


def test_who_sends_what_the_log_never_takes_is_told(group: Members) -> None:
    joining = group.beat("b")
    group.end_append(ErrorCode.unknown_server_error)
    assert joining[0].error_message == "the log refuses it; the broker says why"


def test_topics_of_regular_expressions_that_the_log_refuses_come_later(
    group: Members, caplog: pytest.LogCaptureFixture
) -> None:
    group.beat("a", 1, regex="t.*")
    group.end_append()
    group.end_append(ErrorCode.message_too_large)
    assert "group g: not all topics of its regular expressions are stored: message_too_large" in caplog.text
    group.beat("a", 1)
    assert not group.stores
    group.advance(1_000)
    group.beat("a", 1)
    group.end_append()
    assert group.members.group.regexes.keys() == {"t.*"}


def test_a_clock_that_is_set_back_has_regular_expressions_resolved_once() -> None:
    group = Members()
    epochs = dict.fromkeys("ab", 0)

    def beat(**patterns: str) -> int:
        """Returns how many batches that wrote."""
        before = len(group.log)
        for member_id, epoch in epochs.items():
            fields: dict[str, Any] = {"topics": None, "regex": patterns[member_id]} if patterns else {}
            answers = group.beat(member_id, epoch, **fields)
            while group.stores:
                group.end_append()
            epochs[member_id] = answers[0].member_epoch
        return len(group.log) - before

    beat(a="t.*", b="u.*")
    for _ in range(3):
        group.advance(10_000)
        beat()
    assert group.members.group.regexes.keys() == {"t.*", "u.*"}
    group.wall_clock_ahead_ms = -3_600_000
    assert [beat() for _ in range(5)] == [1, 0, 0, 0, 0]
