"""Commits that the log has not answered yet, beside each other and beside removals."""

from __future__ import annotations

import pytest

from highwater.broker.group.offsets import CommittedOffset, GroupOffsets

T0 = ("t", 0)


def offset(value: int) -> CommittedOffset:
    return CommittedOffset(value, -1, "", 0)


def test_a_commit_after_a_removal_counts_though_an_earlier_one_is_under_way() -> None:
    """In the log the first commit is before the tombstone, and the second one after it."""
    offsets = GroupOffsets()
    first = offsets.begin_commit({T0: offset(1)})
    assert offsets.remove([T0]) == [T0]
    second = offsets.begin_commit({T0: offset(2)})
    first(True)
    assert offsets.get(T0) is None
    assert offsets.is_pending(T0)
    second(True)
    assert offsets.get(T0) == offset(2)
    assert not offsets.is_pending(T0)


@pytest.mark.parametrize(
    ("are_written", "counts"), [((True, True), 2), ((True, False), 1), ((False, True), 2), ((False, False), None)]
)
def test_of_two_commits_of_a_transaction_what_the_log_refuses_has_not_been(
    are_written: tuple[bool, bool], counts: int | None
) -> None:
    """In Kafka what the log refuses takes the coordinator back to the state before."""
    offsets = GroupOffsets()
    ends = [offsets.begin_in_transaction(7, {T0: offset(value)}) for value in (1, 2)]
    for end, is_written in zip(ends, are_written, strict=True):
        end(is_written)
    assert offsets.is_pending(T0) == (counts is not None)
    offsets.end_transaction(7, is_commit=True)
    assert offsets.get(T0) == (None if counts is None else offset(counts))
    assert not offsets.is_pending(T0)


def test_a_commit_that_the_log_takes_late_does_not_undo_the_next_transaction() -> None:
    offsets = GroupOffsets()
    first = offsets.begin_in_transaction(7, {T0: offset(1)})
    offsets.end_transaction(7, is_commit=False)
    offsets.begin_in_transaction(7, {T0: offset(2)})
    first(True)
    offsets.end_transaction(7, is_commit=True)
    assert offsets.get(T0) == offset(2)
