"""The controller dies after each of its steps, and the next one makes whole what it left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from highwater.broker.cluster import znodes
from highwater.broker.cluster.zookeeper import Create, Request
from highwater.broker.settings import metadata_tree
from highwater.broker.topics.topic import random_topic_id
from highwater.common.topic_partition import TopicPartition
from tests.broker.controller.harness import ControllerCluster

Act = Callable[[ControllerCluster], None]


def make_topic(cluster: ControllerCluster) -> None:
    value = metadata_tree.topic_value(random_topic_id(), {0: [2, 3, 1], 1: [3, 1, 2]})
    cluster.ensemble.do(Create(znodes.topic_path("new"), znodes.encode(value)))


def lose_broker(cluster: ControllerCluster) -> None:
    cluster.ensemble.expire(cluster.hosts[3].session_id)
    cluster.hosts[3].controller.close()
    cluster.hosts[3].zookeeper.kill()
    cluster.brokers[3].die()


def shut_down_broker(cluster: ControllerCluster) -> None:
    cluster.hosts[1].controller.shut_down(3, -1, lambda _: None)


def lose_log_directory(cluster: ControllerCluster) -> None:
    cluster.brokers[3].failed = {("t", 0)}
    event = znodes.encode(znodes.log_dir_event_value(3))
    cluster.ensemble.do(Create(znodes.LOG_DIR_EVENT_PREFIX, event, is_sequential=True))


def prefer_leaders(cluster: ControllerCluster) -> None:
    wish = znodes.encode(znodes.partitions_value([("t", 0), ("t", 1)]))
    cluster.ensemble.do(Create(znodes.PREFERRED_REPLICA_ELECTION, wish))


class Mortal:
    """A client of ZooKeeper whose process dies with some round of requests, before or after it is carried out."""

    def __init__(self, cluster: ControllerCluster, broker_id: int, rounds: int, *, is_carried_out: bool) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self._rounds = rounds
        self._is_carried_out = is_carried_out
        self.has_died = False
        zookeeper = cluster.hosts[broker_id].zookeeper
        self._execute = zookeeper.execute
        zookeeper.execute = self.execute  # type: ignore[method-assign]

    def execute(self, requests: Sequence[Request], then: Callable[[list[Any]], None]) -> None:
        if self.has_died:
            return
        if self._rounds > 0:
            self._rounds -= 1
            self._execute(requests, then)
            return
        self.has_died = True
        if self._is_carried_out:
            self._execute(requests, lambda _: None)
        self._cluster.scheduler.call_soon(lambda: self._cluster.end_process(self._broker_id))


def settled(cluster: ControllerCluster) -> dict[TopicPartition, tuple[int, set[int]]]:
    """What stands in ZooKeeper and with the brokers, but for the epochs."""
    states = {}
    for topic in cluster.ensemble.children(metadata_tree.TOPICS):
        for index in cluster.assignment(topic):
            state = cluster.state(topic, index)
            states[topic, index] = state.leader, set(state.in_sync_replicas)
            for broker in cluster.brokers.values():
                if broker.is_listening and broker.broker_id in cluster.controller.context.brokers:  # type: ignore[union-attr]
                    told = broker.metadata[topic, index]
                    assert (told.leader, told.leader_epoch, told.isr) == state[:3], (topic, index, broker.broker_id)
                    assert told.zk_version == state.partition_epoch
                    if broker.broker_id in state.in_sync_replicas:
                        led = broker.states[topic, index]
                        assert (led.leader, led.leader_epoch, led.isr) == state[:3]
    return states


@pytest.mark.parametrize("is_carried_out", [False, True])
@pytest.mark.parametrize(
    "act", [make_topic, lose_broker, shut_down_broker, lose_log_directory, prefer_leaders], ids=lambda act: act.__name__
)
def test_the_next_controller_makes_it_whole(act: Act, is_carried_out: bool) -> None:
    rounds = 0
    has_died = True
    while has_died:
        cluster = ControllerCluster(1, 2, 3)
        cluster.make_topic("t", {0: [3, 2, 1], 1: [2, 3, 1], 2: [1, 2, 3]})
        controller = Mortal(cluster, 1, rounds, is_carried_out=is_carried_out)
        act(cluster)
        cluster.run(500)
        has_died = controller.has_died
        if not has_died:
            break
        rounds += 1
        cluster.run(7000)
        assert cluster.controller.broker_id in (2, 3)
        if act is shut_down_broker:
            cluster.controller.shut_down(3, -1, lambda _: None)
            cluster.run()
        states = settled(cluster)
        away = {1} | ({3} if act in (lose_broker, shut_down_broker) else set())
        for key, (leader, in_sync) in states.items():
            gone = away | ({3} if act is lose_log_directory and key == ("t", 0) else set())
            assert leader not in gone, (key, rounds)
            assert not in_sync & gone, (key, rounds)
        assert cluster.ensemble.data(znodes.PREFERRED_REPLICA_ELECTION) is None
        assert cluster.ensemble.children(znodes.LOG_DIR_EVENT_NOTIFICATIONS) == []
    assert rounds > 0, "there was nothing to die in"


@pytest.mark.parametrize("is_carried_out", [False, True])
def test_a_controller_that_dies_while_it_takes_over(is_carried_out: bool) -> None:
    rounds = 0
    while True:
        cluster = ControllerCluster(1, 2, 3, 4)
        cluster.make_topic("t", {0: [1, 3, 4], 1: [1, 2, 4]})
        cluster.make_topic("u", {0: [2, 4]})
        next_one = Mortal(cluster, 2, rounds, is_carried_out=is_carried_out)
        cluster.hosts[3].zookeeper.cut()
        cluster.hosts[4].zookeeper.cut()
        cluster.end_process(1)
        cluster.run(1000)
        cluster.hosts[3].zookeeper.heal()
        cluster.hosts[4].zookeeper.heal()
        if not next_one.has_died:
            assert rounds > 5
            return
        rounds += 1
        cluster.run(7000)
        assert cluster.controller.broker_id in (3, 4)
        assert settled(cluster) == {("t", 0): (3, {3, 4}), ("t", 1): (4, {4}), ("u", 0): (4, {4})}
