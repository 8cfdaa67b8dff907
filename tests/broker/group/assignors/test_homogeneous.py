"""Kafka's UniformHomogeneousAssignmentBuilderTest, by its names."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest

from highwater.broker.group.assignors.assignor import AssignedMember, GroupToAssign
from highwater.broker.group.assignors.known import assign_uniformly
from highwater.broker.slices import run
from tests.broker.group.assignors.groups import assigned_by, check_validity, group, member, sizes

NEW = member("T1 T2")

CASES: dict[str, tuple[Mapping[str, int], Mapping[str, AssignedMember], Mapping[str, str]]] = {
    "testOneMemberNoTopicSubscription": ({"T1": 3}, {"A": member("")}, {"A": ""}),
    # Kafka takes topics in the order of a hash table, we take them by their ids.
    "testFirstAssignmentTwoMembersTwoTopicsNoMemberRacks": (
        {"T1": 3, "T3": 2},
        {"A": member("T1 T3"), "B": member("T1 T3")},
        {"A": "T1:0,1,2", "B": "T3:0,1"},
    ),
    "testFirstAssignmentNumMembersGreaterThanTotalNumPartitions": (
        {"T3": 2},
        {"A": member("T3"), "B": member("T3"), "C": member("T3")},
        {"A": "T3:0", "B": "T3:1", "C": ""},
    ),
    "testReassignmentForTwoMembersTwoTopicsGivenUnbalancedPrevAssignment": (
        {"T1": 3, "T2": 3},
        {"A": member("T1 T2", "T1:0,1 T2:0,1"), "B": member("T1 T2", "T1:2 T2:2")},
        {"A": "T1:0,1 T2:0", "B": "T1:2 T2:1,2"},
    ),
    "testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics": (
        {"T1": 6, "T2": 5},
        {"A": member("T1 T2", "T1:0,2 T2:0"), "B": member("T1 T2", "T1:1 T2:1,2")},
        {"A": "T1:0,2,3,4,5 T2:0", "B": "T1:1 T2:1,2,3,4"},
    ),
    "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        {"T1": 3, "T2": 3},
        {"A": member("T1 T2", "T1:0,2 T2:0"), "B": member("T1 T2", "T1:1 T2:1,2"), "C": NEW},
        {"A": "T1:0,2", "B": "T1:1 T2:1", "C": "T2:0,2"},
    ),
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics": (
        {"T1": 3, "T2": 3},
        {"A": member("T1 T2", "T1:0 T2:0"), "B": member("T1 T2", "T1:1 T2:1")},
        {"A": "T1:0,2 T2:0", "B": "T1:1 T2:1,2"},
    ),
    "testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        {"T2": 2},
        {"A": member("T2", "T1:0 T2:0"), "B": member("T2", "T1:1 T2:1")},
        {"A": "T2:0", "B": "T2:1"},
    ),
    # KAFKA-18688: who has one more keeps it, first or last.
    "testReassignmentStickinessWhenAlreadyBalanced": (
        {"T1": 5},
        {"A": member("T1", "T1:0"), "B": member("T1", "T1:1,2"), "C": member("T1", "T1:3,4")},
        {"A": "T1:0", "B": "T1:1,2", "C": "T1:3,4"},
    ),
}


@pytest.mark.parametrize(("counts", "members", "expected"), CASES.values(), ids=CASES)
def test_case(counts: Mapping[str, int], members: Mapping[str, AssignedMember], expected: Mapping[str, str]) -> None:
    assert assigned_by(assign_uniformly, group(counts, members)) == expected


def test_validity_and_balance_for_large_sample_set() -> None:
    ids = [UUID(int=number) for number in range(1, 100)]
    members = {f"member{number}": AssignedMember(None, frozenset(ids), {}) for number in range(1, 50)}
    asked = GroupToAssign(members, dict.fromkeys(ids, 3), is_homogeneous=True)
    target = run(assign_uniformly(asked))
    check_validity(asked, target)
    assert set(sizes(target).values()) == {6, 7}


def test_a_group_without_members_has_an_empty_target() -> None:
    assert run(assign_uniformly(group({"T1": 3}, {}))) == {}


def test_a_partition_that_two_members_have_by_fault_stays_with_one() -> None:
    members = {"A": member("T1", "T1:0,1"), "B": member("T1", "T1:1,2")}
    assert assigned_by(assign_uniformly, group({"T1": 4}, members)) == {"A": "T1:0,1", "B": "T1:2,3"}


def test_a_member_with_very_many_partitions_gives_up_most() -> None:
    """One that takes each from all that are left needs minutes for it."""
    topic = UUID(int=1)
    has_all = AssignedMember(None, frozenset([topic]), {topic: frozenset(range(200_000))})
    members = {"A": has_all} | {f"B{number}": has_all._replace(assigned={}) for number in range(3)}
    target = run(assign_uniformly(GroupToAssign(members, {topic: 200_000}, is_homogeneous=True)))
    assert set(sizes(target).values()) == {50_000}
