from __future__ import annotations

import json
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.znodes import config_change_value, encode
from highwater.broker.cluster.zookeeper import Create, Delete, run
from highwater.broker.member.member import take_up_cluster
from highwater.broker.member.zookeeper_store import NOTIFICATION_LIFETIME_MS, ZooKeeperStore
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.metadata_tree import config_value
from highwater.broker.settings.quota_entities import DEFAULT, Entity
from highwater.kafka.login.scram import ScramMechanism
from highwater.kafka.protocol.problem import Problem
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock
from tests.broker.simulation.zookeeper import Ensemble, SimulatedZooKeeper

TOPIC = "/config/topics/t"


class Broker:
    """A store, and the session it lives in."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.zookeeper: SimulatedZooKeeper = world.ensemble.client(self)
        world.scheduler.run(1)
        run(self.zookeeper, take_up_cluster("c"))
        self.store = ZooKeeperStore(self.zookeeper, world.clock, "c")
        self.changed: list[str] = []
        self.store.when_changed.append(self.changed.append)
        self.store.session_began(1)
        world.scheduler.run(1)

    def session_began(self, session_id: int) -> None:
        if hasattr(self, "store"):
            self.store.session_began(1)

    def session_ended(self) -> None:
        self.store.session_ended()

    def connection_changed(self, is_connected: bool) -> None:
        pass

    def watch_fired(self, path: str, event: Any) -> None:
        self.store.watch_fired(path, event)

    def change(self, path: str, **config: str) -> Problem | None:
        """Set these beside what is there."""
        outcome: list[dict[str, Problem | None]] = []
        self.store.change_configs({path: lambda present: {**present, **config}}, outcome.append)
        self._world.scheduler.run(1)
        return outcome[0][path]


class World:
    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.clock = ManualClock()
        self.ensemble = Ensemble(self.scheduler)

    def broker(self) -> Broker:
        return Broker(self)


@pytest.fixture
def world() -> World:
    return World()


def test_what_one_broker_sets_another_hears_of(world: World) -> None:
    one, other = world.broker(), world.broker()
    assert one.change(TOPIC, **{"retention.ms": "5"}) is None
    assert world.ensemble.data(TOPIC) == b'{"version":1,"config":{"retention.ms":"5"}}'
    (name,) = world.ensemble.children("/config/changes")
    assert name == "config_change_0000000000"
    assert world.ensemble.data(f"/config/changes/{name}") == b'{"version":2,"entity_path":"topics/t"}'
    for broker in (one, other):
        assert broker.store.topic_config("t") == {"retention.ms": "5"}
        assert broker.changed == [TOPIC]


def test_brokers_have_settings_of_their_own_and_of_all(world: World) -> None:
    one = world.broker()
    one.change(metadata_tree.broker_config_path(""), **{"max.connections": "7"})
    one.change(metadata_tree.broker_config_path("3"), **{"max.connections": "8"})
    assert one.store.broker_configs() == {"": {"max.connections": "7"}, "3": {"max.connections": "8"}}
    assert world.ensemble.children("/config/brokers") == ["3", "<default>"]
    assert world.broker().store.broker_configs() == one.store.broker_configs()


def test_quotas_and_credentials_of_a_user_stand_side_by_side(world: World) -> None:
    one = world.broker()
    path = metadata_tree.quota_path(Entity("al ice"))
    one.change(
        path, producer_byte_rate="5", **{"SCRAM-SHA-256": "salt=AA==,stored_key=AA==,server_key=AA==,iterations=4096"}
    )
    one.change(metadata_tree.quota_path(Entity("bob", DEFAULT)), consumer_byte_rate="6")
    for broker in (one, world.broker()):
        assert broker.store.client_quotas() == {
            Entity("al ice"): {"producer_byte_rate": 5.0},
            Entity("bob", DEFAULT): {"consumer_byte_rate": 6.0},
        }
        assert list(broker.store.scram_credentials()) == ["al ice"]
        assert broker.store.scram_credentials()["al ice"][ScramMechanism.SCRAM_SHA_256].iterations == 4096
    assert world.ensemble.children("/config/users") == ["al%20ice", "bob"]
    assert world.ensemble.data("/config/users/bob") == b""


def test_quotas_of_addresses_stand_where_kafka_has_them(world: World) -> None:
    one, other = world.broker(), world.broker()
    one.change(metadata_tree.quota_path(Entity(ip="2001:db8::1")), connection_creation_rate="6")
    one.change(metadata_tree.quota_path(Entity(ip=DEFAULT)), connection_creation_rate="7")
    for broker in (one, other, world.broker()):
        assert broker.store.client_quotas() == {
            Entity(ip="2001:db8::1"): {"connection_creation_rate": 6.0},
            Entity(ip=DEFAULT): {"connection_creation_rate": 7.0},
        }
    assert sorted(world.ensemble.children("/config/ips")) == ["2001%3Adb8%3A%3A1", "<default>"]


@pytest.mark.parametrize("parent", ["/config/client-metrics", "/config/groups"])
def test_settings_that_kafka_3_9_lacks_are_heard_of_without_a_notification(world: World, parent: str) -> None:
    """Kafka 3.9 complains about a notification of settings that it does not know."""
    one, other = world.broker(), world.broker()
    path = metadata_tree.own_config_path(parent, "all / of them")
    assert path == f"{parent}/all%20%2F%20of%20them"
    for interval in ("100", "200"):
        one.change(path, metrics="*", **{"interval.ms": interval})
        for broker in (one, other, world.broker()):
            assert broker.store.own_configs(parent) == {"all / of them": {"metrics": "*", "interval.ms": interval}}
    outcome: list[dict[str, Problem | None]] = []
    other.store.change_configs({path: lambda _: {}}, outcome.append)
    world.scheduler.run(1)
    assert outcome == [{path: None}]
    for broker in (one, other, world.broker()):
        assert broker.store.own_configs(parent) == {}
    assert one.changed == other.changed == [path] * 3
    assert world.ensemble.children(parent) == []
    assert world.ensemble.children("/config/changes") == []


def test_a_client_without_limits_is_forgotten(world: World) -> None:
    one, other = world.broker(), world.broker()
    path = metadata_tree.quota_path(Entity(None, "c"))
    one.change(path, producer_byte_rate="5")
    one.store.change_configs({path: lambda present: {}}, lambda _: None)
    world.scheduler.run(1)
    assert world.ensemble.data(path) is None
    assert one.store.client_quotas() == other.store.client_quotas() == {}
    one.store.change_configs({path: lambda present: {}}, lambda _: None)
    world.scheduler.run(1)
    assert world.ensemble.data(path) is None


def test_changes_at_the_same_time_are_both_there(world: World) -> None:
    one, other = world.broker(), world.broker()
    outcome: list[Any] = []
    one.store.change_configs({TOPIC: lambda present: {**present, "a": "1"}}, outcome.append)
    other.store.change_configs({TOPIC: lambda present: {**present, "b": "2"}}, outcome.append)
    world.scheduler.run(1)
    assert outcome == [{TOPIC: None}, {TOPIC: None}]
    for broker in (one, other):
        assert broker.store.topic_config("t") == {"a": "1", "b": "2"}


def test_what_is_refused_is_not_written(world: World) -> None:
    one = world.broker()
    problem = Problem(ErrorCode.invalid_config, "no")
    outcome: list[Any] = []
    one.store.change_configs({TOPIC: lambda _: problem, "/config/topics/u": lambda _: {"a": "1"}}, outcome.append)
    world.scheduler.run(1)
    assert outcome == [{TOPIC: problem, "/config/topics/u": None}]
    assert world.ensemble.data(TOPIC) is None
    assert world.ensemble.children("/config/changes") == ["config_change_0000000000"]


def test_a_change_without_a_session_is_told_to_have_failed(world: World) -> None:
    one = world.broker()
    world.ensemble.stop()
    world.ensemble.expire(one.zookeeper.session_id)
    world.ensemble.start()
    outcome: list[Any] = []
    one.store.change_configs({TOPIC: lambda present: {"a": "1"}}, outcome.append)
    world.scheduler.run(1)
    world.scheduler.run(1)
    assert [problem.error_code for problem in outcome[0].values()] == [ErrorCode.unknown_server_error]


def test_a_new_session_finds_what_changed_and_what_is_gone(world: World) -> None:
    one = world.broker()
    one.change(TOPIC, a="1")
    one.change("/config/topics/gone", a="1")
    one.changed.clear()
    one.zookeeper.cut()
    world.ensemble.make(TOPIC, encode(config_value({"a": "2"})))
    world.ensemble.do(Delete("/config/topics/gone"))
    world.scheduler.run(1)
    world.ensemble.expire(one.zookeeper.session_id)
    one.zookeeper.heal()
    for _ in range(10):
        world.scheduler.run(1)
    assert (one.store.topic_config("t"), one.store.topic_config("gone")) == ({"a": "2"}, {})
    assert sorted(one.changed) == ["/config/topics/gone", TOPIC]


def test_a_topic_that_is_new_is_read_when_it_is_asked_for(world: World) -> None:
    one = world.broker()
    world.ensemble.make(TOPIC, encode(config_value({"a": "1"})))
    world.scheduler.run(1)
    assert one.store.topic_config("t") == {}
    done: list[bool] = []
    one.store.read_topic_configs(["t", "none"], done.append)
    world.scheduler.run(1)
    assert done == [True]
    assert one.store.topic_config("t") == {"a": "1"}


def test_notifications_are_old_after_15_minutes(world: World) -> None:
    one = world.broker()
    created_ms = world.clock.now_ms()
    world.ensemble.clock = world.clock
    one.change(TOPIC, a="1")
    assert world.ensemble.stat("/config/changes/config_change_0000000000") is not None
    assert created_ms > 0
    world.clock.advance_ms(NOTIFICATION_LIFETIME_MS + 1)
    one.change(TOPIC, a="2")
    assert world.ensemble.children("/config/changes") == ["config_change_0000000001"]


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", json.dumps({"version": 9}).encode(), encode(config_change_value("/x"))]
)
def test_notifications_that_make_no_sense_do_no_harm(world: World, data: bytes) -> None:
    one = world.broker()
    world.ensemble.do(Create(znodes.CONFIG_CHANGE_PREFIX, data, is_sequential=True))
    world.scheduler.run(1)
    assert one.change(TOPIC, a="1") is None
    assert one.changed == [TOPIC]


def test_settings_that_make_no_sense_leave_those_that_were(world: World) -> None:
    one = world.broker()
    one.change(TOPIC, a="1")
    world.ensemble.make(TOPIC, b"nonsense")
    world.ensemble.do(Create(znodes.CONFIG_CHANGE_PREFIX, encode(config_change_value(TOPIC)), is_sequential=True))
    world.scheduler.run(1)
    assert one.store.topic_config("t") == {"a": "1"}
    assert one.change(TOPIC, b="1") is not None
