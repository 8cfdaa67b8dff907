"""What records make of a group, and what a group says, by the cases of Apache Kafka 4.4's ConsumerGroupTest."""

from __future__ import annotations

from itertools import permutations

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.group.consumer.group import ConsumerGroup, ConsumerGroupState
from highwater.broker.group.consumer.schemas import (
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    Key,
    MemberState,
    MemberTarget,
    RecordKind,
    ResolvedRegex,
    TargetEpoch,
    Value,
)
from tests.broker.group.consumer.partitions import held, partitions, told, topic_id

SESSION_MS = 45_000


def record(kind: RecordKind, name: str, value: Value | None) -> GroupRecord:
    return GroupRecord(Key(kind, "g", name), value)


def of_member(name: str, *topics: str, regex: str = "", assignor: str | None = None) -> GroupRecord:
    member = ConsumerMember(topics=frozenset(topics), regex=regex, assignor=assignor, rebalance_timeout_ms=1000)
    return record(RecordKind.MEMBER, name, member)


def current(name: str, epoch: int, assigned: str, pending: str = "", state: str = "STABLE") -> GroupRecord:
    value = CurrentAssignment(epoch, epoch - 1, MemberState[state], held(assigned, epoch), held(pending, epoch))
    return record(RecordKind.CURRENT, name, value)


def group_of(*records: GroupRecord) -> ConsumerGroup:
    group = ConsumerGroup("g")
    group.apply(records, SESSION_MS, 0)
    return group


def owners(group: ConsumerGroup) -> dict[str, str]:
    return {f"{told({topic: {index: 0}})}": name for topic, of in group.owners.items() for index, name in of.items()}


def state(group: ConsumerGroup) -> str:
    return group.state.value


def test_update_member_updates_partition_epochs() -> None:
    group = group_of(of_member("m"), current("m", 10, "a:1,2", "a:3"))
    assert owners(group) == {"a:1": "m", "a:2": "m", "a:3": "m"}
    group.replay(current("m", 11, "a:2"))
    assert owners(group) == {"a:2": "m"}


def test_remove_member_and_delete_partition_epoch() -> None:
    group = group_of(of_member("m"), current("m", 10, "a:1", "a:3"))
    group.replay(record(RecordKind.CURRENT, "m", None))
    assert owners(group) == {}
    group.replay(record(RecordKind.MEMBER, "m", None))
    assert group.state is ConsumerGroupState.EMPTY


def test_a_partition_is_freed_only_by_its_owner() -> None:
    """testRemovePartitionEpochs: a later owner must not lose it (KAFKA-16147)."""
    group = group_of(of_member("m1"), of_member("m2"), current("m1", 10, "a:1"), current("m2", 11, "a:1"))
    assert owners(group) == {"a:1": "m2"}
    group.replay(current("m1", 12, ""))
    assert owners(group) == {"a:1": "m2"}
    group.replay(record(RecordKind.MEMBER, "m1", None))
    assert owners(group) == {"a:1": "m2"}


def test_a_tombstone_of_what_is_not_there_is_nothing() -> None:
    """KAFKA-17306."""
    group = ConsumerGroup("g")
    for kind in RecordKind:
        group.replay(record(kind, "m", None))
    assert group.state is ConsumerGroupState.EMPTY
    assert not group.epoch


def test_group_state() -> None:
    group = ConsumerGroup("g")
    assert state(group) == "Empty"
    group.apply([of_member("m"), record(RecordKind.GROUP, "", GroupEpoch(1))], SESSION_MS, 0)
    assert state(group) == "Assigning"
    group.replay(record(RecordKind.TARGET, "", TargetEpoch(1)))
    assert state(group) == "Reconciling"
    group.replay(current("m", 1, "a:1", state="UNRELEASED_PARTITIONS"))
    assert state(group) == "Reconciling"
    group.replay(current("m", 1, "a:1"))
    assert state(group) == "Stable"


def test_is_subscribed_to_topic() -> None:
    group = group_of(of_member("m1", "a", "b"), of_member("m2", "b", regex="c.*"))
    group.replay(record(RecordKind.REGEX, "c.*", ResolvedRegex(frozenset(("c1",)), 0, 0)))
    assert [name for name in ("a", "b", "c1", "d") if group.reads_topic(name)] == ["a", "b", "c1"]
    assert group.topics == {"a", "b", "c1"}
    group.replay(of_member("m1", "a"))
    group.replay(record(RecordKind.MEMBER, "m2", None))
    assert group.topics == {"a", "c1"}


def test_static_members() -> None:
    group = group_of(
        record(RecordKind.MEMBER, "m1", ConsumerMember("i")), record(RecordKind.MEMBER, "m2", ConsumerMember("i"))
    )
    assert group.static_ids == {"i": "m2"}
    group.replay(record(RecordKind.MEMBER, "m1", None))
    assert group.static_ids == {"i": "m2"}
    group.replay(record(RecordKind.MEMBER, "m2", ConsumerMember("j")))
    assert group.static_ids == {"j": "m2"}


@pytest.mark.parametrize(
    ("member_id", "epoch", "of", "is_transactional", "error"),
    [
        ("m", 12, "a:9", False, None),
        ("m", 13, "a:1", False, ErrorCode.stale_member_epoch),
        ("m", 11, "a:1", False, None),
        ("m", 10, "a:1 a:3", False, None),
        ("m", 11, "a:2", False, ErrorCode.stale_member_epoch),
        ("m", 9, "a:1", False, ErrorCode.stale_member_epoch),
        ("m", 11, "a:9", False, ErrorCode.stale_member_epoch),
        ("m", -1, "a:1", False, ErrorCode.stale_member_epoch),
        ("n", 12, "a:1", False, ErrorCode.unknown_member_id),
        ("", -1, "a:1", False, ErrorCode.unknown_member_id),
        ("", -1, "a:1", True, None),
        ("m", 13, "a:1", True, ErrorCode.stale_member_epoch),
    ],
)
def test_validate_offset_commit(
    member_id: str, epoch: int, of: str, is_transactional: bool, error: ErrorCode | None
) -> None:
    """An older epoch commits what the member has had since (KIP-1251)."""
    assigned = CurrentAssignment(12, 11, MemberState.STABLE, held("a:1@10,2@12"), held("a:3@10"))
    group = group_of(of_member("m"), record(RecordKind.CURRENT, "m", assigned))
    wanted = [(topic, index) for topic, indexes in partitions(of).items() for index in indexes]
    assert group.check_commit(member_id, epoch, wanted, is_transactional=is_transactional) is error


def test_tools_commit_for_a_group_without_members() -> None:
    group = group_of(record(RecordKind.GROUP, "", GroupEpoch(3)))
    assert group.check_commit("", -1, [(topic_id("a"), 0)]) is None
    assert group.check_commit("m", 3, []) is ErrorCode.unknown_member_id


def test_validate_offset_fetch() -> None:
    group = group_of(of_member("m"), current("m", 12, ""))
    assert group.check_fetch(None, -1) is None
    assert group.check_fetch("m", 12) is None
    assert group.check_fetch("m", 11) is ErrorCode.stale_member_epoch
    assert group.check_fetch("m", 13) is ErrorCode.stale_member_epoch
    assert group.check_fetch("n", 12) is ErrorCode.unknown_member_id
    assert group.check_fetch("", -1) is ErrorCode.unknown_member_id


# Loading what compaction left

HEALTHY = (
    record(RecordKind.GROUP, "", GroupEpoch(12, 5)),
    of_member("m1", "a"),
    of_member("m2", "a", assignor="range"),
    record(RecordKind.MEMBER_TARGET, "m1", MemberTarget(partitions("a:1"))),
    record(RecordKind.TARGET, "", TargetEpoch(12, 99)),
    current("m1", 12, "a:1"),
    current("m2", 11, "a:2", "a:3", "UNREVOKED_PARTITIONS"),
)


def test_the_order_of_what_is_kept_does_not_matter() -> None:
    for order in permutations(HEALTHY):
        group, complaints = ConsumerGroup.loaded("g", order, SESSION_MS, 1000)
        assert not complaints
        assert owners(group) == {"a:1": "m1", "a:2": "m2", "a:3": "m2"}
        assert (group.epoch, group.target_epoch, group.wake_ms) == (12, 12, 2000)


def test_two_members_with_one_partition() -> None:
    """The one with the higher epoch has it; the other one must join again (testReplayConsumerGroup...Compaction)."""
    of_two = (*HEALTHY, of_member("m3", "a"), current("m3", 9, "a:1,4"))
    for order in (of_two, of_two[::-1]):
        group, complaints = ConsumerGroup.loaded("g", order, SESSION_MS, 0)
        assert complaints == ["member m3 has partitions of another member and has to join again"]
        assert owners(group) == {"a:1": "m1", "a:2": "m2", "a:3": "m2", "a:4": "m3"}
        assert group.current["m3"].state is MemberState.UNKNOWN
        assert told(group.current["m3"].assigned) == "a:4"


def test_what_has_no_member_is_ignored() -> None:
    """testReplayConsumerGroupCurrentMemberAssignment...: records 7 and 8 without 5."""
    lonely = (record(RecordKind.MEMBER_TARGET, "m", MemberTarget(partitions("a:1"))), current("m", 3, "a:1"))
    group, complaints = ConsumerGroup.loaded("g", lonely, SESSION_MS, 0)
    assert not complaints
    assert (group.targets, group.owners, group.wake_ms) == ({}, {}, None)


def test_an_epoch_below_those_of_members_is_raised() -> None:
    records = (of_member("m"), record(RecordKind.GROUP, "", GroupEpoch(3, 5)), current("m", 12, "a:1"))
    group, complaints = ConsumerGroup.loaded("g", records, SESSION_MS, 0)
    assert complaints == ["the epoch is 3 and was 12 before"]
    assert (group.epoch, group.metadata_hash, group.state) == (12, 5, ConsumerGroupState.ASSIGNING)


def test_a_draft_is_a_group_of_its_own() -> None:
    group = group_of(*HEALTHY)
    draft = group.draft()
    for change in group.tombstones():
        draft.replay(change)
    assert draft.state is ConsumerGroupState.EMPTY
    assert (group.topic_counts, group.assignor_counts) == ({"a": 2}, {"range": 1})
    assert owners(group) == {"a:1": "m1", "a:2": "m2", "a:3": "m2"}
    assert not draft.topic_counts
    assert not draft.assignor_counts
    assert (group.epoch, draft.epoch) == (12, 0)


def test_members_that_name_the_same_topics_share_one_set() -> None:
    """A set of a hundred names takes 15 KB."""
    group = group_of(of_member("a", "t", "u"), of_member("b", "u", "t"), of_member("c", "t"))
    a, b, c = (group.members[name].topics for name in "abc")
    assert a is b
    assert (a, c) == (frozenset(("t", "u")), frozenset("t"))
    changed = group.draft()
    changed.replay(of_member("c", "t", "u"))
    assert changed.members["c"].topics is a
    assert group.members["c"].topics is c
