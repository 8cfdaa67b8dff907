"""What does not fit into one batch of the log is written in several; a broker may end between any two of them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.group.consumer.events import KnownTopic
from highwater.broker.group.consumer.group import ConsumerGroupState
from highwater.broker.group.consumer.parts import in_parts
from highwater.broker.group.consumer.schemas import GroupEpoch, GroupRecord, Key, RecordKind, TargetEpoch, decode_key
from highwater.broker.group.events import Leaver
from tests.broker.group.consumer.test_membership import Batches, Members

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
    parts = group.log[before:]
    assert len(parts) > 10
    assert max(sum(len(key) + len(value or b"") for key, value in part) for part in parts) < BATCH
    assert len(group.members.group.regexes) == 1000
    assert all(len(resolved.topics) == 200 for resolved in group.members.group.regexes.values())
    assert [RecordKind.GROUP in kinds(part) for part in parts] == [True] + [False] * (len(parts) - 1)


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


def test_the_next_epoch_is_first_and_that_of_the_target_last() -> None:
    group_epoch = GroupRecord(Key(RecordKind.GROUP, "g"), GroupEpoch(2))
    target_epoch = GroupRecord(Key(RecordKind.TARGET, "g"), TargetEpoch(2))
    gone = [
        GroupRecord(Key(kind, "g", f"{name}" + 150_000 * "x"), None)
        for name in "ab"
        for kind in (RecordKind.CURRENT, RecordKind.MEMBER_TARGET, RecordKind.MEMBER)
    ]
    assert in_parts([*gone, group_epoch, target_epoch]) == [[group_epoch, *gone[:3]], gone[3:], [target_epoch]]
    assert in_parts([]) == []


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
