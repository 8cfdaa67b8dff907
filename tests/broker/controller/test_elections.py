"""Who becomes the leader. The first half is Kafka 3.9's PartitionLeaderElectionAlgorithmsTest, case by case."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from highwater.broker.cluster.state import LeaderAndIsr, ReplicaAssignment
from highwater.broker.controller.elections import (
    Elected,
    Election,
    controlled_shutdown_leader,
    elect,
    offline_leader,
    preferred_leader,
    reassigned_leader,
    unclean_leader,
)


def test_offline() -> None:
    """testOfflinePartitionLeaderElection."""
    assert offline_leader([2, 4], [2, 4], {4}) == 4


def test_offline_when_the_last_in_sync_is_gone() -> None:
    """testOfflinePartitionLeaderElectionLastIsrOfflineUncleanLeaderElectionDisabled and ...Enabled."""
    assert offline_leader([2, 4], [2], {4}) is None
    assert unclean_leader([2, 4], {4}) == 4
    assert unclean_leader([2, 4], set()) is None


@pytest.mark.parametrize(
    ("target", "in_sync", "live", "leader"),
    [
        ([2, 4], [2, 4], {4}, 4),  # testReassignPartitionLeaderElection
        ([2, 4], [2], set(), None),  # testReassignPartitionLeaderElectionWithNoLiveIsr
        ([2, 4], [], {2}, None),  # testReassignPartitionLeaderElectionWithEmptyIsr
    ],
)
def test_reassigned(target: list[int], in_sync: list[int], live: set[int], leader: int | None) -> None:
    assert reassigned_leader(target, in_sync, live) == leader


@pytest.mark.parametrize(
    ("in_sync", "live", "leader"),
    [
        ([2, 4], {2, 4}, 2),  # testPreferredReplicaPartitionLeaderElection
        ([2], set(), None),  # ...PreferredReplicaInIsrNotLive
        ([4], {2, 4}, None),  # ...PreferredReplicaNotInIsrLive
        ([], set(), None),  # ...PreferredReplicaNotInIsrNotLive
    ],
)
def test_preferred(in_sync: list[int], live: set[int], leader: int | None) -> None:
    assert preferred_leader([2, 4], in_sync, live) == leader


@pytest.mark.parametrize(
    ("in_sync", "shutting_down", "leader"),
    [
        ([2, 4], {2}, 4),  # testControlledShutdownPartitionLeaderElection
        ([2], {2}, None),  # ...LastIsrShuttingDown
        ([2, 4], {2, 4}, None),  # ...AllIsrSimultaneouslyShutdown
    ],
)
def test_controlled_shutdown(in_sync: list[int], shutting_down: set[int], leader: int | None) -> None:
    assert controlled_shutdown_leader([2, 4], in_sync, {2, 4}, shutting_down) == leader


CURRENT = LeaderAndIsr(1, 7, (1, 2, 3), controller_epoch=4, partition_epoch=20)
ASSIGNED = ReplicaAssignment((1, 2, 3))


def elected(
    election: Election,
    live: Collection[int],
    current: LeaderAndIsr = CURRENT,
    assignment: ReplicaAssignment = ASSIGNED,
    shutting_down: Collection[int] = (),
) -> Elected | None:
    return elect(election, assignment, current, lambda broker_id: broker_id in live, shutting_down=shutting_down)


def state(leader: int, in_sync: tuple[int, ...], *, is_recovering: bool = False) -> LeaderAndIsr:
    return LeaderAndIsr(leader, 8, in_sync, controller_epoch=4, partition_epoch=20, is_recovering=is_recovering)


def test_a_new_leader_has_the_live_of_those_in_sync_beside_it() -> None:
    assert elected(Election.OFFLINE, {2, 3}) == (state(2, (2, 3)), (2, 3))
    assert elected(Election.OFFLINE, {3}, CURRENT._replace(in_sync_replicas=(1, 3))) == (state(3, (3,)), (3,))


def test_an_unclean_leader_is_alone_and_recovering() -> None:
    alone = CURRENT._replace(in_sync_replicas=(1,))
    assert elected(Election.OFFLINE, {2, 3}, alone) is None
    assert elected(Election.UNCLEAN, {2, 3}, alone) == (state(2, (2,), is_recovering=True), (2, 3))
    assert elected(Election.UNCLEAN, set(), alone) is None


def test_an_unclean_election_is_clean_where_somebody_in_sync_lives() -> None:
    assert elected(Election.UNCLEAN, {2, 3}, CURRENT._replace(in_sync_replicas=(1, 3))) == (state(3, (3,)), (2, 3))


def test_a_recovering_partition_goes_on_recovering_under_the_next_leader() -> None:
    current = CURRENT._replace(is_recovering=True)
    assert elected(Election.OFFLINE, {2}, current) == (state(2, (2,), is_recovering=True), (2,))


def test_a_reassigned_partition_is_led_by_one_of_the_target_and_those_in_sync_stay() -> None:
    assignment = ReplicaAssignment((4, 5, 1, 2), adding=(4, 5), removing=(1, 2))
    current = CURRENT._replace(in_sync_replicas=(1, 2, 4, 5))
    assert elected(Election.REASSIGN, {1, 2, 4, 5}, current, assignment) == (state(4, (1, 2, 4, 5)), (4, 5))
    assert elected(Election.REASSIGN, {1, 2}, current, assignment) is None


def test_the_preferred_leader_takes_over_from_a_living_one() -> None:
    current = CURRENT._replace(leader=3)
    assert elected(Election.PREFERRED, {1, 2, 3}, current) == (state(1, (1, 2, 3)), (1, 2, 3))
    assert elected(Election.PREFERRED, {2, 3}, current) is None


def test_who_shuts_down_leaves_those_in_sync_and_is_told() -> None:
    outcome = elected(Election.CONTROLLED_SHUTDOWN, {1, 2, 3}, shutting_down={1})
    assert outcome == (state(2, (2, 3)), (1, 2, 3))
    assert elected(Election.CONTROLLED_SHUTDOWN, {1, 2, 3}, shutting_down={1, 2, 3}) is None
