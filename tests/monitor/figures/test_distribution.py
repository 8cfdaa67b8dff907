"""Spread and skew against the vectors that other monitors' formulas were run on, and laws that hold for any topic."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.monitor.figures.distribution import balance
from highwater.monitor.figures.rows import Balance
from highwater.monitor.model import NO_LEADER

# Name: live brokers, replicas, leaders, then spread, skew and leader skew as Kafka-Eagle 3 shows them.
VECTORS = {
    "A, even": (3, ["01", "12", "20"], "012", (100, 0, 0)),
    "B, one leads all": (3, ["01", "02", "01"], "000", (100, 33, 33)),
    "C, on two of four brokers": (4, ["01", "10", "01", "10"], "0101", (50, 0, 0)),
    "D, A with one broker out of sync": (3, ["01", "12", "20"], "010", (100, 0, 33)),
    "E, seven partitions": (4, ["0", "0", "0", "0", "1", "2", "3"], "0000123", (100, 25, 25)),
}


def topic_balance(live: int, replicas: list[list[int]], leaders: list[int]) -> Balance:
    placed = Counter(broker for brokers in replicas for broker in brokers)
    return balance(placed, Counter(leader for leader in leaders if leader != NO_LEADER), live, {}, {})


@pytest.mark.parametrize("vector", VECTORS)
def test_spread_and_skew_are_those_of_kafka_eagle_3(vector: str) -> None:
    live, replicas, leaders, expected = VECTORS[vector]
    found = topic_balance(live, [[int(broker) for broker in each] for each in replicas], [int(one) for one in leaders])
    assert (found.spread_percent, found.skew_percent, found.leader_skew_percent) == expected


def test_severity_tells_what_the_percentage_hides() -> None:
    """One broker leads everything: the skew is 33 % only."""
    found = topic_balance(3, [[0, 1], [0, 2], [0, 1]], [0, 0, 0])
    assert (found.leader_max_over_mean, found.leader_moves) == (3, 2)
    assert (found.replica_max_over_mean, found.replica_moves) == (1.5, 1)


def test_a_number_that_cannot_be_shared_evenly_shows_its_least_severity() -> None:
    found = topic_balance(3, [[0], [1], [2], [0]], [0, 1, 2, 0])
    assert found.leader_max_over_mean == found.least_leader_max_over_mean == 1.5
    assert (found.leader_skew_percent, found.leader_moves) == (0, 0)


def test_bytes_are_judged_over_the_brokers_with_a_replica() -> None:
    found = balance({0: 3, 1: 2, 2: 1}, {0: 1, 1: 1, 2: 1}, 4, {0: 30.0, 1: 0.0, 2: 0.0}, {0: 300, 1: 200, 2: 100})
    assert (found.bytes_in_max_over_mean, found.disk_bytes_max_over_mean) == (3, 1.5)


def test_partitions_without_a_leader_are_nobodys() -> None:
    found = topic_balance(3, [[0], [1], [2]], [0, NO_LEADER, NO_LEADER])
    assert (found.leader_skew_percent, found.leader_max_over_mean) == (0, 3)


@pytest.mark.parametrize(("live", "replicas"), [(3, []), (0, [[0, 1]])])
def test_no_brokers_and_no_partitions_have_no_spread(live: int, replicas: list[list[int]]) -> None:
    assert topic_balance(live, replicas, [each[0] for each in replicas]).spread_percent is None


ASSIGNMENTS = st.integers(1, 8).flatmap(
    lambda brokers: st.tuples(
        st.just(brokers),
        st.lists(
            st.lists(st.integers(0, brokers - 1), min_size=1, max_size=min(3, brokers), unique=True),
            min_size=1,
            max_size=30,
        ),
    )
)


@given(ASSIGNMENTS)
def test_percentages_stay_within_their_limits(assignment: tuple[int, list[list[int]]]) -> None:
    live, replicas = assignment
    found = topic_balance(live, replicas, [each[0] for each in replicas])
    for percent in (found.spread_percent, found.skew_percent, found.leader_skew_percent):
        assert percent is not None
        assert 0 <= percent <= 100
    assert found.replica_max_over_mean is not None
    assert found.least_replica_max_over_mean is not None
    assert found.replica_max_over_mean >= found.least_replica_max_over_mean >= 1
    assert (found.replica_moves == 0) == (found.skew_percent == 0)


@given(ASSIGNMENTS, st.randoms(use_true_random=False))
def test_neither_the_order_of_partitions_nor_the_names_of_brokers_matter(
    assignment: tuple[int, list[list[int]]], random: Random
) -> None:
    live, replicas = assignment
    names = list(range(100, 100 + live))
    shuffled = list(replicas)
    random.shuffle(names)
    random.shuffle(shuffled)
    renamed = [[names[broker] for broker in each] for each in shuffled]
    assert topic_balance(live, renamed, [each[0] for each in renamed]) == topic_balance(
        live, replicas, [each[0] for each in replicas]
    )


@given(st.integers(1, 8), st.integers(1, 6))
def test_what_is_dealt_out_in_turn_is_not_skewed(brokers: int, rounds: int) -> None:
    leaders = list(range(brokers)) * rounds
    found = topic_balance(brokers, [[leader, (leader + 1) % brokers][: min(2, brokers)] for leader in leaders], leaders)
    assert (found.spread_percent, found.skew_percent, found.leader_skew_percent) == (100, 0, 0)
    assert (found.replica_moves, found.leader_moves) == (0, 0)
