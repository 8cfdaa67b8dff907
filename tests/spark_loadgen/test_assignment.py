from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.spark_loadgen.assignment import assign_pairs, assigned_partitions
from highwater.spark_loadgen.errors import LoadSetupError


@given(st.integers(1, 4), st.integers(1, 12), st.data())
def test_members_share_all_partitions_evenly(topics: int, partitions: int, data: st.DataObject) -> None:
    members = data.draw(st.integers(1, topics * partitions))
    names = [f"t{number}" for number in range(topics)]
    shares = [assigned_partitions(names, partitions, members, member) for member in range(members)]
    dealt = [partition for share in shares for partition in share]
    assert sorted(dealt) == [(name, partition) for name in names for partition in range(partitions)]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6))
def test_both_of_a_pair_read_one_clock(clocks_of_pairs: list[str]) -> None:
    clocks = [clock for clock in clocks_of_pairs for _ in range(2)]
    pairs = len(clocks_of_pairs)
    numbers = assign_pairs(clocks, clocks)
    assert sorted(numbers) == list(range(2 * pairs))
    clock_of = dict(zip(numbers, clocks, strict=True))
    assert all(clock_of[producer] == clock_of[pairs + producer] for producer in range(pairs))


def test_a_host_with_half_a_pair_is_one_sentence() -> None:
    with pytest.raises(LoadSetupError, match=r"host one runs 3 of 4 tasks: use an even number of slots per host"):
        assign_pairs(["a", "a", "a", "b"], ["one", "one", "one", "two"])
