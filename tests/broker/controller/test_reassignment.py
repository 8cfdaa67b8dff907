"""Partitions that move (KIP-455): what stands in ZooKeeper, what brokers are told, and what comes in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.state import ReplicaAssignment
from highwater.broker.topics.administration import Reassignment
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.problem import Problem
from tests.broker.controller.administered import AdministeredCluster, partitions_of

T0 = ("t", 0)


def alter(
    cluster: AdministeredCluster, wanted: dict[TopicPartition, list[int] | None], **rules: bool
) -> dict[TopicPartition, Any]:
    """The error of each, none for those that began to move."""
    results: list[Any] = []
    cluster.administration.alter_reassignments(wanted, results.append, **rules)
    cluster.run()
    (result,) = results
    assert isinstance(result, dict)
    return {key: ErrorCode.none if problem is None else problem.error_code for key, problem in result.items()}


def move(cluster: AdministeredCluster, target: Sequence[int] | None, key: TopicPartition = T0) -> None:
    assert alter(cluster, {key: None if target is None else list(target)}) == {key: ErrorCode.none}


def listed(cluster: AdministeredCluster, partitions: Sequence[TopicPartition] | None = None) -> Any:
    results: list[Any] = []
    cluster.administration.list_reassignments(partitions, results.append)
    (result,) = results
    return result


def deleted_on(cluster: AdministeredCluster) -> set[int]:
    """Who was told to delete its replica of t-0 since the last time."""
    return {
        broker_id
        for broker_id, request in cluster.told("stop_replica")
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition and (topic.topic_name, state.partition_index) == T0
    }


def moving_cluster() -> AdministeredCluster:
    cluster = AdministeredCluster(6)
    cluster.make_partitions("t", [1, 2, 3])
    cluster.forget()
    return cluster


def test_a_move_can_be_held_to_the_number_of_replicas() -> None:
    """Where a partition moves already, to the number that it will have (KIP-860)."""
    cluster = moving_cluster()
    for target in ([1, 2], [1, 2, 3, 4]):
        refused = alter(cluster, {T0: target}, may_change_replication_factor=False)
        assert refused == {T0: ErrorCode.invalid_replication_factor}
    assert cluster.assignment("t") == {0: ReplicaAssignment((1, 2, 3))}
    assert alter(cluster, {T0: [4, 5, 6]}, may_change_replication_factor=False) == {T0: ErrorCode.none}
    assert alter(cluster, {T0: [1, 5, 6]}, may_change_replication_factor=False) == {T0: ErrorCode.none}
    assert alter(cluster, {T0: [1, 5]}) == {T0: ErrorCode.none}


def test_it_goes_through_the_states_that_kafka_describes() -> None:
    """The table in the comment of KafkaController.onPartitionReassignment."""
    cluster = moving_cluster()
    move(cluster, [4, 5, 6])
    both = ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert cluster.assignment("t") == {0: both}
    state = cluster.state("t")
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (1, 1, (1, 2, 3))
    told = cluster.told("leader_and_isr")
    new = {
        broker_id for broker_id, request in told for topic in request.topic_states if topic.partition_states[0].is_new
    }
    assert {broker_id for broker_id, _ in told} == {1, 2, 3, 4, 5, 6}
    assert new == {4, 5, 6}
    assert told[0][1].topic_states[0].partition_states[0].adding_replicas == (4, 5, 6)
    assert listed(cluster) == {T0: Reassignment([4, 5, 6, 1, 2, 3], [4, 5, 6], [1, 2, 3])}
    assert cluster.set_in_sync("t", (1, 2, 3, 4)) is ErrorCode.none
    assert cluster.assignment("t") == {0: both}
    assert deleted_on(cluster) == set()
    assert cluster.set_in_sync("t", (1, 2, 3, 4, 5, 6)) is ErrorCode.none
    assert cluster.assignment("t") == {0: ReplicaAssignment((4, 5, 6))}
    state = cluster.state("t")
    assert state.leader == 4
    assert state.leader_epoch > 1
    assert sorted(state.in_sync_replicas) == [4, 5, 6]
    assert deleted_on(cluster) == {1, 2, 3}
    assert listed(cluster) == {}
    view = cluster.cache.partition(*T0)
    assert view is not None
    assert (view.leader, view.replicas, sorted(view.in_sync_replicas)) == (4, [4, 5, 6], [4, 5, 6])


def test_a_leader_that_stays_leads_on() -> None:
    cluster = moving_cluster()
    move(cluster, [2, 1])
    assert cluster.assignment("t") == {0: ReplicaAssignment((2, 1))}
    state = cluster.state("t")
    assert (state.leader, state.in_sync_replicas) == (1, (1, 2))
    assert deleted_on(cluster) == {3}


def test_more_replicas_and_fewer() -> None:
    cluster = moving_cluster()
    move(cluster, [1, 2, 3, 4])
    assert cluster.assignment("t") == {0: ReplicaAssignment((1, 2, 3, 4), (4,), ())}
    cluster.set_in_sync("t", (1, 2, 3, 4))
    assert cluster.assignment("t") == {0: ReplicaAssignment((1, 2, 3, 4))}
    move(cluster, [4])
    assert cluster.assignment("t") == {0: ReplicaAssignment((4,))}
    assert (cluster.state("t").leader, cluster.state("t").in_sync_replicas) == (4, (4,))


def test_another_order_is_done_at_once() -> None:
    cluster = moving_cluster()
    move(cluster, [3, 2, 1])
    assert cluster.assignment("t") == {0: ReplicaAssignment((3, 2, 1))}
    assert cluster.state("t").leader == 1


def test_a_cancelled_move_goes_back_and_removes_what_it_added() -> None:
    cluster = moving_cluster()
    move(cluster, [4, 2, 3])
    cluster.set_in_sync("t", (1, 2, 3))
    move(cluster, None)
    assert sorted(cluster.assignment("t")[0].replicas) == [1, 2, 3]
    assert not cluster.assignment("t")[0].is_being_reassigned
    assert deleted_on(cluster) == {4}
    assert listed(cluster) == {}
    assert alter(cluster, {T0: None}) == {T0: ErrorCode.no_reassignment_in_progress}


def test_a_new_wish_takes_the_place_of_the_last() -> None:
    cluster = moving_cluster()
    move(cluster, [4, 2, 3])
    move(cluster, [5, 2, 3])
    assert cluster.assignment("t") == {0: ReplicaAssignment((5, 2, 3, 1), (5,), (1,))}
    assert deleted_on(cluster) == {4}
    cluster.forget()
    cluster.set_in_sync("t", (1, 2, 3, 5))
    assert cluster.assignment("t") == {0: ReplicaAssignment((5, 2, 3))}
    assert deleted_on(cluster) == {1}


def test_nobody_who_alone_has_everything_is_taken_away() -> None:
    """Of those that came only 4 is in sync when the others die: what was acknowledged since is nowhere else."""
    cluster = moving_cluster()
    move(cluster, [4, 5, 6])
    cluster.set_in_sync("t", (1, 2, 3, 4))
    for broker_id in (3, 2, 1):
        cluster.end_process(broker_id)
        cluster.run()
    assert (cluster.leader("t"), cluster.in_sync("t")) == (4, (4,))
    cluster.forget()
    before = cluster.assignment("t")
    refused = {T0: ErrorCode.invalid_replica_assignment}
    assert alter(cluster, {T0: None}) == refused
    assert alter(cluster, {T0: [5, 6]}) == refused
    assert cluster.assignment("t") == before
    assert (cluster.leader("t"), cluster.in_sync("t")) == (4, (4,))
    cluster.ensemble.make(znodes.REASSIGN_PARTITIONS, znodes.encode(znodes.reassignment_value({T0: (5, 6)})))
    cluster.run()
    assert cluster.ensemble.data(znodes.REASSIGN_PARTITIONS) is None
    assert cluster.assignment("t") == before
    assert deleted_on(cluster) == set()
    move(cluster, [4, 6])
    assert cluster.leader("t") == 4


def test_a_replica_that_came_into_sync_is_new_no_longer() -> None:
    """Its broker would begin it anew, empty, beside a log directory that failed."""
    cluster = moving_cluster()
    move(cluster, [4, 5, 6])
    cluster.set_in_sync("t", (1, 2, 3, 4))
    for broker_id in (3, 2, 1):
        cluster.end_process(broker_id)
        cluster.run()
    cluster.end_session(4)
    cluster.forget()
    cluster.start(4)
    assert cluster.leader("t") == 4
    told = [
        (broker_id, state.is_new)
        for broker_id, request in cluster.told("leader_and_isr")
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert {is_new for broker_id, is_new in told if broker_id == 4} == {False}
    assert (5, True) in told


@pytest.mark.parametrize("controllers", [1, 2])
def test_the_next_controller_goes_on(controllers: int) -> None:
    cluster = moving_cluster()
    move(cluster, [4, 5, 6])
    for _ in range(controllers):
        cluster.next_controller()
    assert T0 in listed(cluster)
    cluster.set_in_sync("t", (1, 2, 3, 4, 5, 6))
    assert cluster.assignment("t") == {0: ReplicaAssignment((4, 5, 6))}
    assert deleted_on(cluster) == {1, 2, 3}


def test_a_move_to_a_broker_that_dies_waits_for_it() -> None:
    cluster = moving_cluster()
    move(cluster, [1, 2, 4])
    cluster.end_session(4)
    cluster.forget()
    cluster.start(4)
    told = [broker_id for broker_id, request in cluster.told("leader_and_isr") if T0 in partitions_of(request)]
    assert 4 in told
    cluster.set_in_sync("t", (1, 2, 3, 4))
    assert cluster.assignment("t") == {0: ReplicaAssignment((1, 2, 4))}


def test_it_is_not_finished_while_nobody_of_the_target_can_lead() -> None:
    """What is removed is the last that serves, though those of the target have all in their logs."""
    cluster = moving_cluster()
    move(cluster, [4, 5])
    cluster.forget()
    cluster.end_session(4)
    assert cluster.set_in_sync("t", (1, 2, 3, 5)) is ErrorCode.none
    cluster.end_session(5)
    assert cluster.state("t").leader == 1
    assert deleted_on(cluster) == set()


def test_what_cannot_be_done_is_refused() -> None:
    cluster = moving_cluster()
    cluster.end_session(6)
    unknown = ("t", 7)
    for target in ([], [1, 1], [1, -2], [1, 6], [1, 99]):
        assert alter(cluster, {T0: target}) == {T0: ErrorCode.invalid_replica_assignment}, target
    assert alter(cluster, {unknown: [1], ("u", 0): [1]}) == {
        unknown: ErrorCode.unknown_topic_or_partition,
        ("u", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert alter(cluster, {T0: None, unknown: None}) == dict.fromkeys(
        (T0, unknown), ErrorCode.no_reassignment_in_progress
    )
    assert cluster.assignment("t") == {0: ReplicaAssignment((1, 2, 3))}
    # A replica that is away may stay.
    cluster.end_session(3)
    assert alter(cluster, {T0: [1, 3, 4]}) == {T0: ErrorCode.none}


def test_many_partitions_move_together() -> None:
    cluster = AdministeredCluster(4)
    for number in range(5):
        cluster.make_partitions(f"t{number}", *([1, 2] for _ in range(20)))
    wanted: dict[TopicPartition, list[int] | None] = {
        (f"t{number}", index): [3, 4] for number in range(5) for index in range(20)
    }
    assert set(alter(cluster, wanted).values()) == {ErrorCode.none}
    assert len(listed(cluster)) == 100
    assert set(listed(cluster, [("t0", 1), ("t0", 99)])) == {("t0", 1)}
    for topic, index in wanted:
        assert cluster.set_in_sync(topic, (1, 2, 3, 4), index) is ErrorCode.none
    assert {assigned.replicas for number in range(5) for assigned in cluster.assignment(f"t{number}").values()} == {
        (3, 4)
    }


def test_the_znode_of_older_tools_is_taken_up_and_taken_away() -> None:
    cluster = moving_cluster()
    value = znodes.reassignment_value({T0: (4, 2, 3), ("unknown", 0): (1,)})
    cluster.ensemble.make(znodes.REASSIGN_PARTITIONS, znodes.encode(value))
    cluster.run()
    data = cluster.ensemble.data(znodes.REASSIGN_PARTITIONS)
    assert data is not None
    assert znodes.read(data, znodes.parse_reassignment) == {T0: (4, 2, 3)}
    epoch = cluster.state("t").leader_epoch
    cluster.set_in_sync("t", (1, 2, 3, 4))
    assert cluster.ensemble.data(znodes.REASSIGN_PARTITIONS) is None
    assert cluster.assignment("t") == {0: ReplicaAssignment((4, 2, 3))}
    assert cluster.state("t").leader_epoch > epoch
    # And again: the watch stands.
    cluster.ensemble.make(znodes.REASSIGN_PARTITIONS, znodes.encode(znodes.reassignment_value({T0: (2, 3, 4)})))
    cluster.run()
    assert cluster.assignment("t") == {0: ReplicaAssignment((2, 3, 4))}
    assert cluster.ensemble.data(znodes.REASSIGN_PARTITIONS) is None


def test_a_wish_by_the_api_takes_the_place_of_one_by_the_znode() -> None:
    cluster = moving_cluster()
    cluster.ensemble.make(znodes.REASSIGN_PARTITIONS, znodes.encode(znodes.reassignment_value({T0: (4, 2, 3)})))
    cluster.run()
    move(cluster, [5, 2, 3])
    assert cluster.ensemble.data(znodes.REASSIGN_PARTITIONS) is None
    assert cluster.assignment("t")[0].target == (5, 2, 3)


def test_nonsense_in_the_znode_harms_nobody() -> None:
    cluster = moving_cluster()
    cluster.ensemble.make(znodes.REASSIGN_PARTITIONS, b"nonsense")
    cluster.run()
    move(cluster, [2, 3, 1])
    assert cluster.assignment("t") == {0: ReplicaAssignment((2, 3, 1))}


def test_new_partitions_that_nobody_has_heard_of_yet_are_kept() -> None:
    """A topic grows while the controller is about to write an assignment of it."""
    cluster = moving_cluster()
    results: list[Any] = []
    cluster.administration.alter_reassignments({T0: [4, 2, 3]}, results.append)
    grown = cluster.assignment("t") | {1: ReplicaAssignment((2, 3, 4))}
    value = znodes.assigned_topic_value(cluster.context.topics["t"].topic_id, grown)
    cluster.ensemble.make(znodes.topic_path("t"), znodes.encode(value))
    cluster.run()
    assert cluster.assignment("t") == {
        0: ReplicaAssignment((4, 2, 3, 1), (4,), (1,)),
        1: ReplicaAssignment((2, 3, 4)),
    }
    assert cluster.state("t", 1).leader == 2


def test_another_broker_refuses() -> None:
    cluster = moving_cluster()
    another = cluster.administration_of(2)
    results: list[Any] = []
    another.alter_reassignments({T0: [4]}, results.append)
    another.list_reassignments(None, results.append)
    assert [isinstance(result, Problem) and result.error_code for result in results] == [ErrorCode.not_controller] * 2
