"""The tables of states: every transition that Kafka 3.9's PartitionStateMachineTest and ReplicaStateMachineTest try."""

from __future__ import annotations

import itertools

import pytest

from highwater.broker.cluster.state import NO_LEADER
from highwater.broker.controller.context import PartitionState, Replica, ReplicaState
from highwater.broker.controller.controller import Controller
from highwater.broker.controller.partitions import VALID_BEFORE as PARTITION_TABLE
from highwater.broker.controller.replicas import VALID_BEFORE as REPLICA_TABLE
from highwater.broker.controller.storage import Rounds
from highwater.broker.controller.term import Term
from tests.broker.controller.harness import ControllerCluster

KEY = ("t", 0)


def cluster_with_topic() -> ControllerCluster:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [1, 2, 3]})
    cluster.take()
    return cluster


def change_partition(controller: Controller, target: PartitionState) -> None:
    def change(term: Term) -> Rounds[None]:
        yield from term.partitions.change([KEY], target)

    controller.submit(change, lambda _: None, if_moved=None)


def change_replica(controller: Controller, broker_id: int, target: ReplicaState) -> None:
    def change(term: Term) -> Rounds[None]:
        yield from term.replicas.change([Replica(KEY, broker_id)], target)

    controller.submit(change, lambda _: None, if_moved=None)


@pytest.mark.parametrize(("state", "target"), list(itertools.product(PartitionState, repeat=2)))
def test_partitions_take_the_states_of_the_table_and_no_others(state: PartitionState, target: PartitionState) -> None:
    cluster = cluster_with_topic()
    context = cluster.controller.context
    assert context is not None
    context[KEY].state = state
    change_partition(cluster.controller, target)
    cluster.run()
    assert context[KEY].state is (target if state in PARTITION_TABLE[target] else state)


@pytest.mark.parametrize(("state", "target"), list(itertools.product(ReplicaState, repeat=2)))
def test_replicas_take_the_states_of_the_table_and_no_others(state: ReplicaState, target: ReplicaState) -> None:
    cluster = cluster_with_topic()
    context = cluster.controller.context
    assert context is not None
    context[KEY].replica_states[2] = state
    change_replica(cluster.controller, 2, target)
    cluster.run()
    assert context.state_of(Replica(KEY, 2)) is (target if state in REPLICA_TABLE[target] else state)


def test_what_replicas_are_told() -> None:
    """The right column of the table in replicas.py."""
    cluster = cluster_with_topic()
    context = cluster.controller.context
    assert context is not None
    told = {}
    for state, target in itertools.product(ReplicaState, repeat=2):
        if state in REPLICA_TABLE[target] and target is not ReplicaState.NON_EXISTENT:
            context[KEY].leadership = cluster.state("t")
            context[KEY].replica_states[2] = state
            cluster.take()
            change_replica(cluster.controller, 2, target)
            cluster.run()
            told[state, target] = cluster.take()[2]
    updated = ["leader_and_isr", "update_metadata"]
    by_target = {
        ReplicaState.NEW: updated,
        ReplicaState.ONLINE: updated,
        ReplicaState.OFFLINE: ["update_metadata", "stop_replica"],
        ReplicaState.DELETION_STARTED: ["stop_replica"],
        ReplicaState.DELETION_SUCCESSFUL: [],
        ReplicaState.DELETION_INELIGIBLE: [],
    }
    assert told == {
        (state, target): [] if (state, target) == (ReplicaState.NEW, ReplicaState.ONLINE) else by_target[target]
        for state, target in told
    }


def test_an_offline_replica_leaves_those_in_sync_and_the_others_hear_of_it() -> None:
    """ReplicaStateMachineTest.testOnlineReplicaToOfflineReplicaTransition."""
    cluster = cluster_with_topic()
    change_replica(cluster.controller, 2, ReplicaState.OFFLINE)
    cluster.run()
    assert cluster.state("t")[:3] == (1, 1, (1, 3))
    assert cluster.take() == {
        1: ["leader_and_isr", "update_metadata"],
        2: ["update_metadata", "stop_replica"],
        3: ["leader_and_isr", "update_metadata"],
    }


def test_the_last_replica_in_sync_stays_so_and_leads_no_more() -> None:
    cluster = cluster_with_topic()
    for broker_id in (2, 3, 1):
        change_replica(cluster.controller, broker_id, ReplicaState.OFFLINE)
    cluster.run()
    assert cluster.state("t")[:3] == (NO_LEADER, 3, (1,))


def test_a_replica_that_leads_cannot_be_new() -> None:
    cluster = cluster_with_topic()
    context = cluster.controller.context
    assert context is not None
    del context[KEY].replica_states[1]
    change_replica(cluster.controller, 1, ReplicaState.NEW)
    cluster.run()
    assert context.state_of(Replica(KEY, 1)) is ReplicaState.NON_EXISTENT
