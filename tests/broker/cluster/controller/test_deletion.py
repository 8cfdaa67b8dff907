"""Topics that are to go: the znodes, what brokers are told, and what holds a deletion up (TopicDeletionManagerTest)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker.cluster import znodes
from tests.broker.cluster.controller.brokers import PlayedCluster, partitions_of


def mark(cluster: PlayedCluster, *topics: str) -> None:
    for topic in topics:
        cluster.ensemble.make(znodes.delete_topic_path(topic))
    cluster.scheduler.run()


def is_gone(cluster: PlayedCluster, topic: str) -> bool:
    paths = (znodes.topic_path(topic), znodes.topic_config_path(topic), znodes.delete_topic_path(topic))
    there = [path for path in paths if cluster.ensemble.stat(path) is not None]
    assert len(there) in (0, 3), there
    assert (topic in cluster.context.topics) == bool(there)
    return not there


def test_every_replica_is_deleted_and_then_the_znodes() -> None:
    cluster = PlayedCluster()
    cluster.make_topic("t", [1, 2], [2, 3])
    cluster.make_topic("kept", [1, 2, 3])
    cluster.brokers.told.clear()
    mark(cluster, "t")
    assert is_gone(cluster, "t")
    assert cluster.state("kept").leader == 1
    assert cluster.cache.topic("t") is None
    stopped = [
        (broker_id, key, state.delete_partition, state.leader_epoch)
        for broker_id, request in cluster.brokers.taken("stop_replica")
        for key, state in zip(partitions_of(request), request.topic_states[0].partition_states, strict=True)
    ]
    replicas = {(1, ("t", 0)), (2, ("t", 0)), (2, ("t", 1)), (3, ("t", 1))}
    assert {entry[:2] for entry in stopped if not entry[2]} == replicas
    assert {entry[:2] for entry in stopped if entry[2]} == replicas
    assert {entry[3] for entry in stopped} == {-2}  # EpochDuringDelete (KIP-570)


def test_a_replica_whose_broker_is_away_holds_it_up_until_it_is_back() -> None:
    cluster = PlayedCluster()
    cluster.make_topic("t", [1, 2, 3])
    cluster.unregister(3)
    mark(cluster, "t")
    assert not is_gone(cluster, "t")
    assert cluster.cache.topic("t") is None  # clients see it no more
    cluster.register(3)
    assert is_gone(cluster, "t")


def test_a_broker_that_dies_while_it_deletes_holds_it_up() -> None:
    cluster = PlayedCluster()
    cluster.make_topic("t", [1, 2, 3])
    cluster.brokers.silent.add(2)
    mark(cluster, "t")
    assert not is_gone(cluster, "t")
    cluster.unregister(2)
    cluster.brokers.silent.clear()
    assert not is_gone(cluster, "t")
    cluster.register(2)
    assert is_gone(cluster, "t")


def test_a_broker_that_cannot_delete_is_asked_again_when_it_comes_back() -> None:
    cluster = PlayedCluster()
    cluster.make_topic("t", [1, 2, 3])
    cluster.brokers.deletion_errors[3] = ErrorCode.kafka_storage_error
    mark(cluster, "t")
    assert not is_gone(cluster, "t")
    cluster.unregister(3)
    cluster.brokers.deletion_errors.clear()
    cluster.register(3)
    assert is_gone(cluster, "t")


def test_the_next_controller_goes_on_where_the_mark_is() -> None:
    cluster = PlayedCluster()
    cluster.make_topic("t", [1, 2], [2, 3])
    cluster.unregister(3)
    mark(cluster, "t")
    cluster.end_controller()
    cluster.begin_controller()
    assert not is_gone(cluster, "t")
    cluster.register(3)
    assert is_gone(cluster, "t")


def test_a_mark_that_was_set_while_nobody_was_the_controller_counts() -> None:
    cluster = PlayedCluster()
    cluster.make_topic("t", [1, 2])
    cluster.end_controller()
    mark(cluster, "t", "unknown")
    cluster.begin_controller()
    assert is_gone(cluster, "t")
    assert cluster.ensemble.children(znodes.DELETE_TOPICS) == []


def test_marks_of_unknown_topics_go() -> None:
    cluster = PlayedCluster()
    mark(cluster, "unknown")
    assert cluster.ensemble.children(znodes.DELETE_TOPICS) == []


def test_nothing_is_deleted_where_that_is_disabled() -> None:
    cluster = PlayedCluster(delete_topic_enable="false")
    cluster.make_topic("t", [1, 2])
    mark(cluster, "t")
    assert cluster.ensemble.children(znodes.DELETE_TOPICS) == []
    assert cluster.ensemble.stat(znodes.topic_path("t")) is not None
    assert cluster.state("t").leader == 1


def test_a_topic_is_made_anew_after_its_deletion() -> None:
    cluster = PlayedCluster()
    cluster.make_topic("t", [1, 2])
    first = cluster.context.topics["t"].topic_id
    mark(cluster, "t")
    cluster.make_topic("t", [3])
    assert cluster.context.topics["t"].topic_id != first
    assert (cluster.state("t").leader, cluster.state("t").leader_epoch) == (3, 0)


def test_a_reassignment_is_finished_first() -> None:
    cluster = PlayedCluster(4)
    cluster.make_topic("t", [1, 2])
    done: list[object] = []
    cluster.administration.alter_reassignments({("t", 0): [3, 4]}, done.append, timeout_ms=1)
    cluster.scheduler.run()
    assert done == [{("t", 0): None}]
    mark(cluster, "t")
    assert not is_gone(cluster, "t")
    assert cluster.set_in_sync("t", (1, 2, 3, 4)) is ErrorCode.none
    assert is_gone(cluster, "t")


def test_many_topics_go_together() -> None:
    cluster = PlayedCluster()
    topics = [f"t{number}" for number in range(50)]
    for topic in topics:
        cluster.make_topic(topic, [1, 2, 3], [2, 3, 1])
    mark(cluster, *topics)
    assert all(is_gone(cluster, topic) for topic in topics)
