"""Commits that the log has not answered yet, beside each other and beside removals."""

from __future__ import annotations

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
