"""What does not fit into one batch of the log is written in several; a broker may end between any two of them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.consumer import event_queue, parts
from highwater.broker.group.consumer.events import ConsumerSettings, KnownTopic
from highwater.broker.group.consumer.group import ConsumerGroup, ConsumerGroupState
from highwater.broker.group.consumer.membership import ConsumerMembership
from highwater.broker.group.consumer.parts import encoded, in_parts
from highwater.broker.group.consumer.schemas import (
    ConsumerMember,
    GroupEpoch,
    GroupRecord,
    Key,
    RecordKind,
    TargetEpoch,
    decode_key,
)
from highwater.broker.group.counters import GroupCounters
from highwater.broker.group.events import JoinAnswer, JoinRequest, Leaver, Now, Protocol
from highwater.broker.group.kept import kept_groups
from highwater.broker.group.members import GroupMember
from highwater.broker.group.rebalance import GroupSettings
from highwater.broker.slices import run
from highwater.broker.topics.settled_records import SettledRecords
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.group.consumer.test_membership import SETTINGS, Batches, Members
from tests.broker.group.consumer_bytes import assignment, subscription

BATCH = 1024 * 1024
"""As much as a log takes by default."""
LONG = "x" * 200


class ManyTopics(Members):
    """A group in a cluster with many topics of long names, of one partition each."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.names = [f"{index:03}-{LONG}" for index in range(count)]

    def topic(self, name: str) -> KnownTopic | None:
        return KnownTopic(UUID(int=1 + self.names.index(name)), 1) if name in self.names else None

    def end_appends(self) -> None:
        while self.stores:
            self.end_append()

    def become_stable(self) -> None:
        """All members send what clients send, until nothing changes any more."""
        current = self.members.group.current
        for _ in range(5):
            self.now_ms += 10_000
            for member_id in list(current):
                owned = {topic: frozenset(indexes) for topic, indexes in current[member_id].assigned.items()}
                answers = self.beat(member_id, current[member_id].epoch, owned=owned)
                self.end_appends()
                assert answers[0].error_code is ErrorCode.none
        assert self.members.group.state in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)

    def take_over(self, log: Batches) -> None:
        """Another broker reads the group; this is all that the log has."""
        self.members = self.loaded(log)
        self.log = list(log)


def patterns(count: int) -> list[str]:
    """Different ones, which all match each name."""
    return [f".*{index:04}?.*|.*" for index in range(count)]


def test_topics_of_a_thousand_regular_expressions_reach_the_log() -> None:
    group = ManyTopics(200)
    for index, pattern in enumerate(patterns(1000)):
        group.beat(f"m{index}", topics=None, regex=pattern)
        group.end_append()
        if index == 0:
            group.end_appends()  # the first of a group is resolved at once
    group.advance(10_000)
    resolve(group)
    before = len(group.log)
    group.end_appends()
    batches = group.log[before:]
    assert len(batches) > 10
    assert max(sum(len(key) + len(value or b"") for key, value in batch) for batch in batches) < BATCH
    assert len(group.members.group.regexes) == 1000
    assert all(len(resolved.topics) == 200 for resolved in group.members.group.regexes.values())
    assert [RecordKind.GROUP in kinds(batch) for batch in batches] == [True] + [False] * (len(batches) - 1)


@pytest.fixture
def grown() -> ManyTopics:
    """A group whose regular expressions match more topics since the last heartbeat."""
    group = ManyTopics(30)
    all_names = group.names
    group.names = all_names[:10]
    members = [f"m{index}" for index in range(100)]
    for member_id, pattern in zip(members, patterns(100), strict=True):
        group.beat(member_id, topics=None, regex=pattern)
        group.end_appends()
    group.become_stable()
    group.names = all_names
    group.now_ms += 10_000
    return group


def resolve(group: ManyTopics) -> None:
    """A heartbeat, and the first batch of what comes of it waits for the log."""
    group.beat("m0", group.members.group.current["m0"].epoch)
    while RecordKind.REGEX not in kinds(group.stores[0].records):
        group.end_append()


def kinds(batch: Iterable[tuple[bytes, bytes | None]]) -> set[RecordKind]:
    return {key.kind for raw_key, _ in batch if (key := decode_key(raw_key)) is not None}


def test_a_group_is_whole_after_each_part_of_what_regular_expressions_match(grown: ManyTopics) -> None:
    group = grown
    resolve(group)
    before, log = len(group.log), group.log
    group.end_appends()
    assert len(log) - before > 3
    for batches in range(before, len(log) + 1):
        group.take_over(log[:batches])
        group.become_stable()
        assert all(len(resolved.topics) == 30 for resolved in group.members.group.regexes.values())
        assert len(group.members.group.owners) == 30, batches - before


def test_nobody_decides_between_two_parts(grown: ManyTopics) -> None:
    group = grown
    resolve(group)
    before = len(group.log)
    joined = group.beat("new", topics=None, regex=".*")
    group.end_appends()
    assert joined[0].error_code is ErrorCode.none
    order = [RecordKind.REGEX in kinds(batch) for batch in group.log[before:]]
    assert order.count(True) > 3
    assert order == sorted(order, reverse=True)


def test_what_the_log_refuses_of_a_part_is_resolved_again(grown: ManyTopics) -> None:
    group = grown
    resolve(group)
    group.end_append()
    group.end_append(ErrorCode.message_too_large)
    group.end_appends()
    assert {len(resolved.topics) for resolved in group.members.group.regexes.values()} == {10, 30}
    group.become_stable()
    assert {len(resolved.topics) for resolved in group.members.group.regexes.values()} == {30}
    assert len(group.members.group.owners) == 30


@pytest.fixture
def leavers() -> list[Leaver]:
    return [Leaver(f"{index:02}" + 20_000 * "x") for index in range(20)]


@pytest.fixture
def full(leavers: list[Leaver]) -> ManyTopics:
    """A group of members with long names, as many take more than a batch has room for, and of one that stays."""
    group = ManyTopics(30)
    for member_id in (leavers[0].member_id, "stays", *(leaver.member_id for leaver in leavers[1:])):
        group.beat(member_id, topics=frozenset(group.names))
        group.end_appends()
    group.become_stable()
    return group


@pytest.mark.parametrize("staying", [1, 0])
def test_a_group_is_whole_after_each_part_of_a_removal(full: ManyTopics, leavers: list[Leaver], staying: int) -> None:
    if not staying:
        leavers.append(Leaver("stays"))
    answers: list[ErrorCode] = []
    before, log = len(full.log), full.log
    full.do(full.members.leave(leavers, answers.extend, full.now))
    assert full.beat(leavers[-1].member_id, full.members.group.epoch) == [], "it is about to go"
    full.end_appends()
    assert answers == [ErrorCode.none] * len(leavers)
    assert len(full.members.group.members) == staying
    assert len(log) - before > 3
    assert max(sum(len(key) for key, _ in batch) for batch in log[before:]) < BATCH // 2
    for batches in range(before, len(log) + 1):
        full.take_over(log[:batches])
        left = len(full.members.group.members)
        assert left > staying or batches == len(log)
        full.become_stable()
        assert len(full.members.group.members) == left
        assert len(full.members.group.owners) == (30 if left else 0), batches - before


def test_a_removal_that_the_log_refuses_in_the_middle_can_be_asked_for_again(
    full: ManyTopics, leavers: list[Leaver]
) -> None:
    answers: list[ErrorCode] = []
    full.do(full.members.leave(leavers, answers.extend, full.now))
    full.end_append()
    full.end_append(ErrorCode.coordinator_not_available)
    assert answers == [ErrorCode.coordinator_not_available] * len(leavers)
    assert 1 < len(full.members.group.members) < 1 + len(leavers)
    full.become_stable()
    assert len(full.members.group.owners) == 30
    full.do(full.members.leave(leavers, answers.extend, full.now))
    full.end_appends()
    assert set(answers[len(leavers) :]) == {ErrorCode.none, ErrorCode.unknown_member_id}
    assert set(full.members.group.members) == {"stays"}


def test_the_next_epoch_is_first_and_that_of_the_target_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_BYTES", 50_000)
    group_epoch = GroupRecord(Key(RecordKind.GROUP, "g"), GroupEpoch(2))
    target_epoch = GroupRecord(Key(RecordKind.TARGET, "g"), TargetEpoch(2))
    gone = [
        GroupRecord(Key(kind, "g", f"{name}" + 30_000 * "x"), None)
        for name in "ab"
        for kind in (RecordKind.CURRENT, RecordKind.MEMBER_TARGET, RecordKind.MEMBER)
    ]
    group = ConsumerGroup("g")
    target_before = GroupRecord(Key(RecordKind.TARGET, "g"), TargetEpoch(1, 77))
    group.replay(target_before)
    cut = run(in_parts(group, [*gone, group_epoch, target_epoch]))
    timeless = target_before._replace(value=TargetEpoch(1, 0))
    assert [part.records for part in cut] == [[group_epoch, timeless, *gone[:3]], gone[3:], [target_epoch]]
    assert [part.encoded for part in cut] == [[*map(encoded, part.records)] for part in cut]
    assert run(in_parts(group, [])) == []


def test_what_fits_into_one_batch_is_in_the_order_of_kafka() -> None:
    group = ManyTopics(2)
    group.beat("a", topics=frozenset(group.names))
    order = [key.kind for raw_key, _ in group.stores[0].records if (key := decode_key(raw_key)) is not None]
    assert order == [
        RecordKind.MEMBER,
        RecordKind.GROUP,
        RecordKind.MEMBER_TARGET,
        RecordKind.TARGET,
        RecordKind.CURRENT,
    ]


def test_a_target_of_many_members_reaches_the_log() -> None:
    """One batch has no room for it."""
    group = ManyTopics(7)
    ids = [f"{index:05}-{LONG}" for index in range(7000)]
    member = ConsumerMember(topics=frozenset(group.names))
    records = [GroupRecord(Key(RecordKind.MEMBER, "g", member_id), member) for member_id in ids]
    group.members.group.apply([*records, GroupRecord(Key(RecordKind.GROUP, "g"), GroupEpoch(1))], 45_000, 0)
    answers = group.beat(ids[0], owned={}, topics=member.topics)
    assert not answers
    sizes = []
    while group.stores:
        sizes.append(sum(len(key) + len(value or b"") for key, value in group.stores[0].records))
        group.end_append()
    assert sum(sizes) > BATCH
    assert max(sizes) < BATCH // 2
    assert answers[0].error_code is ErrorCode.none
    assert len(group.members.group.targets) == 7000
    assert group.members.group.target_epoch == group.members.group.epoch


class TestATargetInParts:
    """Each name is a batch of its own."""

    @pytest.fixture
    def group(self, monkeypatch: pytest.MonkeyPatch) -> ManyTopics:
        """Two members of twelve partitions, and a third one is about to join."""
        group = ManyTopics(12)
        settings = SETTINGS._replace(assignment_interval_ms=1000)
        group.world = group.world._replace(settings=lambda _: settings)
        group.members = ConsumerMembership(ConsumerGroup("g"), group.world)
        for member_id in "ab":
            group.now_ms += 1000
            group.beat(member_id, topics=frozenset(group.names))
            group.end_appends()
        group.become_stable()
        monkeypatch.setattr(parts, "MOST_BYTES", 0)
        return group

    def join(self, group: ManyTopics, member_id: str = "c") -> int:
        """How many batches the log had before."""
        before = len(group.log)
        group.now_ms += 1000
        answers = group.beat(member_id, topics=frozenset(group.names))
        group.end_appends()
        assert answers[0].error_code is ErrorCode.none
        return before

    def test_a_group_is_whole_after_each_part(self, group: ManyTopics) -> None:
        before, log = self.join(group), group.log
        assert len(log) - before > 4
        for batches in range(before, len(log) + 1):
            group.take_over(log[:batches])
            group.become_stable()
            assert len(group.members.group.owners) == 12

    def test_nobody_moves_towards_a_part_of_a_target(self, group: ManyTopics) -> None:
        """Though the interval since the last target is not over by the clock of whoever reads the group."""
        self.join(group)
        before, log = self.join(group, "d"), group.log
        group.now_ms -= 500
        for batches in range(before + 1, len(log)):
            group.take_over(log[:batches])
            group.beat("a", group.members.group.current["a"].epoch)
            group.end_appends()
            assert group.members.group.target_epoch == group.members.group.epoch, batches - before

    def test_what_the_log_refuses_of_a_part_is_computed_again(self, group: ManyTopics) -> None:
        group.now_ms += 1000
        answers = group.beat("c", topics=frozenset(group.names))
        group.end_append()
        group.end_append()
        group.end_append(ErrorCode.coordinator_not_available)
        assert answers[0].error_code is ErrorCode.coordinator_not_available
        assert group.beat("c", topics=frozenset(group.names)) == []
        group.end_appends()
        assert group.members.group.target_epoch == group.members.group.epoch
        group.become_stable()
        assert len(group.members.group.owners) == 12


def classic_of(log: Batches) -> bool:
    """Whether who reads this log finds a classic group."""
    settled = SettledRecords()
    for key, value in (record for batch in log for record in batch):
        settled.latest.pop(key, None)
        if value is not None:
            settled.latest[key] = value
    return "g" in kept_groups(settled).members


def join_classic(group: Members) -> None:
    joined: list[JoinAnswer] = []
    protocols = (Protocol("range", subscription([])),)
    request = JoinRequest("", "consumer", protocols, 50_000, 60_000, None, "c", "/h")
    group.do(group.members.join(request, joined.append, group.now))
    group.end_append()
    assert joined[0].error_code is ErrorCode.none


def test_a_group_becomes_classic_after_a_removal_in_several_batches(full: ManyTopics, leavers: list[Leaver]) -> None:
    """The last one removes the whole group, so that no broker finds one of classic members alone."""
    join_classic(full)
    leavers.append(Leaver("stays"))
    answers: list[ErrorCode] = []
    before = len(full.log)
    full.do(full.members.leave(leavers, answers.extend, full.now))
    full.end_appends()
    assert len(full.log) - before > 3
    assert answers == [ErrorCode.none] * len(leavers)
    assert full.members.successor is not None
    assert [member.client_id for member in full.members.successor.group.members] == ["c"]
    found = [classic_of(full.log[:batches]) for batches in range(before, len(full.log) + 1)]
    assert found == [False] * (len(found) - 1) + [True]
    assert len(full.loaded(full.log[:-1]).group.members) > 1


def test_a_group_whose_change_is_too_large_remains(
    full: ManyTopics, leavers: list[Leaver], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    join_classic(full)
    monkeypatch.setattr(event_queue, "MOST_BYTES_OF_CHANGE", 100)
    answers: list[ErrorCode] = []
    full.do(full.members.leave([*leavers, Leaver("stays")], answers.extend, full.now))
    full.end_appends()
    assert set(answers) == {ErrorCode.none}
    assert full.members.successor is None
    assert len(full.members.group.members) == 1
    assert "group g: has classic members only and remains a consumer group" in caplog.text


def test_one_of_the_regular_expressions_that_match_the_same_is_written_again_with_the_time() -> None:
    group = ManyTopics(2)
    for member_id in "abc":
        group.beat(member_id, topics=None, regex=f"{member_id}|.*")
        group.end_appends()
    group.become_stable()
    before = len(group.log)
    group.now_ms += 600_000
    for member_id in "abc":
        group.members.group.heard(member_id, 45_000, group.now_ms)
    group.beat("a", group.members.group.current["a"].epoch)
    group.end_appends()
    ((record,),) = group.log[before:]
    assert decode_key(record[0]) == Key(RecordKind.REGEX, "g", "a|.*")


def classic_group(count: int) -> ClassicGroup:
    """Members of one topic, with ids as long as those of Java's consumers."""
    members = []
    protocols = (Protocol("range", subscription(["t"])),)
    for index in range(count):
        member_id = f"consumer-orders-{index:05}-{UUID(int=index)}"
        request = JoinRequest(member_id, "consumer", protocols, 45_000, 300_000, None, "consumer-orders", "/10.0.0.1")
        members.append(GroupMember(member_id, request))
        members[-1].assignment = assignment({"t": [index]})
    settings = GroupSettings(0, 10_000, str, GroupCounters())
    return ClassicGroup.of_members("g", settings, 7, members, Now(0, 0))


def test_a_classic_group_that_changes_fits_into_one_batch() -> None:
    """Behind it comes who joins, with the target of all."""
    group = Members()
    group.partition_count = 10_000
    world = group.world._replace(settings=_with_room)
    for count in (100, 2000):
        upgraded = ConsumerMembership.upgraded(classic_group(count), world, group.now)
        assert isinstance(upgraded, ConsumerMembership)
        group.members, group.log = upgraded, []
        joining = group.beat("c")
        while group.stores:
            group.end_append()
        assert joining[0].error_code is ErrorCode.none
        batches = [encode_batch([Record(value, key, 0) for key, value in batch]) for batch in group.log]
        assert max(map(len, batches)) < BATCH
        assert len(batches) == (1 if count == 100 else 3)
        assert len(upgraded.group.targets) == count + 1


def test_a_classic_group_that_is_too_large_says_so() -> None:
    group = Members()
    group.partition_count = 10_000
    reason = ConsumerMembership.upgraded(classic_group(4000), group.world._replace(settings=_with_room), group.now)
    assert isinstance(reason, str)
    assert reason.startswith("its 4000 members take 1")
    assert reason.endswith("bytes in the log, and may take 1000000; stop some or all of them")


def _with_room(_: str) -> ConsumerSettings:
    return SETTINGS._replace(max_size=10_000)
