"""Our targets beside those of Kafka 4.4 for the same groups: see tests/compat/apache_kafka/Assignments.java."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from highwater.broker.group.assignors.assignor import GroupToAssign, Target
from highwater.broker.group.assignors.known import ASSIGNORS
from highwater.broker.slices import run
from tests.broker.group.assignors.groups import assignment, check_validity, sizes
from tests.broker.group.assignors.lives import read

_OF_KAFKA = Path(__file__).parent / "targets_4.4.txt"


def _targets(assignor: str) -> Iterator[tuple[GroupToAssign, Target, Target]]:
    """Groups, our targets and those of Kafka."""
    for line in _OF_KAFKA.read_text().splitlines():
        asked, ranges, uniform = line.split(" | ")
        group = read(asked)
        told = (uniform if assignor == "uniform" else ranges).split(";")
        yield (
            group,
            run(ASSIGNORS[assignor](group)),
            {id_: assignment(text) for id_, text in zip(group.members, told, strict=True)},
        )


def moved(group: GroupToAssign, target: Target) -> int:
    """How many partitions members get that they did not have."""
    return sum(
        len(partitions - group.members[member_id].assigned.get(topic_id, frozenset()))
        for member_id, assigned in target.items()
        for topic_id, partitions in assigned.items()
    )


def test_ranges_are_those_of_kafka() -> None:
    for _, ours, theirs in _targets("range"):
        assert ours == theirs


def test_uniform_shares_are_as_even_as_those_of_kafka_and_no_more_partitions_move() -> None:
    our_moves = their_moves = 0
    for group, ours, theirs in _targets("uniform"):
        check_validity(group, ours)
        assert sorted(sizes(ours).values()) == sorted(sizes(theirs).values())
        our_moves += moved(group, ours)
        their_moves += moved(group, theirs)
        if group.is_homogeneous:
            assert moved(group, ours) <= moved(group, theirs)
    assert our_moves <= their_moves
