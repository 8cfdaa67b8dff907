"""Limits of a micro-batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.pipeline.source.limits import Delay, at_most


@pytest.mark.parametrize(
    ("records", "starts", "ends", "expected"),
    [
        (10, {0: 0, 1: 0}, {0: 5, 1: 5}, {0: 5, 1: 5}),
        (10, {0: 0, 1: 0}, {0: 100, 1: 100}, {0: 5, 1: 5}),
        (10, {0: 0, 1: 50}, {0: 300, 1: 150}, {0: 7, 1: 52}),
        # A partition with little in it is not starved, so the batch is one larger.
        (10, {0: 0, 1: 0}, {0: 1_000_000, 1: 3}, {0: 9, 1: 1}),
        (1, {0: 0, 1: 0, 2: 7}, {0: 10, 1: 10, 2: 7}, {0: 1, 1: 1, 2: 7}),
        (10, {0: 4}, {0: 4}, {0: 4}),
    ],
)
def test_partitions_share_in_proportion_to_what_is_new(
    records: int, starts: dict[int, int], ends: dict[int, int], expected: dict[int, int]
) -> None:
    def of(offsets: dict[int, int]) -> dict[tuple[str, int], int]:
        return {("t", partition): offset for partition, offset in offsets.items()}

    assert at_most(records, of(starts), of(ends)) == of(expected)


@given(
    st.integers(1, 1000), st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)))
)
def test_a_batch_never_goes_back_and_never_beyond_the_end(records: int, sizes: dict[int, tuple[int, int]]) -> None:
    starts = {("t", partition): start for partition, (start, _) in sizes.items()}
    ends = {("t", partition): start + size for partition, (start, size) in sizes.items()}
    limited = at_most(records, starts, ends)
    assert all(starts[of] <= limited[of] <= ends[of] for of in ends)
    assert all(limited[of] > starts[of] for of in ends if ends[of] > starts[of])
    assert sum(limited[of] - starts[of] for of in ends) <= records + len(ends)


def test_a_batch_waits_for_enough_or_for_the_delay() -> None:
    delay = Delay(10, 1000)
    assert not delay.holds_back(0, 5)  # the first batch
    assert delay.holds_back(9, 1004)
    assert not delay.holds_back(9, 1005)
    assert delay.holds_back(9, 1500)
    assert not delay.holds_back(10, 1501)
    assert delay.holds_back(0, 2500)
    assert not delay.holds_back(0, 2501)
