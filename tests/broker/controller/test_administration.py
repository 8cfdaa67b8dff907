"""Topics made, grown and deleted by the controller: what is written, what is refused, and when it is answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.state import ReplicaAssignment
from highwater.broker.cluster.zookeeper import Delete
from highwater.broker.settings import metadata_tree
from highwater.broker.topics.administration import CreatedTopic, ElectionType, MorePartitions, NewTopic, Terms
from highwater.kafka.protocol.problem import Problem
from tests.broker.controller.administered import AdministeredCluster

NONE = ErrorCode.none


def error_of(result: Any) -> ErrorCode:
    return result.error_code if isinstance(result, Problem) else NONE


def ask_create(cluster: AdministeredCluster, *wanted: NewTopic, timeout_ms: int = 5000, **options: Any) -> list[Any]:
    """The answer, once it is there."""
    answers: list[Any] = []
    cluster.administration.create_topics(wanted, Terms(timeout_ms, **options), answers.append)
    cluster.run()
    return answers


def create(cluster: AdministeredCluster, *wanted: NewTopic, **options: Any) -> list[ErrorCode]:
    (results,) = ask_create(cluster, *wanted, **options)
    return [error_of(result) for result in results]


def grow(cluster: AdministeredCluster, *wanted: MorePartitions, **options: Any) -> list[ErrorCode]:
    answers: list[Any] = []
    cluster.administration.add_partitions(wanted, Terms(5000, **options), answers.append)
    cluster.run()
    return [error_of(result) for result in answers[0]]


def delete(cluster: AdministeredCluster, *names: str, **options: Any) -> list[Any]:
    answers: list[Any] = []
    cluster.administration.delete_topics(names, Terms(5000, **options), answers.append)
    cluster.run()
    return answers


def elect(cluster: AdministeredCluster, partitions: Sequence[tuple[str, int]] | None, election: ElectionType) -> Any:
    answers: list[Any] = []
    cluster.administration.elect_leaders(partitions, election, 5000, answers.append)
    cluster.run()
    return {key: error_of(result) for key, result in answers[0].items()}


def test_a_topic_is_there_with_leaders_when_it_is_answered() -> None:
    cluster = AdministeredCluster()
    wanted = NewTopic("t", 6, 2, config={"retention.ms": "5000"})
    ((created,),) = ask_create(cluster, wanted)
    assert isinstance(created, CreatedTopic)
    assert (created.partition_count, created.replication_factor) == (6, 2)
    assert created.config.value("retention.ms") == 5000
    assert (
        cluster.ensemble.data(metadata_tree.topic_config_path("t")) == b'{"version":1,"config":{"retention.ms":"5000"}}'
    )
    assert created.topic_id == cluster.context.topics["t"].topic_id
    leaders = Counter(cluster.state("t", index).leader for index in range(6))
    assert leaders == {1: 2, 2: 2, 3: 2}
    view = cluster.cache.topic("t")
    assert view is not None
    assert {index: tuple(found.replicas) for index, found in view.partitions.items()} == {
        index: assigned.replicas for index, assigned in cluster.assignment("t").items()
    }


def test_the_defaults_are_the_brokers() -> None:
    cluster = AdministeredCluster(num_partitions="5", default_replication_factor="3")
    ((created,),) = ask_create(cluster, NewTopic("t"))
    assert (created.partition_count, created.replication_factor) == (5, 3)


def test_replicas_are_spread_over_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    cluster = AdministeredCluster(4, racks)
    assert create(cluster, NewTopic("t", 8, 2)) == [NONE]
    for assigned in cluster.assignment("t").values():
        assert {racks[replica] for replica in assigned.replicas} == {"a", "b"}


def test_brokers_without_a_rack_among_others_are_told_of() -> None:
    """As AdminUtils, which refuses to guess."""
    assert create(AdministeredCluster(2, {1: "a"}), NewTopic("t", 1, 1)) == [ErrorCode.unknown_server_error]


def test_an_assignment_is_taken_as_it_is() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", assignment={1: [3, 1], 0: [2, 3]})) == [NONE]
    assert cluster.assignment("t") == {0: ReplicaAssignment((2, 3)), 1: ReplicaAssignment((3, 1))}


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (NewTopic("", 1, 1), ErrorCode.invalid_topic_exception),
        (NewTopic("a/b", 1, 1), ErrorCode.invalid_topic_exception),
        (NewTopic("..", 1, 1), ErrorCode.invalid_topic_exception),
        (NewTopic("taken", 1, 1), ErrorCode.topic_already_exists),
        (NewTopic("like_this", 1, 1), ErrorCode.invalid_topic_exception),
        (NewTopic("t", 0, 1), ErrorCode.invalid_partitions),
        (NewTopic("t", 1, 0), ErrorCode.invalid_replication_factor),
        (NewTopic("t", 1, 4), ErrorCode.invalid_replication_factor),
        (NewTopic("t", 1, 1, {0: [1]}), ErrorCode.invalid_request),
        (NewTopic("t", assignment={0: [1, 1]}), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", assignment={0: [1], 1: [1, 2]}), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", assignment={1: [1]}), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", assignment={0: []}), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", assignment={0: [-1]}), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", 1, 1, config={"no.such": "1"}), ErrorCode.invalid_config),
        (NewTopic("t", 1, 1, config={"retention.ms": None}), ErrorCode.invalid_config),
        (NewTopic("t", 10_001, 1), ErrorCode.policy_violation),
    ],
)
def test_what_is_refused(wanted: NewTopic, error: ErrorCode) -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("taken", 1, 1), NewTopic("like.this", 1, 1)) == [NONE, NONE]
    before = cluster.ensemble.zxid
    for validate_only in (True, False):
        assert create(cluster, wanted, validate_only=validate_only) == [error]
    assert cluster.ensemble.zxid == before


def test_unknown_brokers_are_not_asked_about_as_in_kafka() -> None:
    """ZkAdminManager.createTopics follows its tool of old: the partition has no leader until they come."""
    cluster = AdministeredCluster()
    assert ask_create(cluster, NewTopic("t", assignment={0: [9]})) == []
    cluster.run(5000)
    assert cluster.assignment("t") == {0: ReplicaAssignment((9,))}


def test_several_in_one_request_and_those_that_fail_fail_alone() -> None:
    cluster = AdministeredCluster()
    wanted = [NewTopic("a", 2, 3), NewTopic("a.b", 1, 9), NewTopic("c", 1, 1), NewTopic("a_b", 1, 1)]
    assert create(cluster, *wanted) == [NONE, ErrorCode.invalid_replication_factor, NONE, NONE]
    assert cluster.ensemble.children(metadata_tree.TOPICS) == ["a", "a_b", "c"]
    assert cluster.ensemble.children(metadata_tree.TOPIC_CONFIGS) == ["a", "a_b", "c"]


def test_nothing_is_made_to_validate() -> None:
    cluster = AdministeredCluster()
    before = cluster.ensemble.zxid
    ((validated,),) = ask_create(cluster, NewTopic("t", 3, 2), validate_only=True)
    assert (validated.topic_id, validated.partition_count, validated.replication_factor) == (None, 3, 2)
    assert cluster.ensemble.zxid == before


def test_settings_left_of_a_topic_of_old_are_replaced() -> None:
    cluster = AdministeredCluster()
    cluster.ensemble.make(metadata_tree.topic_config_path("t"), b'{"version":1,"config":{"retention.ms":"1"}}')
    assert create(cluster, NewTopic("t", 1, 1)) == [NONE]
    assert cluster.ensemble.data(metadata_tree.topic_config_path("t")) == b'{"version":1,"config":{}}'


def test_the_answer_waits_for_leaders_and_not_longer_than_it_may() -> None:
    cluster = AdministeredCluster()
    cluster.brokers[1].stop()  # it hears nothing of its own cluster
    answers = ask_create(cluster, NewTopic("t", 1, 1), NewTopic("bad", 1, 9), timeout_ms=1000)
    assert answers == []
    cluster.run(999)
    assert answers == []
    cluster.run(1)
    assert [error_of(result) for result in answers[0]] == [
        ErrorCode.request_timed_out,
        ErrorCode.invalid_replication_factor,
    ]
    assert cluster.state("t").leader_epoch == 0  # it is made all the same


def test_who_does_not_wait_is_told_so() -> None:
    assert create(AdministeredCluster(), NewTopic("t", 1, 1), timeout_ms=0) == [ErrorCode.request_timed_out]


def test_only_the_controller_administers() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", 1, 1)) == [NONE]
    another = cluster.administration_of(2)
    results: list[Any] = []
    another.create_topics([NewTopic("u", 1, 1)], Terms(1), results.extend)
    another.add_partitions([MorePartitions("t", 2)], Terms(1), results.extend)
    another.delete_topics(["t"], Terms(1), results.extend)
    another.elect_leaders([("t", 0)], ElectionType.PREFERRED, 1, results.append)
    elected = results.pop()
    results.append(elected["t", 0])
    assert list(map(error_of, results)) == [ErrorCode.not_controller] * 4


def test_a_controller_that_was_superseded_writes_nothing() -> None:
    cluster = AdministeredCluster()
    cluster.ensemble.make(metadata_tree.CONTROLLER_EPOCH, b"7")
    assert create(cluster, NewTopic("t", 1, 1)) == [ErrorCode.not_controller]
    assert cluster.ensemble.children(metadata_tree.TOPICS) == []


def test_a_topic_grows_where_its_first_replica_stands() -> None:
    """AdminZkClient begins at the broker of partition 0, so that growth goes on as creation would have."""
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", assignment={0: [2, 3]})) == [NONE]
    assert grow(cluster, MorePartitions("t", 4)) == [NONE]
    assigned = cluster.assignment("t")
    assert [assigned[index].replicas[0] for index in range(4)] == [2, 3, 1, 2]
    assert all(len(set(entry.replicas)) == 2 for entry in assigned.values())
    assert cluster.state("t", 3).leader == 2
    assert grow(cluster, MorePartitions("t", 5, [[3, 1]])) == [NONE]
    assert cluster.assignment("t")[4].replicas == (3, 1)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (MorePartitions("unknown", 2), ErrorCode.unknown_topic_or_partition),
        (MorePartitions("t", 2), ErrorCode.invalid_partitions),
        (MorePartitions("t", 1), ErrorCode.invalid_partitions),
        (MorePartitions("t", 3, [[1, 9]]), ErrorCode.invalid_replica_assignment),
        (MorePartitions("t", 3, [[1, 2], [2, 3]]), ErrorCode.invalid_replica_assignment),
        (MorePartitions("t", 3, [[1, 1]]), ErrorCode.invalid_replica_assignment),
        (MorePartitions("t", 3, [[1]]), ErrorCode.invalid_replica_assignment),
        (MorePartitions("t", 3, [[]]), ErrorCode.invalid_replica_assignment),
        (MorePartitions("t", 20_000), ErrorCode.policy_violation),
    ],
)
def test_growth_that_is_refused(wanted: MorePartitions, error: ErrorCode) -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", 2, 2)) == [NONE]
    assert grow(cluster, wanted) == [error]
    assert len(cluster.assignment("t")) == 2


def test_a_topic_that_moves_does_not_grow() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", assignment={0: [1, 2]})) == [NONE]
    cluster.administration.alter_reassignments({("t", 0): [3]}, lambda _: None)
    assert grow(cluster, MorePartitions("t", 2)) == [ErrorCode.reassignment_in_progress]


def test_growth_can_be_validated() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", 2, 2)) == [NONE]
    assert grow(cluster, MorePartitions("t", 9), validate_only=True) == [NONE]
    assert len(cluster.assignment("t")) == 2


def test_topics_are_gone_when_it_is_answered() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("a", 2, 3), NewTopic("b", 2, 3)) == [NONE, NONE]
    (results,) = delete(cluster, "a", "unknown", "b")
    assert [error_of(result) for result in results] == [NONE, ErrorCode.unknown_topic_or_partition, NONE]
    assert cluster.ensemble.children(metadata_tree.TOPICS) == []
    assert create(cluster, NewTopic("a", 1, 1)) == [NONE]


def test_who_asks_again_while_a_topic_goes_waits_with_the_first() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", assignment={0: [2, 3]})) == [NONE]
    cluster.end_session(3)
    cluster.brokers[1].stop()
    first, second = delete(cluster, "t"), delete(cluster, "t")
    assert first == second == []
    assert create(cluster, NewTopic("t", 1, 1)) == [ErrorCode.topic_already_exists]
    cluster.run(5000)
    assert error_of(first[0][0]) is error_of(second[0][0]) is ErrorCode.request_timed_out


def test_who_creates_a_topic_that_clients_know_no_more_gets_it() -> None:
    """Its replicas are still being deleted: it exists in ZooKeeper, and does not for clients."""
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", assignment={0: [2, 3]})) == [NONE]
    former = cluster.cache.topic("t")
    cluster.brokers[3].stop()
    (results,) = delete(cluster, "t")
    assert [error_of(result) for result in results] == [NONE]
    assert cluster.cache.topic("t") is None
    assert cluster.ensemble.children(metadata_tree.TOPICS) == ["t"]
    answers = ask_create(cluster, NewTopic("t", 1, 1), NewTopic("u", 1, 1))
    assert answers == []
    cluster.brokers[3].go_on()
    cluster.run(1000)
    ((created, _),) = answers
    assert isinstance(created, CreatedTopic)
    topic = cluster.cache.topic("t")
    assert topic is not None
    assert former is not None
    assert topic.topic_id == created.topic_id != former.topic_id


def test_who_creates_a_topic_whose_deletion_does_not_end_is_told_so_in_time() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", assignment={0: [2, 3]})) == [NONE]
    cluster.brokers[3].stop()
    delete(cluster, "t")
    answers = ask_create(cluster, NewTopic("t", 1, 1), timeout_ms=1000)
    assert answers == []
    cluster.run(2000)
    ((problem,),) = answers
    assert error_of(problem) is ErrorCode.topic_already_exists
    assert create(cluster, NewTopic("t", 1, 1), timeout_ms=0) == [ErrorCode.topic_already_exists]
    cluster.end_session(3)
    assert create(cluster, NewTopic("t", 1, 1)) == [ErrorCode.topic_already_exists], "it would wait for a broker"


def test_deletion_can_be_disabled() -> None:
    cluster = AdministeredCluster(delete_topic_enable="false")
    assert create(cluster, NewTopic("t", 1, 1)) == [NONE]
    assert [error_of(result) for result in delete(cluster, "t")[0]] == [ErrorCode.topic_deletion_disabled]


def test_preferred_leaders_are_elected() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", assignment={0: [1, 2], 1: [2, 1], 2: [3, 1]})) == [NONE]
    cluster.end_session(3)
    cluster.start(3)
    assert cluster.set_in_sync("t", (1, 3), 2) is NONE
    assert elect(cluster, [("t", 0), ("t", 2), ("t", 9)], ElectionType.PREFERRED) == {
        ("t", 0): ErrorCode.election_not_needed,
        ("t", 2): NONE,
        ("t", 9): ErrorCode.unknown_topic_or_partition,
    }
    assert cluster.state("t", 2).leader == 3
    assert elect(cluster, None, ElectionType.PREFERRED) == {}


def test_a_preferred_leader_that_is_away_or_behind_is_not_elected() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", assignment={0: [3, 1]})) == [NONE]
    cluster.end_session(3)
    assert elect(cluster, None, ElectionType.PREFERRED) == {("t", 0): ErrorCode.preferred_leader_not_available}
    cluster.start(3)
    assert elect(cluster, None, ElectionType.PREFERRED) == {("t", 0): ErrorCode.preferred_leader_not_available}


def test_an_unclean_election_takes_who_is_there() -> None:
    cluster = AdministeredCluster()
    assert create(cluster, NewTopic("t", assignment={0: [3, 2]})) == [NONE]
    cluster.end_session(2)
    cluster.end_session(3)
    cluster.start(2)
    assert cluster.state("t").leader == -1
    assert elect(cluster, [("t", 0)], ElectionType.UNCLEAN) == {("t", 0): NONE}
    assert (cluster.state("t").leader, cluster.state("t").is_recovering) == (2, True)
    assert elect(cluster, [("t", 0)], ElectionType.UNCLEAN) == {("t", 0): ErrorCode.election_not_needed}
    cluster.ensemble.do(Delete(znodes.broker_path(2)))
    cluster.run()
    assert elect(cluster, [("t", 0)], ElectionType.UNCLEAN) == {("t", 0): ErrorCode.eligible_leaders_not_available}


class Charges:
    """Counts what is charged, and refuses what comes after a limit."""

    def __init__(self, limit: int) -> None:
        self.charged: list[int] = []
        self._left = limit

    def __call__(self, partition_count: int) -> Problem | None:
        self.charged.append(partition_count)
        if partition_count > self._left:
            return Problem(ErrorCode.throttling_quota_exceeded, "too much")
        self._left -= partition_count
        return None


def test_changes_are_charged_after_all_other_checks_and_refused_above_the_quota() -> None:
    cluster = AdministeredCluster()
    too_much = ErrorCode.throttling_quota_exceeded
    charge = Charges(10)
    topics = [NewTopic("a/b", 1, 1), NewTopic("t", 6, 1), NewTopic("u", 5, 1), NewTopic("v", assignment={0: [1]})]
    assert create(cluster, *topics, validate_only=True, charge=charge) == [
        ErrorCode.invalid_topic_exception,
        NONE,
        NONE,
        NONE,
    ]
    assert charge.charged == []
    assert create(cluster, *topics, charge=charge) == [ErrorCode.invalid_topic_exception, NONE, too_much, NONE]
    assert charge.charged == [6, 5, 1]
    assert "u" not in cluster.context.topics

    charge = Charges(3)
    more = [MorePartitions("t", 5), MorePartitions("t", 9), MorePartitions("v", 2)]
    assert grow(cluster, *more[1:], validate_only=True, charge=charge) == [NONE, NONE]
    assert grow(cluster, more[0], charge=charge) == [ErrorCode.invalid_partitions]
    assert grow(cluster, *more[1:], charge=charge) == [NONE, too_much]
    assert charge.charged == [3, 1]

    charge = Charges(1)
    ((no_topic, large, small),) = delete(cluster, "nowhere", "t", "v", charge=charge)
    assert [error_of(no_topic), error_of(large), error_of(small)] == [
        ErrorCode.unknown_topic_or_partition,
        too_much,
        NONE,
    ]
    assert charge.charged == [9, 1]
    assert set(cluster.context.topics) == {"t"}
