"""AlterPartition: the cases of Kafka 3.9's ControllerIntegrationTest (testAlterPartition*), in every version."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.zookeeper import Set
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import ALTER_PARTITION, api_of
from highwater.kafka.protocol.primitives import Decoder
from tests.broker.controller.harness import ControllerCluster

VERSIONS = range(4)


def decoded(kind: Any, version: int, encoded: bytes) -> Any:
    decoder = Decoder(memoryview(encoded), 0, flexible=api_of(ALTER_PARTITION).is_flexible(version))
    return kind("alter_partition", version, decoder)


class Leader:
    """A broker that leads what it says it leads."""

    def __init__(self, cluster: ControllerCluster, broker_id: int) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.epoch = cluster.hosts[broker_id].epoch
        self.outcomes: dict[int, Any] = {}

    def alter(
        self,
        version: int,
        in_sync: tuple[int, ...],
        *,
        key: TopicPartition = ("t", 0),
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        is_recovering: bool = False,
        topic_id: Any = None,
        epochs: dict[int, int] | None = None,
        at: int | None = None,
    ) -> Any:
        """The whole answer."""
        context = self.cluster.controller.context
        assert context is not None
        if topic_id is None and key[0] in context.topics:
            topic_id = context.topics[key[0]].topic_id
        fields = {
            "broker_id": self.broker_id,
            "broker_epoch": self.epoch,
            "topics": [
                {
                    "topic_name": key[0],
                    "topic_id": topic_id,
                    "partitions": [
                        {
                            "partition_index": key[1],
                            "leader_epoch": leader_epoch,
                            "new_isr": in_sync,
                            "new_isr_with_epochs": [
                                {"broker_id": replica, "broker_epoch": (epochs or {}).get(replica, -1)}
                                for replica in in_sync
                            ],
                            "leader_recovery_state": int(is_recovering),
                            "partition_epoch": partition_epoch,
                        }
                    ],
                }
            ],
        }
        request = decoded(cold.decode_request, version, cold.encode_request("alter_partition", version, fields))
        controller = self.cluster.controller if at is None else self.cluster.hosts[at].controller
        answers: list[Any] = []
        controller.alter_partitions(request, version, answers.append)
        self.cluster.run()
        (answer,) = answers
        return decoded(cold.decode_response, version, cold.encode_response("alter_partition", version, answer))

    def outcome(self, version: int, in_sync: tuple[int, ...], **changes: Any) -> Any:
        """Of the one partition."""
        answer = self.alter(version, in_sync, **changes)
        assert answer.error_code is ErrorCode.none
        ((partition,),) = (topic.partitions for topic in answer.topics)
        return partition

    def error(self, version: int, in_sync: tuple[int, ...], **changes: Any) -> ErrorCode:
        return ErrorCode(self.outcome(version, in_sync, **changes).error_code)


@pytest.fixture
def cluster() -> ControllerCluster:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 1, 3]})
    cluster.take()
    return cluster


@pytest.mark.parametrize("version", VERSIONS)
def test_the_in_sync_replicas_shrink_and_grow(cluster: ControllerCluster, version: int) -> None:
    leader = Leader(cluster, 2)
    shrunk = leader.outcome(version, (2, 1))
    assert (shrunk.error_code, shrunk.leader_id, shrunk.leader_epoch) == (ErrorCode.none, 2, 0)
    assert (shrunk.isr, shrunk.partition_epoch) == ((2, 1), 1)
    assert cluster.state("t") == (2, 0, (2, 1), 1, 1, False)
    assert cluster.take() == {broker_id: ["update_metadata"] for broker_id in (1, 2, 3)}
    assert cluster.brokers[3].metadata["t", 0].isr == (2, 1)
    assert leader.outcome(version, (2, 1, 3), partition_epoch=1).partition_epoch == 2
    assert cluster.in_sync("t") == (2, 1, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_so_already_is_answered_as_it_is(cluster: ControllerCluster, version: int) -> None:
    """testIdempotentAlterPartition: the first answer may have been lost."""
    leader = Leader(cluster, 2)
    leader.alter(version, (2, 1))
    again = leader.outcome(version, (2, 1), partition_epoch=0)
    assert (again.error_code, again.isr, again.partition_epoch) == (ErrorCode.none, (2, 1), 1)
    assert cluster.state("t").partition_epoch == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_whoever_is_not_up_to_date_is_refused(cluster: ControllerCluster, version: int) -> None:
    """testAlterPartitionErrors."""
    leader = Leader(cluster, 2)
    leader.alter(version, (2, 1))
    assert leader.error(version, (2,), partition_epoch=0) is ErrorCode.invalid_update_version
    assert leader.error(version, (2,), partition_epoch=2) is ErrorCode.not_controller
    assert leader.error(version, (2,), partition_epoch=1, leader_epoch=1) is ErrorCode.not_controller
    assert leader.error(version, (2,), partition_epoch=1, leader_epoch=-1) is ErrorCode.fenced_leader_epoch
    assert leader.error(version, (2,), key=("t", 9)) is ErrorCode.unknown_topic_or_partition
    unknown = leader.error(version, (2,), key=("unknown", 0), topic_id=uuid4())
    assert unknown is (ErrorCode.unknown_topic_id if version >= 2 else ErrorCode.unknown_topic_or_partition)
    assert leader.alter(version, (2,), at=3).error_code is ErrorCode.not_controller
    leader.epoch += 1
    assert leader.alter(version, (2,)).error_code is ErrorCode.stale_broker_epoch
    leader.broker_id = 8
    assert leader.alter(version, (2,)).error_code is ErrorCode.stale_broker_epoch
    assert cluster.state("t") == (2, 0, (2, 1), 1, 1, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_shuts_down_or_is_away_comes_not_into_sync(cluster: ControllerCluster, version: int) -> None:
    """testShutdownBrokerNotAddedToIsr."""
    cluster.controller.shut_down(3, cluster.hosts[3].epoch, lambda _: None)
    cluster.run()
    state = cluster.state("t")
    assert state.in_sync_replicas == (2, 1)
    refused = ErrorCode.ineligible_replica if version > 1 else ErrorCode.operation_not_attempted
    epochs = {"leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch}
    leader = Leader(cluster, 2)
    assert leader.error(version, (2, 1, 3), **epochs) is refused
    cluster.end_session(3)
    assert leader.error(version, (2, 1, 3), **epochs) is refused
    cluster.start(3)
    assert leader.error(version, (2, 1, 3), **epochs) is ErrorCode.none


def test_a_former_life_of_a_replica_comes_not_into_sync(cluster: ControllerCluster) -> None:
    """KIP-903: what it had when it caught up may be gone."""
    leader = Leader(cluster, 2)
    former = cluster.hosts[3].epoch
    cluster.end_session(3)
    cluster.start(3)
    state = cluster.state("t")
    wanted = {"leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch}
    assert leader.error(3, (2, 1, 3), epochs={3: former}, **wanted) is ErrorCode.ineligible_replica
    assert leader.error(3, (2, 1, 3), epochs={3: cluster.hosts[3].epoch}, **wanted) is ErrorCode.none


def test_a_recovering_partition(cluster: ControllerCluster) -> None:
    """testAlterPartitionErrorsAfterUncleanElection."""
    cluster.make_topic("u", {0: [2, 3]}, unclean_leader_election_enable="true")
    cluster.end_session(3)
    cluster.end_session(2)
    cluster.start(3)
    state = cluster.state("u")
    assert (state.leader, state.is_recovering) == (3, True)
    cluster.start(2)
    leader = Leader(cluster, 3)
    wanted: dict[str, Any] = {
        "key": ("u", 0),
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
    }
    assert leader.error(3, (3, 2), is_recovering=True, **wanted) is ErrorCode.invalid_request
    assert leader.error(3, (3,), is_recovering=False, **wanted) is ErrorCode.none
    wanted["partition_epoch"] += 1
    assert leader.error(3, (3, 2), is_recovering=True, **wanted) is ErrorCode.invalid_request
    assert leader.error(3, (3,), is_recovering=True, **wanted) is ErrorCode.invalid_request
    assert leader.error(3, (3, 2), **wanted) is ErrorCode.none
    assert not cluster.state("u").is_recovering


def test_a_state_that_changed_under_us_is_read_again(cluster: ControllerCluster) -> None:
    """Somebody of before Kafka 2.7 writes it himself."""
    state = cluster.state("t")
    data = znodes.encode(znodes.partition_state_value(state._replace(in_sync_replicas=(2, 3))))
    cluster.ensemble.do(Set(znodes.partition_state_path("t", 0), data))
    leader = Leader(cluster, 2)
    assert leader.error(3, (2,)) is ErrorCode.invalid_update_version
    assert cluster.brokers[1].metadata["t", 0].isr == (2, 3)
    assert leader.error(3, (2,), partition_epoch=1) is ErrorCode.none


def test_a_write_whose_answer_was_lost_has_succeeded(cluster: ControllerCluster) -> None:
    state = cluster.state("t")
    data = znodes.encode(znodes.partition_state_value(state._replace(in_sync_replicas=(2, 1))))
    cluster.ensemble.do(Set(znodes.partition_state_path("t", 0), data))
    outcome = Leader(cluster, 2).outcome(3, (2, 1))
    assert (outcome.error_code, outcome.isr, outcome.partition_epoch) == (ErrorCode.none, (2, 1), 1)
