"""Replica assignment: the cases of Kafka 3.9's AdminRackAwareTest, and what every assignment keeps."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.controller.assignment import Racks, alternate_racks, assign_replicas
from highwater.kafka.protocol.problem import Problem

THREE_RACKS = {0: "rack1", 1: "rack2", 2: "rack2", 3: "rack3", 4: "rack3", 5: "rack1"}
TWELVE_BROKERS = dict(
    enumerate(
        ["rack1", "rack2", "rack2", "rack3", "rack3", "rack1", "rack1", "rack2", "rack2", "rack3", "rack1", "rack3"]
    )
)


def assign(
    racks: Racks, partitions: int, replication_factor: int, start: Random | int, first_partition: int = 0
) -> dict[int, list[int]]:
    assignment = assign_replicas(racks, partitions, replication_factor, start, first_partition=first_partition)
    assert not isinstance(assignment, Problem), assignment
    assert list(assignment) == list(range(first_partition, first_partition + partitions))
    for replicas in assignment.values():
        assert len(replicas) == len(set(replicas)) == replication_factor
        assert set(replicas) <= set(racks)
    return assignment


def racks_of(replicas: list[int], racks: Racks) -> set[str | None]:
    return {racks[broker] for broker in replicas}


def check_spread(assignment: dict[int, list[int]], racks: Racks) -> None:
    """As AdminRackAwareTest's checkReplicaDistribution: one rack each, leaders and replicas even."""
    replicas = next(iter(assignment.values()))
    for brokers in assignment.values():
        assert len(racks_of(brokers, racks)) == min(len(replicas), len(set(racks.values())))
    leaders = Counter(brokers[0] for brokers in assignment.values())
    assert set(leaders.values()) == {len(assignment) // len(racks)}
    held = Counter(broker for brokers in assignment.values() for broker in brokers)
    assert set(held.values()) == {len(assignment) * len(replicas) // len(racks)}


def test_the_line_of_brokers_alternates_racks() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate_racks(racks) == [0, 3, 1, 5, 4, 2]
    del racks[5]
    assert alternate_racks(racks) == [0, 3, 1, 4, 2]


def test_with_racks_the_exact_assignment() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert list(assign(racks, 7, 3, 0).values()) == [
        [0, 3, 1], [3, 1, 5], [1, 5, 4], [5, 4, 2], [4, 2, 0], [2, 0, 3], [0, 4, 2],
    ]  # fmt: skip


def test_without_racks_the_exact_assignment() -> None:
    assert list(assign(dict.fromkeys(range(5)), 10, 3, 0).values()) == [
        [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1], [0, 2, 3], [1, 3, 4], [2, 4, 0], [3, 0, 1], [4, 1, 2],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("racks", "partitions", "replication_factor", "start", "first_partition"),
    [
        (THREE_RACKS, 6, 3, 2, 0),
        (THREE_RACKS, 6, 3, Random(1), 0),
        (THREE_RACKS, 12, 2, Random(2), 0),
        (THREE_RACKS, 6, 2, Random(3), 0),
        ({0: "rack1", 1: "rack2", 4: "rack3"}, 3, 2, Random(4), 0),
        ({broker + 6: rack for broker, rack in THREE_RACKS.items()}, 12, 2, Random(5), 12),
        (TWELVE_BROKERS, 96, 3, Random(6), 0),
        (dict.fromkeys(range(6), "rack1"), 6, 1, Random(7), 0),
    ],
)
def test_racks_leaders_and_replicas_are_spread_evenly(
    racks: Racks, partitions: int, replication_factor: int, start: Random | int, first_partition: int
) -> None:
    check_spread(assign(racks, partitions, replication_factor, start, first_partition), racks)


@pytest.mark.parametrize(
    ("racks", "partitions"),
    [(THREE_RACKS, 13), ({0: "rack1", 1: "rack1", 2: "rack2", 3: "rack3", 4: "rack3", 5: "rack1"}, 12)],
)
def test_uneven_numbers_keep_to_the_racks(racks: Racks, partitions: int) -> None:
    for seed in range(20):
        for replicas in assign(racks, partitions, 3, Random(seed)).values():
            assert len(racks_of(replicas, racks)) == 3


@pytest.mark.parametrize(("replication_factor", "rack_count"), [(5, 3), (2, 2)])
def test_more_or_fewer_replicas_than_racks(replication_factor: int, rack_count: int) -> None:
    racks = THREE_RACKS | {5: "rack2"}
    for replicas in assign(racks, 6, replication_factor, Random(8)).values():
        assert len(racks_of(replicas, racks)) == rack_count


def test_one_rack_and_many_brokers() -> None:
    assignment = assign(dict.fromkeys(range(6), "rack1"), 6, 3, Random(9))
    assert sorted(replicas[0] for replicas in assignment.values()) == list(range(6))


def test_a_broker_is_never_taken_twice() -> None:
    assign({0: "a", 1: "b", 2: "c", 3: "a", 4: "a"}, 6, 4, 2)


@pytest.mark.parametrize(
    ("racks", "partitions", "replication_factor", "error"),
    [
        (dict.fromkeys(range(5)), 0, 1, ErrorCode.invalid_partitions),
        (dict.fromkeys(range(5)), 10, 0, ErrorCode.invalid_replication_factor),
        (dict.fromkeys(range(5)), 10, 6, ErrorCode.invalid_replication_factor),
        ({}, 1, 1, ErrorCode.invalid_replication_factor),
        ({0: "rack1", 1: "rack3", 4: None}, 10, 3, ErrorCode.unknown_server_error),
    ],
)
def test_what_cannot_be_assigned(racks: Racks, partitions: int, replication_factor: int, error: ErrorCode) -> None:
    problem = assign_replicas(racks, partitions, replication_factor, Random(0))
    assert isinstance(problem, Problem)
    assert problem.error_code is error
