"""What holds for every assignor, in groups through which members, topics and subscriptions come and go."""

from __future__ import annotations

from random import Random

import pytest

from highwater.broker.group.assignors.known import ASSIGNORS
from highwater.broker.slices import run
from tests.broker.group.assignors.groups import check_validity, sizes
from tests.broker.group.assignors.lives import lives


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_every_target_is_valid_and_stays(assignor: str, first: int) -> None:
    for seed in range(first, first + 50):
        for group, target in lives(seed, assignor):
            check_validity(group, target)
            settled = {id_: member._replace(assigned=target[id_]) for id_, member in group.members.items()}
            shuffled = list(settled.items())
            Random(seed).shuffle(shuffled)
            again = run(ASSIGNORS[assignor](group._replace(members=dict(shuffled))))
            assert all(again[member_id] is target[member_id] for member_id in target)


def test_the_order_of_members_decides_nothing() -> None:
    for seed in range(100):
        for assignor in ASSIGNORS:
            for group, target in lives(seed, assignor):
                turned = dict(reversed(list(group.members.items())))
                assert run(ASSIGNORS[assignor](group._replace(members=turned))) == target


def test_shares_of_a_homogeneous_group_are_even_and_no_partition_moves_for_nothing() -> None:
    for seed in range(200):
        for group, target in lives(seed, "uniform"):
            if not group.is_homogeneous:
                continue
            shares = sizes(target)
            assert max(shares.values()) - min(shares.values()) <= 1
            before = sizes({id_: member.assigned for id_, member in group.members.items()})
            kept = sum(
                len(target[member_id].get(topic_id, frozenset()) & partitions)
                for member_id, member in group.members.items()
                for topic_id, partitions in member.assigned.items()
            )
            quota, extras = divmod(sum(shares.values()), len(shares))
            most = sum(min(size, quota) for size in before.values())
            assert kept == most + min(extras, sum(size > quota for size in before.values()))


def test_no_single_move_would_make_the_shares_of_a_heterogeneous_group_more_even() -> None:
    for seed in range(200):
        for group, target in lives(seed, "uniform"):
            shares = sizes(target)
            for owner, assigned in target.items():
                subscribers = [id_ for id_, member in group.members.items() if member.topics & assigned.keys()]
                assert all(shares[owner] - shares[subscriber] < 2 for subscriber in subscribers)
