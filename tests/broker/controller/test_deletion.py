"""Topics that are to go: the znodes, what brokers are told, and what holds a deletion up (TopicDeletionManagerTest)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.settings import metadata_tree
from tests.broker.controller.administered import AdministeredCluster, is_there, partitions_of


def mark(cluster: AdministeredCluster, *topics: str) -> None:
    for topic in topics:
        cluster.ensemble.make(znodes.delete_topic_path(topic))
    cluster.run()


def is_gone(cluster: AdministeredCluster, topic: str) -> bool:
    there = is_there(cluster, topic)
    assert len(there) in (0, 3), there
    assert (topic in cluster.context.topics) == bool(there)
    return not there


def test_every_replica_is_deleted_and_then_the_znodes() -> None:
    cluster = AdministeredCluster()
    cluster.make_partitions("t", [1, 2], [2, 3])
    cluster.make_partitions("kept", [1, 2, 3])
    cluster.forget()
    mark(cluster, "t")
    assert is_gone(cluster, "t")
    assert cluster.state("kept").leader == 1
    assert cluster.cache.topic("t") is None
    stopped = [
        (broker_id, key, state.delete_partition, state.leader_epoch)
        for broker_id, request in cluster.told("stop_replica")
        for key, state in zip(partitions_of(request), request.topic_states[0].partition_states, strict=True)
    ]
    replicas = {(1, ("t", 0)), (2, ("t", 0)), (2, ("t", 1)), (3, ("t", 1))}
    assert {entry[:2] for entry in stopped if not entry[2]} == replicas
    assert {entry[:2] for entry in stopped if entry[2]} == replicas
    assert {entry[3] for entry in stopped} == {-2}  # EpochDuringDelete (KIP-570)


def test_a_replica_whose_broker_is_away_holds_it_up_until_it_is_back() -> None:
    cluster = AdministeredCluster()
    cluster.make_partitions("t", [1, 2, 3])
    cluster.end_session(3)
    mark(cluster, "t")
    assert not is_gone(cluster, "t")
    assert cluster.cache.topic("t") is None  # clients see it no more
    cluster.start(3)
    assert is_gone(cluster, "t")


def test_a_broker_that_dies_while_it_deletes_holds_it_up() -> None:
    cluster = AdministeredCluster()
    cluster.make_partitions("t", [1, 2, 3])
    cluster.brokers[2].stop()
    mark(cluster, "t")
    assert not is_gone(cluster, "t")
    cluster.end_session(2)
    cluster.brokers[2].go_on()
    assert not is_gone(cluster, "t")
    cluster.start(2)
    assert is_gone(cluster, "t")


def test_a_broker_that_cannot_delete_is_asked_again_when_it_comes_back() -> None:
    cluster = AdministeredCluster()
    cluster.make_partitions("t", [1, 2, 3])
    cluster.brokers[3].undeletable.add(("t", 0))
    mark(cluster, "t")
    assert not is_gone(cluster, "t")
    cluster.end_session(3)
    cluster.brokers[3].undeletable.clear()
    cluster.start(3)
    assert is_gone(cluster, "t")


def test_the_next_controller_goes_on_where_the_mark_is() -> None:
    cluster = AdministeredCluster()
    cluster.make_partitions("t", [1, 2], [2, 3])
    cluster.end_session(3)
    mark(cluster, "t")
    cluster.next_controller()
    assert not is_gone(cluster, "t")
    cluster.start(3)
    assert is_gone(cluster, "t")


def test_a_mark_that_was_set_while_nobody_was_the_controller_counts() -> None:
    cluster = AdministeredCluster()
    cluster.make_partitions("t", [1, 2])
    for topic in ("t", "unknown"):
        cluster.ensemble.make(znodes.delete_topic_path(topic))
    cluster.next_controller()
    assert is_gone(cluster, "t")
    assert cluster.ensemble.children(metadata_tree.DELETE_TOPICS) == []


def test_marks_of_unknown_topics_go() -> None:
    cluster = AdministeredCluster()
    mark(cluster, "unknown")
    assert cluster.ensemble.children(metadata_tree.DELETE_TOPICS) == []


def test_nothing_is_deleted_where_that_is_disabled() -> None:
    cluster = AdministeredCluster(delete_topic_enable="false")
    cluster.make_partitions("t", [1, 2])
    mark(cluster, "t")
    assert cluster.ensemble.children(metadata_tree.DELETE_TOPICS) == []
    assert cluster.ensemble.stat(znodes.topic_path("t")) is not None
    assert cluster.state("t").leader == 1


def test_a_topic_is_made_anew_after_its_deletion() -> None:
    cluster = AdministeredCluster()
    cluster.make_partitions("t", [1, 2])
    first = cluster.context.topics["t"].topic_id
    mark(cluster, "t")
    cluster.make_partitions("t", [3])
    assert cluster.context.topics["t"].topic_id != first
    assert (cluster.state("t").leader, cluster.state("t").leader_epoch) == (3, 0)


def test_a_reassignment_is_finished_first() -> None:
    cluster = AdministeredCluster(4)
    cluster.make_partitions("t", [1, 2])
    done: list[object] = []
    cluster.administration.alter_reassignments({("t", 0): [3, 4]}, done.append)
    cluster.run()
    assert done == [{("t", 0): None}]
    mark(cluster, "t")
    assert not is_gone(cluster, "t")
    assert cluster.set_in_sync("t", (1, 2, 3, 4)) is ErrorCode.none
    assert is_gone(cluster, "t")


def test_many_topics_go_together() -> None:
    cluster = AdministeredCluster()
    topics = [f"t{number}" for number in range(50)]
    for topic in topics:
        cluster.make_partitions(topic, [1, 2, 3], [2, 3, 1])
    mark(cluster, *topics)
    assert all(is_gone(cluster, topic) for topic in topics)
