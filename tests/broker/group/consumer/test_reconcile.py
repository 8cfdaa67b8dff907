"""How a member moves to its target, by the cases of Apache Kafka 4.4's CurrentAssignmentBuilderTest."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import pytest

from highwater.broker.group.consumer.reconcile import Target, Told, reconcile
from highwater.broker.group.consumer.schemas import CurrentAssignment, MemberState
from tests.broker.group.consumer.partitions import held, partitions, told_with_epochs, topic_id

# The member before: state, epoch/previous epoch, assigned | pending. Its target: epoch, partitions, and if it does not
# subscribe to a and b, to which topics. What is not free; what the member says that it has, `-` for nothing said. The
# member after; `=` where nothing changes, `fenced` where it has to join again.
CASES: Final = """
testStableToStable
    STABLE 10/10 a:1,2,3 b:4,5,6 |
    11 a:1,2,3 b:4,5,6
    taken a:1,2,3 b:4,5,6
    owned -
    STABLE 11/10 a:1@10,2@10,3@10 b:4@10,5@10,6@10 |
testStableToStableAtTheTarget
    STABLE 10/9 a:1 |
    10 a:1,2
    owned -
    =
testStableToStableWithNewPartitions
    STABLE 10/10 a:1,2,3 |
    11 a:1,2,3,4 b:7
    owned -
    STABLE 11/10 a:1@10,2@10,3@10,4@11 b:7@11 |
testStableToUnrevokedPartitions
    STABLE 10/10 a:1,2,3 b:4,5,6 |
    11 a:2,3,4 b:5,6,7
    owned -
    UNREVOKED_PARTITIONS 10/10 a:2@10,3@10 b:5@10,6@10 | a:1@10 b:4@10
testStableToUnreleasedPartitions
    STABLE 10/10 a:1,2,3 b:4,5,6 |
    11 a:1,2,3,4 b:4,5,6,7
    taken a:4 b:7
    owned -
    UNRELEASED_PARTITIONS 11/10 a:1@10,2@10,3@10 b:4@10,5@10,6@10 |
testStableToUnreleasedPartitionsWithOwnedPartitionsNotHavingRevokedPartitions
    STABLE 10/10 a:1,2,3 b:4,5,6 |
    11 a:1,2,3 b:4,5,7
    taken b:7
    owned
    UNRELEASED_PARTITIONS 11/10 a:1@10,2@10,3@10 b:4@10,5@10 |
testUnrevokedPartitionsToStable
    UNREVOKED_PARTITIONS 10/10 a:2,3 b:5,6 | a:1 b:4
    11 a:2,3 b:5,6
    owned a:2,3 b:5,6
    STABLE 11/10 a:2@10,3@10 b:5@10,6@10 |
testRemainsInUnrevokedPartitions, nothing said
    UNREVOKED_PARTITIONS 10/10 a:2,3 b:5,6 | a:1 b:4
    12 a:3 b:6
    owned -
    =
testRemainsInUnrevokedPartitions, one of a topic
    UNREVOKED_PARTITIONS 10/10 a:2,3 b:5,6 | a:1 b:4
    12 a:3 b:6
    owned a:1,2,3 b:5,6
    =
testRemainsInUnrevokedPartitions, one of the other
    UNREVOKED_PARTITIONS 10/10 a:2,3 b:5,6 | a:1 b:4
    12 a:3 b:6
    owned a:2,3 b:4,5,6
    =
testUnrevokedPartitionsToUnrevokedPartitions
    UNREVOKED_PARTITIONS 10/10 a:2,3 b:5,6 | a:1 b:4
    12 a:3 b:6
    owned a:2,3 b:5,6
    UNREVOKED_PARTITIONS 10/10 a:3@10 b:6@10 | a:2@10 b:5@10
testUnrevokedPartitionsToUnreleasedPartitions
    UNREVOKED_PARTITIONS 11/10 a:2,3 b:5,6 |
    11 a:2,3,4 b:5,6,7
    taken a:2,3,4 b:5,6,7
    owned a:2,3 b:5,6
    UNRELEASED_PARTITIONS 11/11 a:2@11,3@11 b:5@11,6@11 |
testUnrevokedPartitionsToStableWithReturnedPartitionsPendingRevocation
    UNREVOKED_PARTITIONS 10/10 a:2,3 b:5,6 | a:4
    12 a:2,3,4 b:5,6,7
    owned a:2,3 b:5,6
    STABLE 12/10 a:2@10,3@10,4@12 b:5@10,6@10,7@12 |
testUnreleasedPartitionsToStable
    UNRELEASED_PARTITIONS 11/11 a:2,3 b:5,6 |
    12 a:2,3 b:5,6
    taken a:2,3 b:5,6
    owned -
    STABLE 12/11 a:2@11,3@11 b:5@11,6@11 |
testUnreleasedPartitionsToStableWithNewPartitions
    UNRELEASED_PARTITIONS 11/11 a:2,3 b:5,6 |
    11 a:2,3,4 b:5,6,7
    owned -
    STABLE 11/11 a:2@11,3@11,4@11 b:5@11,6@11,7@11 |
testUnreleasedPartitionsToUnreleasedPartitions
    UNRELEASED_PARTITIONS 11/10 a:2,3 b:5,6 |
    11 a:2,3,4 b:5,6,7
    taken a:2,3,4 b:5,6,7
    owned -
    =
testUnreleasedPartitionsToUnreleasedPartitions, some free
    UNRELEASED_PARTITIONS 11/10 a:2,3 |
    11 a:2,3,4 b:5
    taken a:4
    owned -
    UNRELEASED_PARTITIONS 11/11 a:2@11,3@11 b:5@11 |
testUnreleasedPartitionsToUnrevokedPartitions
    UNRELEASED_PARTITIONS 11/11 a:2,3 b:5,6 |
    12 a:3 b:6
    owned -
    UNREVOKED_PARTITIONS 11/11 a:3@11 b:6@11 | a:2@11 b:5@11
testUnknownState
    UNKNOWN 11/11 a:3 b:6 | a:2 b:5
    12 a:3 b:6
    owned -
    fenced
testUnknownState, with something
    UNKNOWN 11/11 a:3 b:6 | a:2 b:5
    12 a:3 b:6
    owned a:3
    fenced
testUnknownState, joins again
    UNKNOWN 11/11 a:3 b:6 | a:2 b:5
    12 a:3 b:6
    owned
    STABLE 12/11 a:3@11 b:6@11 |
testStableToStableWithAssignmentTopicsNoLongerInSubscription
    STABLE 10/9 a:1,2,3 b:4,5,6 |
    11 a:1,2,3 b:4,5,6 of b
    owned b:4,5,6
    STABLE 11/10 b:4@10,5@10,6@10 |
testStableToStableWithAssignmentTopicsNoLongerInSubscription, at the target
    STABLE 10/9 a:1,2,3 b:4,5,6 |
    10 a:1,2,3 b:4,5,6 of b
    owned b:4,5,6
    STABLE 10/10 b:4@10,5@10,6@10 |
testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription
    STABLE 10/9 a:1,2,3 b:4,5,6 |
    11 a:1,2,3 b:4,5,6 of b
    owned a:1,2,3 b:4,5,6
    UNREVOKED_PARTITIONS 10/10 b:4@10,5@10,6@10 | a:1@10,2@10,3@10
testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription, at the target
    STABLE 10/9 a:1,2,3 b:4,5,6 |
    10 a:1,2,3 b:4,5,6 of b
    owned a:1,2,3 b:4,5,6
    UNREVOKED_PARTITIONS 10/10 b:4@10,5@10,6@10 | a:1@10,2@10,3@10
testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription
    UNREVOKED_PARTITIONS 10/10 a:2,3 b:5,6 | a:1 b:4
    12 a:1,3,4 b:6,7 of b
    owned a:1,2,3 b:4,5,6
    UNREVOKED_PARTITIONS 10/10 b:5@10,6@10 | a:1@10,2@10,3@10 b:4@10
testUnresolvedRegularExpression
    STABLE 10/10 a:1,2,3 b:4,5,6 |
    10 a:1,2,3 b:4,5,6 of -
    owned a:1,2,3 b:4,5,6
    UNREVOKED_PARTITIONS 10/10 | a:1@10,2@10,3@10 b:4@10,5@10,6@10
"""


def _cases() -> list[object]:
    cases: list[list[str]] = []
    for line in CASES.strip().splitlines():
        if line.startswith(" "):
            cases[-1].append(line.strip())
        else:
            cases.append([line])
    return [pytest.param(case[1:], id=case[0]) for case in cases]


def _current(text: str) -> CurrentAssignment:
    before, _, pending = text.partition("|")
    state, epochs, assigned = [*before.split(None, 2), ""][:3]
    epoch, previous_epoch = (int(number) for number in epochs.split("/"))
    return CurrentAssignment(epoch, previous_epoch, MemberState[state], held(assigned, epoch), held(pending, epoch))


def _text(current: CurrentAssignment | None) -> str:
    if current is None:
        return "fenced"
    epochs = f"{current.epoch}/{current.previous_epoch}"
    assigned, pending = told_with_epochs(current.assigned), told_with_epochs(current.pending)
    return " ".join(filter(None, (current.state.name, epochs, assigned, "|", pending)))


def _target(text: str, taken: str) -> Target:
    plan, _, topics = text.partition(" of ")
    epoch, _, assignment = plan.partition(" ")
    gone = partitions(taken)

    def is_free(topic: UUID, index: int) -> bool:
        return index not in gone.get(topic, ())

    subscribed = frozenset(topic_id(name) for name in (topics or "a b").split())
    return Target(int(epoch), partitions(assignment), subscribed, is_free)


@pytest.mark.parametrize("case", _cases())
def test_a_member_moves(case: list[str]) -> None:
    before, target, *rest = case
    taken = rest.pop(0).removeprefix("taken ") if rest[0].startswith("taken") else ""
    owned, after = rest
    current = _current(before)
    said = None if owned == "owned -" else partitions(owned.removeprefix("owned"))
    outcome = reconcile(current, _target(target, taken), Told(current.epoch, said))
    if after == "=":
        assert outcome is current
    else:
        assert _text(outcome) == after


def test_who_tells_the_previous_epoch_has_what_it_tells() -> None:
    """The answer that gave it a:2 was lost, and it is taken again: it will not tell a second time that it has not."""
    current = CurrentAssignment(11, 10, MemberState.STABLE, held("a:1,2"))
    target = _target("12 a:1", "")
    assert _text(reconcile(current, target, Told(10, partitions("a:1")))) == "STABLE 12/10 a:1@0 |"
    waiting = CurrentAssignment(11, 10, MemberState.UNREVOKED_PARTITIONS, held("a:1"), held("a:2"))
    assert _text(reconcile(waiting, target, Told(10, partitions("a:1")))) == "STABLE 12/10 a:1@0 |"
    assert reconcile(waiting, target, Told(10, partitions("a:1,2"))) is waiting


def test_the_epoch_that_a_member_tells_stays_good_until_it_tells_the_next() -> None:
    current = CurrentAssignment(11, 10, MemberState.UNRELEASED_PARTITIONS, held("a:1"))
    assert _text(reconcile(current, _target("12 a:1,2", ""), Told(10, partitions("")))) == "STABLE 12/10 a:1@0,2@12 |"
