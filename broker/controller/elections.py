"""Elects the leader of a partition, by pure functions.

Kafka has them in PartitionLeaderElectionAlgorithms and Election of kafka.controller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import NamedTuple

from highwater.broker.cluster.state import LeaderAndIsr, ReplicaAssignment


def offline_leader(assigned: Sequence[int], in_sync: Collection[int], live: Collection[int]) -> int | None:
    """The first replica that is live and in sync: what was acknowledged is there."""
    return next((replica for replica in assigned if replica in live and replica in in_sync), None)


def unclean_leader(assigned: Sequence[int], live: Collection[int]) -> int | None:
    """The first live replica, where nobody in sync lives: what it lacks is lost."""
    return next((replica for replica in assigned if replica in live), None)


def reassigned_leader(target: Sequence[int], in_sync: Collection[int], live: Collection[int]) -> int | None:
    return offline_leader(target, in_sync, live)


def preferred_leader(assigned: Sequence[int], in_sync: Collection[int], live: Collection[int]) -> int | None:
    return offline_leader(assigned[:1], in_sync, live)


def controlled_shutdown_leader(
    assigned: Sequence[int], in_sync: Collection[int], live: Collection[int], shutting_down: Collection[int]
) -> int | None:
    staying = [replica for replica in assigned if replica not in shutting_down]
    return offline_leader(staying, in_sync, live)


class Election(Enum):
    """The occasion on which a leader is elected."""

    OFFLINE = "offline"
    """The leader is gone."""
    UNCLEAN = "unclean"
    """The same; unclean if nobody in sync lives. The topic allows it, or somebody asked for it."""
    REASSIGN = "reassignment"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled shutdown"


class Elected(NamedTuple):
    leader_and_isr: LeaderAndIsr
    """To be written: the leader epoch is one higher, the partition epoch that of the state it was elected from."""
    recipients: tuple[int, ...]
    """The brokers that get LeaderAndIsr."""


IsOnline = Callable[[int], bool]


def elect(
    election: Election,
    assignment: ReplicaAssignment,
    current: LeaderAndIsr,
    is_online: IsOnline,
    *,
    shutting_down: Collection[int] = (),
) -> Elected | None:
    """The new state of one partition; None if nobody can lead it.

    In a controlled shutdown, `is_online` is True for brokers that shut down too: they get the new state.
    """
    in_sync = current.in_sync_replicas
    if election is Election.REASSIGN:
        target = assignment.target
        leader = reassigned_leader(target, in_sync, [replica for replica in target if is_online(replica)])
        return None if leader is None else Elected(_led_by(current, leader, in_sync), target)
    live = tuple(replica for replica in assignment.replicas if is_online(replica))
    if election is Election.PREFERRED:
        leader = preferred_leader(assignment.replicas, in_sync, live)
        return None if leader is None else Elected(_led_by(current, leader, in_sync), assignment.replicas)
    if election is Election.CONTROLLED_SHUTDOWN:
        leader = controlled_shutdown_leader(assignment.replicas, in_sync, live, shutting_down)
        staying = tuple(replica for replica in in_sync if replica not in shutting_down)
        return None if leader is None else Elected(_led_by(current, leader, staying), live)
    leader = offline_leader(assignment.replicas, in_sync, live)
    if leader is not None:
        live_in_sync = tuple(replica for replica in in_sync if is_online(replica))
        return Elected(_led_by(current, leader, live_in_sync), live)
    if election is Election.UNCLEAN:
        leader = unclean_leader(assignment.replicas, live)
        if leader is not None:
            # KIP-704: the partition is marked as recovering, for what was acknowledged may be missing.
            return Elected(_led_by(current, leader, (leader,))._replace(is_recovering=True), live)
    return None


def _led_by(current: LeaderAndIsr, leader: int, in_sync: tuple[int, ...]) -> LeaderAndIsr:
    return current._replace(leader=leader, leader_epoch=current.leader_epoch + 1, in_sync_replicas=in_sync)
