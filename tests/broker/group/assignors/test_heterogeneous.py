"""Kafka's UniformHeterogeneousAssignmentBuilderTest, by its names."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from highwater.broker.group.assignors.assignor import AssignedMember
from highwater.broker.group.assignors.known import assign_uniformly
from highwater.broker.slices import run
from tests.broker.group.assignors.groups import assigned_by, group, member, sizes

CASES: dict[str, tuple[Mapping[str, int], Mapping[str, AssignedMember], Mapping[str, str]]] = {
    "testTwoMembersNoTopicSubscription": ({"T1": 3}, {"A": member(""), "B": member("")}, {"A": "", "B": ""}),
    "testFirstAssignmentTwoMembersTwoTopics": (
        {"T1": 3, "T3": 6},
        {"A": member("T1 T3"), "B": member("T3")},
        {"A": "T1:0,1,2 T3:4", "B": "T3:0,1,2,3,5"},
    ),
    "testFirstAssignmentNumMembersGreaterThanTotalNumPartitions": (
        {"T1": 2, "T3": 1},
        {"A": member("T3"), "B": member("T3"), "C": member("T1")},
        {"A": "T3:0", "B": "", "C": "T1:0,1"},
    ),
    "testReassignmentForTwoMembersThreeTopicsGivenUnbalancedPrevAssignment": (
        {"T1": 6, "T2": 4, "T3": 4},
        {
            "A": member("T1", "T1:0,1,2"),
            "B": member("T1 T2", "T1:3 T2:0"),
            "C": member("T1 T2 T3", "T1:4,5 T2:1,2,3 T3:0,1,2,3"),
        },
        {"A": "T1:0,1,2,5", "B": "T1:3 T2:0,1,2,3", "C": "T1:4 T3:0,1,2,3"},
    ),
    "testReassignmentWhenPartitionsAreAddedForTwoMembers": (
        {"T1": 6, "T2": 5, "T3": 3, "T4": 3},
        {"A": member("T1 T3", "T1:0,1,2,3 T3:0,1"), "B": member("T1 T2 T3 T4", "T2:0,1,2 T4:0,1,2")},
        {"A": "T1:0,1,2,3,4,5 T3:0,1,2", "B": "T2:0,1,2,3,4 T4:0,1,2"},
    ),
    "testReassignmentWhenOneMemberAddedAndPartitionsAddedTwoMembersTwoTopics": (
        {"T1": 6, "T2": 7},
        {"A": member("T1", "T1:0,2 T2:0"), "B": member("T1 T2", "T1:1 T2:1,2"), "C": member("T1 T2")},
        {"A": "T1:0,2,3,4,5", "B": "T1:1 T2:1,2,6", "C": "T2:0,3,4,5"},
    ),
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersThreeTopics": (
        {"T1": 3, "T2": 8, "T3": 3},
        {"A": member("T1 T3", "T1:0,1,2 T3:0,1"), "B": member("T2", "T2:3,4,5,6")},
        {"A": "T1:0,1,2 T3:0,1,2", "B": "T2:0,1,2,3,4,5,6,7"},
    ),
    "testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        {"T1": 3, "T2": 5},
        {"A": member("T1", "T1:0,2 T2:1,3"), "B": member("T1 T2", "T1:1 T2:0,2,4")},
        {"A": "T1:0,1,2", "B": "T2:0,1,2,3,4"},
    ),
    "testFirstAssignmentWithTwoMembersIncludingOneWithoutSubscriptions": (
        {"T1": 3},
        {"A": member("T1"), "B": member("")},
        {"A": "T1:0,1,2", "B": ""},
    ),
}


@pytest.mark.parametrize(("counts", "members", "expected"), CASES.values(), ids=CASES)
def test_case(counts: Mapping[str, int], members: Mapping[str, AssignedMember], expected: Mapping[str, str]) -> None:
    assert assigned_by(assign_uniformly, group(counts, members)) == expected


def test_reassignment_when_topic_partitions_run_out_and_members_have_no_partitions() -> None:
    members = {"A": member("T1 T2 T3", "T1:0,1 T2:0,1 T3:0,1"), "B": member("T1 T2 T3")}
    asked = group({"T1": 2, "T2": 2, "T3": 2}, members)._replace(is_homogeneous=False)
    assert assigned_by(assign_uniformly, asked) == {"A": "T2:0 T3:0,1", "B": "T1:0,1 T2:1"}


def test_shares_are_as_even_as_single_moves_make_them() -> None:
    """One less for A and one more for C would take two moves, by way of B; Kafka does not look for such either."""
    members = {
        "A": member("T1", "T1:0,1,2,3,4,5,6,7"),
        "B": member("T1 T2", "T2:0,1,2,3"),
        "C": member("T2"),
    }
    target = run(assign_uniformly(group({"T1": 8, "T2": 4}, members)))
    assert sizes(target) == {"A": 5, "B": 4, "C": 3}
