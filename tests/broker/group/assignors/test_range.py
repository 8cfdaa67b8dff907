"""Kafka's RangeAssignorTest, by its names."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from highwater.broker.group.assignors.assignor import AssignedMember
from highwater.broker.group.assignors.range import assign_ranges
from tests.broker.group.assignors.groups import assigned_by, group, member

CASES: dict[str, tuple[Mapping[str, int], Mapping[str, AssignedMember], Mapping[str, str]]] = {
    "testOneMemberNoTopic": ({"T1": 3}, {"A": member("")}, {"A": ""}),
    "testFirstAssignmentTwoMembersTwoTopicsSameSubscriptions": (
        {"T1": 3, "T3": 2},
        {"A": member("T1 T3"), "B": member("T1 T3")},
        {"A": "T1:0,1 T3:0", "B": "T1:2 T3:1"},
    ),
    "testFirstAssignmentThreeMembersThreeTopicsDifferentSubscriptions": (
        {"T1": 3, "T2": 3, "T3": 2},
        {"A": member("T1 T2"), "B": member("T3"), "C": member("T2 T3")},
        {"A": "T1:0,1,2 T2:0,1", "B": "T3:0", "C": "T2:2 T3:1"},
    ),
    "testFirstAssignmentNumMembersGreaterThanNumPartitions": (
        {"T1": 3, "T3": 2},
        {"A": member("T1 T3"), "B": member("T1 T3"), "C": member("T1 T3")},
        {"A": "T1:0 T3:0", "B": "T1:1 T3:1", "C": "T1:2"},
    ),
    "testStaticMembership": (
        {"T1": 3},
        {"Z": member("T1", instance_id="a"), "B": member("T1", instance_id="b")},
        {"Z": "T1:0,1", "B": "T1:2"},
    ),
    "testMixedStaticMembership": (
        {"T1": 5},
        {"Z": member("T1", instance_id="a"), "C": member("T1", instance_id="c"), "B": member("T1")},
        {"Z": "T1:0,1", "C": "T1:2,3", "B": "T1:4"},
    ),
    "testReassignmentNumMembersGreaterThanNumPartitionsWhenOneMemberAdded": (
        {"T1": 2, "T2": 2},
        {"A": member("T1 T2", "T1:0 T2:0"), "B": member("T1 T2", "T1:1 T2:1"), "C": member("T1 T2")},
        {"A": "T1:0 T2:0", "B": "T1:1 T2:1", "C": ""},
    ),
    "testReassignmentWhenOnePartitionAddedForTwoMembersTwoTopics": (
        {"T1": 4, "T2": 4},
        {"A": member("T1 T2", "T1:0,1 T2:0,1"), "B": member("T1 T2", "T1:2 T2:2")},
        {"A": "T1:0,1 T2:0,1", "B": "T1:2,3 T2:2,3"},
    ),
    "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        {"T1": 3, "T2": 3},
        {"A": member("T1 T2", "T1:0,1 T2:0,1"), "B": member("T1 T2", "T1:2 T2:2"), "C": member("T1 T2")},
        {"A": "T1:0 T2:0", "B": "T1:1 T2:1", "C": "T1:2 T2:2"},
    ),
    "testReassignmentWhenOneMemberAddedAndOnePartitionAfterInitialAssignmentWithTwoMembersTwoTopics": (
        {"T1": 4, "T2": 3},
        {"A": member("T1 T2", "T1:0,1 T2:0,1"), "B": member("T1 T2", "T1:2 T2:2"), "C": member("T1")},
        {"A": "T1:0,1 T2:0,1", "B": "T1:2 T2:2", "C": "T1:3"},
    ),
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithTwoMembersTwoTopics": (
        {"T1": 3, "T2": 3},
        {"B": member("T1 T2", "T1:2 T2:2")},
        {"B": "T1:0,1,2 T2:0,1,2"},
    ),
    "testReassignmentWhenMultipleSubscriptionsRemovedAfterInitialAssignmentWithThreeMembersTwoTopics": (
        {"T1": 3, "T2": 3, "T3": 2},
        {
            "A": member("T1", "T1:0,1,2 T2:0"),
            "B": member("T1 T2 T3", "T2:1"),
            "C": member("T2", "T2:2 T3:0,1"),
        },
        {"A": "T1:0,1", "B": "T1:2 T2:0,1 T3:0,1", "C": "T2:2"},
    ),
}


@pytest.mark.parametrize(("counts", "members", "expected"), CASES.values(), ids=CASES)
def test_case(counts: Mapping[str, int], members: Mapping[str, AssignedMember], expected: Mapping[str, str]) -> None:
    assert assigned_by(assign_ranges, group(counts, members)) == expected
