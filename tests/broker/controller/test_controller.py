"""What a controller does about brokers that come and go, topics, notifications and wishes. What is not said otherwise
follows Kafka 3.9's ControllerIntegrationTest."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import PeerFailure
from highwater.broker.cluster.state import NO_BROKER, NO_LEADER
from highwater.broker.cluster.zookeeper import Create, Delete, Set
from highwater.broker.controller.channels import FIRST_RETRY_MS, RETRY_BACKOFF_MS
from highwater.broker.settings import metadata_tree
from highwater.broker.topics.administration import ElectionType
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.problem import Problem
from tests.broker.controller.harness import ControllerCluster

Outcome = tuple[ErrorCode, list[TopicPartition]]


def shut_down(cluster: ControllerCluster, broker_id: int, broker_epoch: int | None = None) -> Outcome:
    outcomes: list[Outcome] = []
    epoch = cluster.hosts[broker_id].epoch if broker_epoch is None else broker_epoch
    cluster.controller.shut_down(broker_id, epoch, outcomes.append)
    cluster.run()
    (outcome,) = outcomes
    return outcome


# The election


def test_the_first_broker_is_the_controller_and_the_others_know_it() -> None:
    cluster = ControllerCluster(1, 2, 3)
    assert cluster.controller.broker_id == 1
    assert {host.controller.controller_id for host in cluster.hosts.values()} == {1}
    assert cluster.ensemble.data(metadata_tree.CONTROLLER_EPOCH) == b"1"
    controller = cluster.ensemble.data(znodes.CONTROLLER)
    assert controller == b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    assert cluster.ensemble.data(znodes.FEATURE) == b'{"features":{},"version":2,"status":1}'


def test_each_controller_has_an_epoch_of_its_own() -> None:
    """testControllerMoveIncrementsControllerEpoch, and whoever removes /controller by hand moves it too."""
    cluster = ControllerCluster(1, 2)
    cluster.make_topic("t", {0: [1, 2]})
    cluster.ensemble.do(Delete(znodes.CONTROLLER))
    cluster.run()
    assert cluster.ensemble.data(metadata_tree.CONTROLLER_EPOCH) == b"2"
    assert sum(host.controller.is_active for host in cluster.hosts.values()) == 1
    assert cluster.state("t") == (1, 0, (1, 2), 1, 0, False), "nothing was to be changed"


def test_the_controllers_session_ends_and_another_takes_over() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]})
    cluster.hosts[1].zookeeper.cut()
    cluster.run(5000)
    assert cluster.hosts[1].controller.is_active
    cluster.run(2000)
    active = [host.controller.broker_id for host in cluster.hosts.values() if host.controller.is_active]
    assert active[-1] in (2, 3)
    assert cluster.leader("t") == 2
    cluster.hosts[1].zookeeper.heal()
    cluster.run()
    assert cluster.controller.broker_id == active[-1]
    assert cluster.hosts[1].controller.controller_id == active[-1]
    assert sorted(cluster.brokers[2].live_brokers) == [1, 2, 3]


def test_a_controller_that_was_superseded_writes_nothing() -> None:
    """A stopped process that wakes: its session is over and it does not know yet."""
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [1, 2, 3]})
    zombie = cluster.hosts[1].controller
    assert zombie.context is not None
    # As if it had slept through its own end: everything else goes on, and it still thinks what it thought.
    cluster.ensemble.do(Delete(znodes.CONTROLLER))
    cluster.hosts[1].controller._watches.clear()
    epoch = int(cluster.ensemble.data(metadata_tree.CONTROLLER_EPOCH) or b"")
    cluster.ensemble.do(Set(metadata_tree.CONTROLLER_EPOCH, str(epoch + 1).encode()))
    before = cluster.state("t")
    outcomes: list[Outcome] = []
    zombie.shut_down(1, cluster.hosts[1].epoch, outcomes.append)
    cluster.run()
    assert cluster.state("t") == before
    assert outcomes == [(ErrorCode.stale_controller_epoch, [])]


def test_without_a_session_nobody_is_the_controller() -> None:
    cluster = ControllerCluster(1)
    cluster.ensemble.expire(cluster.hosts[1].session_id)
    cluster.scheduler._run_soon()
    host = cluster.hosts[1].controller
    assert host.is_active or host.controller_id == NO_BROKER
    cluster.run()
    assert cluster.controller.context is not None
    assert cluster.controller.context.epoch == 2


# Topics


def test_a_new_topic_has_leaders_and_all_are_told() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.take()
    cluster.make_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]})
    assert cluster.state("t", 0) == (1, 0, (1, 2, 3), 1, 0, False)
    assert cluster.state("t", 1) == (2, 0, (2, 3, 1), 1, 0, False)
    for broker in cluster.brokers.values():
        assert [state.is_new for state in broker.states.values()] == [True, True]
        assert broker.take() == ["leader_and_isr", "update_metadata"]
        assert {key: state.leader for key, state in broker.metadata.items()} == {("t", 0): 1, ("t", 1): 2}


def test_a_new_topic_does_without_brokers_that_are_away() -> None:
    """testTopicCreationWithOfflineReplica."""
    cluster = ControllerCluster(1, 2, 3)
    cluster.end_session(2)
    cluster.make_topic("t", {0: [2, 3, 1], 1: [2]})
    assert cluster.state("t", 0)[:3] == (3, 0, (3, 1))
    assert cluster.ensemble.data(znodes.partition_state_path("t", 1)) is None
    cluster.start(2)
    assert cluster.state("t", 1)[:3] == (2, 0, (2,))


def test_a_topic_grows() -> None:
    """testTopicPartitionExpansion."""
    cluster = ControllerCluster(1, 2)
    cluster.make_topic("t", {0: [1, 2]})
    topic_id, assignment = znodes.read(
        cluster.ensemble.data(znodes.topic_path("t")) or b"", znodes.parse_assigned_topic
    )
    assert topic_id is not None
    grown = assignment | {1: assignment[0]._replace(replicas=(2, 1))}
    cluster.ensemble.do(Set(znodes.topic_path("t"), znodes.encode(znodes.assigned_topic_value(topic_id, grown))))
    cluster.run()
    assert cluster.state("t", 0) == (1, 0, (1, 2), 1, 0, False)
    assert cluster.state("t", 1) == (2, 0, (2, 1), 1, 0, False)


def test_a_topic_without_an_id_gets_one() -> None:
    """testTopicIdCreatedOnUpgrade."""
    cluster = ControllerCluster(1)
    value = b'{"version":1,"partitions":{"0":[1]}}'
    cluster.ensemble.do(Create(znodes.topic_path("old"), value))
    cluster.run()
    topic_id, _ = znodes.read(cluster.ensemble.data(znodes.topic_path("old")) or b"", znodes.parse_assigned_topic)
    assert topic_id is not None
    assert cluster.leader("old") == 1


def test_what_cannot_be_understood_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ControllerCluster(1)
    cluster.ensemble.do(Create(znodes.topic_path("bad"), b"not json"))
    cluster.ensemble.do(Create(f"{znodes.BROKER_IDS}/9", b"{}"))
    cluster.make_topic("good", {0: [1]})
    cluster.ensemble.do(Create(f"{znodes.ISR_CHANGE_NOTIFICATIONS}/isr_change_0000000000", b"?"))
    cluster.ensemble.do(Create(f"{znodes.LOG_DIR_EVENT_NOTIFICATIONS}/log_dir_event_0000000000", b"[]"))
    cluster.run()
    assert cluster.leader("good") == 1
    assert cluster.controller.broker_id == 1
    assert {record.args[0] for record in caplog.records if record.message.startswith("ignoring ")} == {  # type: ignore[index]
        znodes.topic_path("bad"),
        f"{znodes.BROKER_IDS}/9",
        znodes.ISR_CHANGE_NOTIFICATIONS,
        znodes.LOG_DIR_EVENT_NOTIFICATIONS,
    }
    assert cluster.ensemble.children(znodes.ISR_CHANGE_NOTIFICATIONS) == []


# Brokers


def test_a_broker_goes_and_comes_back() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 3, 1], 1: [3, 2, 1]})
    cluster.end_session(2)
    assert cluster.state("t", 0)[:3] == (3, 1, (3, 1))
    assert cluster.state("t", 1)[:3] == (3, 1, (3, 1))
    assert cluster.brokers[1].live_brokers == [1, 3]
    assert cluster.brokers[1].metadata["t", 1].offline_replicas == (2,)
    cluster.start(2)
    assert cluster.brokers[1].live_brokers == [1, 3, 2]
    assert cluster.brokers[1].metadata["t", 1].offline_replicas == ()
    assert cluster.brokers[2].states["t", 0].leader == 3
    assert cluster.brokers[2].metadata["t", 0].leader == 3
    assert cluster.in_sync("t") == (3, 1), "its leader says when it is in sync again"


def test_a_broker_that_registers_anew_at_once_has_lost_its_place_all_the_same() -> None:
    """testControllerDetectsBouncedBrokers."""
    cluster = ControllerCluster(1, 2)
    cluster.make_topic("t", {0: [2, 1]})
    cluster.brokers[2].die()
    host = cluster.hosts[2]
    host.zookeeper.kill()
    host.controller.close()
    cluster.ensemble.expire(host.session_id)
    new = cluster.start(2)
    assert cluster.state("t")[:3] == (1, 1, (1,))
    assert cluster.brokers[2].states["t", 0].leader == 1
    assert cluster.controller.context is not None
    assert cluster.controller.context.brokers[2].epoch == new.epoch


def test_the_last_in_sync_is_waited_for() -> None:
    """testLeaderAndIsrWhenEntireIsrOfflineAndUncleanLeaderElectionDisabled."""
    cluster = ControllerCluster(1, 2)
    cluster.make_topic("t", {0: [2, 1]})
    cluster.end_session(1)
    cluster.end_session(2)
    assert cluster.state("t")[2] == (2,)
    cluster.start(1)
    assert cluster.state("t")[:3] == (NO_LEADER, 2, (2,))
    cluster.start(2)
    assert cluster.state("t")[:3] == (2, 3, (2,))
    assert not cluster.state("t").is_recovering


def test_where_it_is_allowed_somebody_else_leads_and_recovers() -> None:
    """testLeaderAndIsrWhenEntireIsrOfflineAndUncleanLeaderElectionEnabled."""
    cluster = ControllerCluster(1, 2)
    cluster.make_topic("t", {0: [2, 1]}, unclean_leader_election_enable="true")
    cluster.end_session(1)
    cluster.end_session(2)
    cluster.start(1)
    assert cluster.state("t")[:3] == (1, 2, (1,))
    assert cluster.state("t").is_recovering


def test_unclean_elections_are_allowed_later_or_asked_for() -> None:
    cluster = ControllerCluster(1, 2, 3)
    for topic in ("t", "u"):
        cluster.make_topic(topic, {0: [2, 3]})
    cluster.end_session(3)
    cluster.end_session(2)
    cluster.start(3)
    assert cluster.leader("t") == cluster.leader("u") == NO_LEADER
    config = metadata_tree.config_value({"unclean.leader.election.enable": "true"})
    cluster.ensemble.make(metadata_tree.topic_config_path("t"), znodes.encode(config))
    cluster.controller.enable_unclean_election("t")
    cluster.run()
    assert (cluster.leader("t"), cluster.leader("u")) == (3, NO_LEADER)
    outcomes: list[Any] = []
    cluster.controller.elect_leaders([("u", 0), ("t", 0), ("x", 0)], ElectionType.UNCLEAN, outcomes.append)
    cluster.run()
    assert cluster.leader("u") == 3
    ((outcome),) = outcomes
    assert outcome["u", 0] == 3
    assert outcome["t", 0].error_code is ErrorCode.election_not_needed
    assert outcome["x", 0] == Problem(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")


def test_a_broker_whose_process_is_gone_is_not_waited_for() -> None:
    """Not Kafka's: its session stands for seconds more."""
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 3, 1], 1: [3, 2, 1]})
    cluster.kill(2)
    cluster.run()
    assert cluster.ensemble.stat(znodes.broker_path(2)) is not None
    assert cluster.state("t", 0)[:3] == (3, 1, (3, 1))
    assert cluster.state("t", 1)[:3] == (3, 1, (3, 1))
    cluster.run(7000)
    assert cluster.ensemble.stat(znodes.broker_path(2)) is None
    assert cluster.state("t", 0)[:3] == (3, 1, (3, 1))
    cluster.start(2)
    assert cluster.brokers[2].states["t", 0].leader == 3


def test_a_broker_that_listens_again_in_the_same_registration_is_back() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 3, 1]})
    cluster.make_topic("alone", {0: [2]})
    cluster.brokers[2].die()
    cluster.run()
    assert cluster.leader("t") == 3
    assert cluster.leader("alone") == NO_LEADER
    cluster.brokers[2].is_listening = True
    cluster.run(2000)
    assert cluster.leader("alone") == NO_LEADER, "it might be a new process that has not registered yet"
    cluster.run(2000)
    assert cluster.leader("alone") == 2
    assert cluster.brokers[2].states["t", 0].leader == 3
    assert cluster.brokers[1].live_brokers == [1, 3, 2]


def test_a_broker_that_was_never_reached_is_reported_and_counts_as_alive(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ControllerCluster(1, 2, 3)
    caplog.set_level("INFO")
    cluster.start(4, is_listening=False)
    stranger = cluster.brokers[4]
    cluster.run(60_000)
    assert cluster.brokers[3].live_brokers == [1, 2, 3, 4]
    (report,) = [record.getMessage() for record in caplog.records if "cannot be reached" in record.getMessage()]
    assert report.startswith("broker 4 cannot be reached at host:9004 (listener PLAINTEXT): nothing listens there, or ")
    assert cluster.controller.unreachable_broker_count == 1
    stranger.is_listening = True
    cluster.run(2000)
    assert "broker 4 is reached at host:9004" in caplog.text
    assert cluster.controller.unreachable_broker_count == 0
    assert sorted(stranger.live_brokers) == [1, 2, 3, 4]


def test_a_broker_that_cannot_be_reached_any_more_is_noticed_though_nothing_is_to_be_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.brokers[2].reject()
    cluster.run(60_000)
    assert "broker 2 cannot be reached at host:9002" in caplog.text
    assert cluster.controller.context is not None
    assert cluster.controller.context.is_live(2)


def test_a_broker_that_is_slow_is_not_suspected() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 3, 1]})
    cluster.brokers[2].stop()
    cluster.make_topic("u", {0: [2, 3, 1]})
    cluster.run(60_000)
    assert cluster.leader("t") == 2
    cluster.brokers[2].take()
    cluster.brokers[2].go_on()
    cluster.run()
    assert cluster.brokers[2].take() == ["leader_and_isr", "update_metadata"]
    assert cluster.brokers[2].states["u", 0].leader == 2


def test_what_was_under_way_when_a_connection_broke_is_sent_again_in_order() -> None:
    cluster = ControllerCluster(1, 2)
    cluster.take()
    cluster.brokers[2].stop()
    cluster.make_topic("t", {0: [2, 1]})
    (connection,) = [one for one in cluster.brokers[2].connections if one._waiting]
    connection.break_off()
    cluster.brokers[2].go_on()
    cluster.run(200)
    assert cluster.brokers[2].take() == ["leader_and_isr", "update_metadata"]


def test_a_controller_whose_process_is_gone_is_not_waited_for() -> None:
    """Not Kafka's: its session, and with it /controller, stands for seconds more."""
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [1, 2, 3]})
    cluster.kill(1)
    cluster.run()
    assert cluster.ensemble.stat(znodes.broker_path(1)) is not None
    assert cluster.controller.broker_id in (2, 3)
    assert cluster.ensemble.data(metadata_tree.CONTROLLER_EPOCH) == b"2"
    assert cluster.state("t")[2] == (2, 3)
    assert cluster.leader("t") == 2
    cluster.run(7000)
    assert cluster.ensemble.data(metadata_tree.CONTROLLER_EPOCH) == b"2"
    assert sorted(cluster.brokers[2].live_brokers) == [2, 3]


@pytest.mark.parametrize("rounds", range(3))
def test_of_two_that_depose_a_controller_one_succeeds(rounds: int) -> None:
    """Whatever the other one had seen by then."""
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [1, 2, 3]})
    zookeeper = cluster.hosts[3].zookeeper
    execute = zookeeper.execute
    left = rounds

    def slow(requests: Any, then: Any) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            execute(requests, then)
        else:
            cluster.scheduler.call_later(40, lambda: execute(requests, then))

    zookeeper.execute = slow  # type: ignore[method-assign]
    cluster.kill(1)
    cluster.run(2000)
    assert cluster.controller.broker_id == 2
    assert cluster.ensemble.data(metadata_tree.CONTROLLER_EPOCH) == b"2"
    assert cluster.leader("t") == 2


def test_a_controller_that_was_deposed_and_listens_again_is_a_broker_as_others() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [1, 2, 3]})
    cluster.hosts[1].zookeeper.cut()
    cluster.brokers[1].die()
    cluster.run()
    assert cluster.leader("t") == 2
    cluster.brokers[1].is_listening = True
    cluster.run(5000)
    active = [host.controller for host in cluster.hosts.values() if host.controller.is_active]
    assert len(active) == 2, "it has not heard of its end yet"
    assert active[1].context is not None
    assert active[1].context.is_live(1)
    assert cluster.brokers[1].states["t", 0].leader == 2


def test_two_that_cannot_reach_each_other_do_not_depose_each_other_for_ever() -> None:
    cluster = ControllerCluster(1, 2)
    cluster.brokers[1].die()
    cluster.brokers[2].die()
    cluster.run(30_000)
    assert cluster.controller.broker_id == 2
    assert cluster.ensemble.data(metadata_tree.CONTROLLER_EPOCH) == b"2"
    cluster.ensemble.do(Delete(znodes.CONTROLLER))
    cluster.run(100)
    assert cluster.controller.controller_id == cluster.hosts[1].controller.controller_id


def test_a_process_whose_port_closes_after_its_connections_is_noticed_as_soon() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 3]})
    dying = cluster.brokers[2]
    dying.is_rejecting = True
    for connection in list(dying.connections):
        connection.break_off(PeerFailure.CLOSED)
    cluster.run(FIRST_RETRY_MS - 1)
    assert cluster.leader("t") == 2, "what connected once more was reset, which proves nothing"
    dying.is_listening = False
    cluster.run(RETRY_BACKOFF_MS // 2)
    assert cluster.leader("t") == 3


def test_a_controller_that_lives_after_all_is_fenced() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [1, 2, 3]})
    old = cluster.hosts[1].controller
    cluster.hosts[1].zookeeper.cut()
    cluster.brokers[1].die()
    cluster.run(100)
    outcomes: list[Outcome] = []
    old.shut_down(2, cluster.hosts[2].epoch, outcomes.append)
    cluster.run(100)
    before = cluster.state("t")
    cluster.hosts[1].zookeeper.heal()
    cluster.run()
    assert not old.is_active
    assert outcomes == [(ErrorCode.stale_controller_epoch, [])]
    assert cluster.state("t") == before
    assert cluster.controller.broker_id in (2, 3)


# Log directories


def test_a_failed_log_directory_costs_what_is_on_it() -> None:
    """testMetadataPropagationForOfflineReplicas."""
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 3], 1: [2, 3], 2: [3, 2]})
    cluster.brokers[2].failed = {("t", 0), ("t", 2)}
    event = znodes.encode(znodes.log_dir_event_value(2))
    cluster.ensemble.do(Create(znodes.LOG_DIR_EVENT_PREFIX, event, is_sequential=True))
    cluster.run()
    assert [cluster.leader("t", index) for index in range(3)] == [3, 2, 3]
    assert [cluster.in_sync("t", index) for index in range(3)] == [(3,), (2, 3), (3,)]
    assert cluster.brokers[1].metadata["t", 0].offline_replicas == (2,)
    assert cluster.ensemble.children(znodes.LOG_DIR_EVENT_NOTIFICATIONS) == []
    cluster.end_session(2)
    cluster.brokers[2].failed.clear()
    cluster.start(2)
    assert cluster.brokers[1].metadata["t", 0].offline_replicas == ()


# Controlled shutdown


def test_who_shuts_down_leads_nothing_any_more() -> None:
    """testControlledShutdown."""
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 1, 3], 1: [1, 2, 3], 2: [2, 3, 1]})
    cluster.make_topic("alone", {0: [2]})
    cluster.take()
    assert shut_down(cluster, 2) == (ErrorCode.none, [])
    assert [cluster.state("t", index)[:3] for index in range(3)] == [(1, 1, (1, 3)), (1, 1, (1, 3)), (3, 1, (3, 1))]
    assert cluster.leader("alone") == 2
    assert cluster.brokers[2].take() == ["leader_and_isr", "update_metadata", "update_metadata", "stop_replica"]
    assert cluster.brokers[1].metadata["t", 0].offline_replicas == (2,)
    cluster.end_session(2)
    cluster.start(2)
    assert cluster.controller.context is not None
    assert cluster.controller.context.is_live(2)


def test_the_last_in_sync_leads_still_and_the_answer_says_so() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 3]})
    assert shut_down(cluster, 3) == (ErrorCode.none, [])
    assert shut_down(cluster, 2) == (ErrorCode.none, [("t", 0)])
    assert cluster.state("t")[:3] == (2, 1, (2,))


def test_an_older_life_of_a_broker_shuts_down_nothing() -> None:
    """testControllerRejectControlledShutdownRequestWithStaleBrokerEpoch."""
    cluster = ControllerCluster(1, 2)
    cluster.make_topic("t", {0: [2, 1]})
    assert shut_down(cluster, 2, cluster.hosts[2].epoch - 1)[0] is ErrorCode.stale_broker_epoch
    assert cluster.leader("t") == 2
    assert shut_down(cluster, 2, -1) == (ErrorCode.none, [])
    assert cluster.leader("t") == 1
    outcomes: list[Outcome] = []
    cluster.controller.shut_down(7, -1, outcomes.append)
    cluster.hosts[2].controller.shut_down(1, -1, outcomes.append)
    cluster.run()
    assert outcomes == [(ErrorCode.broker_not_available, []), (ErrorCode.stale_controller_epoch, [])]


def test_a_shutdown_of_many_leaders_takes_one_round() -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {index: [2, 1, 3] for index in range(300)})
    cluster.take()
    rounds = 0
    zookeeper = cluster.hosts[1].zookeeper
    execute = zookeeper.execute

    def counted(requests: Any, then: Any) -> None:
        nonlocal rounds
        rounds += 1
        execute(requests, then)

    zookeeper.execute = counted  # type: ignore[method-assign]
    assert shut_down(cluster, 2) == (ErrorCode.none, [])
    assert rounds == 1
    assert cluster.take() == {
        1: ["leader_and_isr", "update_metadata"],
        2: ["leader_and_isr", "update_metadata"],
        3: ["leader_and_isr", "update_metadata"],
    }


# Preferred leaders


def test_preferred_leaders_are_elected_by_and_by() -> None:
    """testAutoPreferredReplicaLeaderElection."""
    cluster = ControllerCluster(1, 2, settings={"leader.imbalance.check.interval.seconds": "10"})
    cluster.make_topic("t", {0: [2, 1]})
    shut_down(cluster, 2)
    cluster.end_session(2)
    cluster.start(2)
    assert cluster.leader("t") == 1
    state = cluster.state("t")._replace(in_sync_replicas=(1, 2))
    path = znodes.partition_state_path("t", 0)
    cluster.ensemble.do(Set(path, znodes.encode(znodes.partition_state_value(state))))
    notice = znodes.encode(znodes.partitions_value([("t", 0)]))
    cluster.ensemble.do(Create(znodes.ISR_CHANGE_PREFIX, notice, is_sequential=True))
    cluster.run()
    assert cluster.brokers[1].metadata["t", 0].isr == (1, 2)
    cluster.run(16_000)
    assert cluster.state("t")[:3] == (2, 2, (1, 2))


@pytest.mark.parametrize("is_enabled", [True, False])
def test_preferred_leaders_are_elected_where_that_is_asked_for_in_zookeeper(is_enabled: bool) -> None:
    """testBackToBackPreferredReplicaLeaderElections."""
    cluster = ControllerCluster(1, 2, 3, settings={"auto.leader.rebalance.enable": str(is_enabled).lower()})
    cluster.make_topic("t", {0: [2, 1, 3]})
    wish = znodes.encode(znodes.partitions_value([("t", 0), ("unknown", 3)]))
    for _ in range(2):
        # It is away and comes back into sync, and leads no more.
        state = cluster.state("t")
        astray = state._replace(leader=1, leader_epoch=state.leader_epoch + 1)
        path = znodes.partition_state_path("t", 0)
        cluster.ensemble.do(Set(path, znodes.encode(znodes.partition_state_value(astray))))
        notice = znodes.encode(znodes.partitions_value([("t", 0)]))
        cluster.ensemble.do(Create(znodes.ISR_CHANGE_PREFIX, notice, is_sequential=True))
        cluster.run()
        cluster.ensemble.do(Create(znodes.PREFERRED_REPLICA_ELECTION, wish))
        cluster.run()
        assert cluster.leader("t") == 2
        assert cluster.ensemble.data(znodes.PREFERRED_REPLICA_ELECTION) is None


def test_what_cannot_lead_is_told() -> None:
    """testPreferredReplicaLeaderElectionWithOfflinePreferredReplica."""
    cluster = ControllerCluster(1, 2)
    cluster.make_topic("t", {0: [2, 1]})
    cluster.end_session(2)
    outcomes: list[Any] = []
    cluster.controller.elect_leaders([("t", 0)], ElectionType.PREFERRED, outcomes.append)
    cluster.run()
    assert outcomes[0]["t", 0].error_code is ErrorCode.preferred_leader_not_available
    assert cluster.leader("t") == 1


# Producer ids


def test_blocks_of_producer_ids_are_given_once() -> None:
    cluster = ControllerCluster(1, 2)
    blocks: list[Any] = []
    for broker_id in (1, 2, 2):
        cluster.controller.allocate_producer_ids(broker_id, cluster.hosts[broker_id].epoch, blocks.append)
    cluster.controller.allocate_producer_ids(2, 1, blocks.append)
    cluster.controller.allocate_producer_ids(5, 1, blocks.append)
    cluster.run()
    assert [tuple(block) for block in blocks[:3]] == [(1, 0, 999), (2, 1000, 1999), (2, 2000, 2999)]
    assert blocks[3:] == [ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered]
    stored = cluster.ensemble.data(metadata_tree.PRODUCER_ID_BLOCK)
    assert stored == b'{"version":1,"broker":2,"block_start":"2000","block_end":"2999"}'


def test_only_the_controller_gives_them() -> None:
    cluster = ControllerCluster(1, 2)
    outcomes: list[Any] = []
    cluster.hosts[2].controller.allocate_producer_ids(2, cluster.hosts[2].epoch, outcomes.append)
    cluster.hosts[2].controller.elect_leaders([("t", 0)], ElectionType.PREFERRED, outcomes.append)
    assert outcomes[0] is ErrorCode.not_controller
    assert outcomes[1]["t", 0].error_code is ErrorCode.not_controller


# Mistakes of ours


def test_a_mistake_of_ours_costs_the_controllership_and_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ControllerCluster(1, 2, 3)
    cluster.make_topic("t", {0: [2, 3, 1]})
    outcomes: list[Outcome] = []

    def fail(term: Any) -> Any:
        yield [Delete("/nowhere")]
        raise RuntimeError("a mistake")

    cluster.hosts[1].controller.submit(fail, outcomes.append, if_moved=(ErrorCode.not_controller, []))
    cluster.hosts[1].controller.shut_down(2, -1, outcomes.append)
    cluster.run()
    assert outcomes == [(ErrorCode.not_controller, []), (ErrorCode.stale_controller_epoch, [])]
    assert "a mistake" in caplog.text
    assert cluster.ensemble.data(metadata_tree.CONTROLLER_EPOCH) == b"2"
    cluster.end_session(2)
    assert cluster.leader("t") == 3
