"""The features of a cluster in ZooKeeper: what brokers support, what is finalised, what a lesser broker takes back."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import BrokerInfo
from highwater.broker.cluster.znodes import broker_value, encode
from highwater.broker.cluster.zookeeper import Create, Delete, run
from highwater.broker.features import NOTHING, Finalised, Range, Supported, Update, first_levels, updating
from highwater.broker.member.features import ClusterFeatures
from highwater.broker.member.member import take_up_cluster
from highwater.broker.settings.metadata_tree import FEATURES, features_value
from highwater.kafka.protocol.problem import Problem
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock
from tests.broker.simulation.zookeeper import Ensemble, SimulatedZooKeeper

SUPPORTED = {"colour": Range(0, 2), "shape": Range(0, 1)}
NOW_S = 1_800_000_000


class World:
    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.clock = ManualClock(NOW_S * 1000)
        self.ensemble = Ensemble(self.scheduler)
        for path in ("/brokers", "/brokers/ids"):
            self.ensemble.make(path)

    def broker(self, broker_id: int, supported: Supported = SUPPORTED) -> Broker:
        return Broker(self, broker_id, supported)

    def register(self, broker_id: int, supported: Supported) -> None:
        value = broker_value(BrokerInfo(broker_id, -1, (), None), 0, supported)
        self.ensemble.make(f"/brokers/ids/{broker_id}", encode(value))

    def leave(self, broker_id: int) -> None:
        self.ensemble.do(Delete(f"/brokers/ids/{broker_id}"))

    def set(self, finalised: Finalised) -> None:
        self.ensemble.make(FEATURES, encode(features_value(finalised)))

    def stored(self) -> dict[str, Any] | None:
        data = self.ensemble.data(FEATURES)
        return None if data is None else json.loads(data)


class Broker:
    """One of ours, from its registration on."""

    def __init__(self, world: World, broker_id: int, supported: Supported) -> None:
        self._world = world
        self._supported = supported
        self.zookeeper: SimulatedZooKeeper = world.ensemble.client(self)
        world.scheduler.run(1)
        self.part = ClusterFeatures(self.zookeeper, world.clock, supported)
        self.failures: list[Any] = []
        run(self.zookeeper, self.part.load(), self.failures.append)
        world.scheduler.run(1)
        world.register(broker_id, supported)
        self.part.session_began(1)
        world.scheduler.run(1)

    @property
    def finalised(self) -> Finalised:
        return self.part.features.finalised

    def session_began(self, session_id: int) -> None:
        if hasattr(self, "part"):
            self.part.session_began(1)

    def session_ended(self) -> None:
        self.part.session_ended()

    def connection_changed(self, is_connected: bool) -> None:
        pass

    def watch_fired(self, path: str, event: Any) -> None:
        self.part.watch_fired(path, event)

    def update(self, **levels: int) -> Problem | None:
        outcome: list[Problem | None] = []
        current = self.finalised.levels
        updates = {name: Update(level, 1 if level >= current.get(name, 0) else 2) for name, level in levels.items()}
        change = updating(self._supported, updates, self._world.clock.now_ms())
        self.part.change_features(change, outcome.append)
        self._world.scheduler.run(1)
        return outcome[0]


@pytest.fixture
def world() -> World:
    return World()


def test_what_one_broker_finalises_the_others_hear_of(world: World) -> None:
    one, other = world.broker(1), world.broker(2)
    assert one.finalised == other.finalised == NOTHING
    assert one.update(colour=2, shape=1) is None
    assert world.stored() == {"version": 1, "epoch": NOW_S, "levels": {"colour": 2, "shape": 1}}
    assert one.finalised == other.finalised == (NOW_S, {"colour": 2, "shape": 1})
    assert other.update(shape=0) is None
    assert one.finalised == other.finalised == (NOW_S + 1, {"colour": 2})
    assert world.broker(3).finalised == (NOW_S + 1, {"colour": 2})


@pytest.mark.parametrize(
    ("supported", "why"),
    [
        ({}, "Broker 9 does not support this feature."),
        ({"colour": Range(0, 1)}, "Broker 9 only supports versions 1-1."),
    ],
)
def test_a_level_needs_every_live_broker(world: World, supported: Supported, why: str) -> None:
    broker = world.broker(1)
    world.register(9, supported)
    problem = broker.update(colour=2)
    assert problem is not None
    assert problem.error_code == ErrorCode.invalid_update_version
    assert problem.message.endswith(f"Invalid update version 2 for feature colour. {why}")
    assert world.stored() is None
    assert broker.update(colour=1 if supported else 0) is None
    world.leave(9)
    assert broker.update(colour=2) is None


@pytest.mark.parametrize("supported", [{}, {"shape": Range(0, 1), "colour": Range(0, 1)}, {"shape": Range(0, 1)}])
def test_a_lesser_broker_takes_a_level_back_until_somebody_finalises_it_again(
    world: World, supported: Mapping[str, Range], caplog: pytest.LogCaptureFixture
) -> None:
    brokers = [world.broker(1), world.broker(2)]
    brokers[0].update(colour=2, shape=1)
    with caplog.at_level(logging.WARNING):
        world.register(9, supported)
        world.scheduler.run(1)
    kept = {"shape": 1} if supported else {}
    assert [broker.finalised for broker in brokers] == [(NOW_S + 1, kept)] * 2
    told = [text for text in caplog.messages if "broker 9 does not support level 2 of the feature colour" in text]
    assert len(told) == 1, "only one of the brokers takes it back"
    world.leave(9)
    world.scheduler.run(1)
    assert brokers[0].finalised == (NOW_S + 1, kept)
    assert brokers[0].update(colour=2) is None
    assert brokers[1].finalised == (NOW_S + 2, {"colour": 2, **kept})


def test_a_registration_that_cannot_be_read_supports_nothing(world: World) -> None:
    broker = world.broker(1)
    broker.update(colour=1)
    world.ensemble.make("/brokers/ids/9", b'{"version":5,"features":{"colour":{"min_version":1}}}')
    world.scheduler.run(1)
    assert broker.finalised == (NOW_S + 1, {})


def test_a_broker_that_supports_less_takes_back_what_it_finds(world: World) -> None:
    """An older release of ours, started where a newer one finalised more."""
    newer = world.broker(1)
    newer.update(colour=2)
    older = world.broker(2, {"colour": Range(0, 1)})
    assert newer.finalised == older.finalised == (NOW_S + 1, {})


def test_a_level_that_was_finalised_while_a_lesser_broker_came_is_taken_back(world: World) -> None:
    """The check of who lives and the write are two steps: what comes in between is found afterwards."""
    broker = world.broker(1)
    broker.update(shape=1)

    def change(finalised: Finalised, others: Mapping[int, Supported]) -> Finalised:
        world.register(9, {"shape": Range(0, 1)})
        return finalised.changed_to({"shape": 1, "colour": 2}, world.clock.now_ms())

    outcome: list[Problem | None] = []
    broker.part.change_features(change, outcome.append)
    world.scheduler.run(1)
    assert outcome == [None]
    assert broker.finalised == (NOW_S + 2, {"shape": 1})


def test_what_happened_without_a_session_is_seen_in_the_next(world: World) -> None:
    broker = world.broker(1)
    broker.update(colour=2)
    world.ensemble.expire(broker.zookeeper.session_id)
    world.set(Finalised(NOW_S + 5, {"colour": 1}))
    assert broker.finalised == (NOW_S, {"colour": 2}), "the known levels stay in force"
    world.scheduler.run(60_000)
    assert broker.finalised == (NOW_S + 5, {"colour": 1})


def test_a_damaged_znode_changes_nothing(world: World) -> None:
    broker = world.broker(1)
    broker.update(colour=1)
    world.ensemble.make(FEATURES, b"{}")
    world.scheduler.run(1)
    assert broker.finalised == (NOW_S, {"colour": 1})
    problem = broker.update(colour=2)
    assert problem is not None
    assert problem.message.startswith(f"{FEATURES} in ZooKeeper is damaged: ")


def test_two_changes_at_the_same_time_are_both_made(world: World) -> None:
    one, other = world.broker(1), world.broker(2)
    outcome: list[Problem | None] = []
    for broker, name in ((one, "colour"), (other, "shape")):
        broker.part.change_features(updating(SUPPORTED, {name: Update(1, 1)}, NOW_S * 1000), outcome.append)
    world.scheduler.run(1)
    assert outcome == [None, None]
    assert one.finalised == other.finalised == (NOW_S + 1, {"colour": 1, "shape": 1})


@pytest.mark.parametrize("is_new", [True, False])
def test_a_new_cluster_begins_with_all_that_its_first_broker_supports(is_new: bool) -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    zookeeper = ensemble.client(Nobody())
    scheduler.run(1)
    if not is_new:
        run(zookeeper, take_up_cluster("c"))
        scheduler.run(1)
    run(zookeeper, take_up_cluster("c", first_levels(SUPPORTED, NOW_S * 1000)))
    scheduler.run(1)
    expected = encode({"version": 1, "epoch": NOW_S, "levels": {"colour": 2, "shape": 1}})
    assert ensemble.data(FEATURES) == (expected if is_new else None)


def test_where_nothing_is_supported_nothing_is_written() -> None:
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    zookeeper = ensemble.client(Nobody())
    scheduler.run(1)
    run(zookeeper, take_up_cluster("c", first_levels({}, NOW_S * 1000)))
    scheduler.run(1)
    assert ensemble.do(Create("/highwater")).path == "/highwater", "it is not there"


class Nobody:
    def session_began(self, session_id: int) -> None: ...

    def session_ended(self) -> None: ...

    def connection_changed(self, is_connected: bool) -> None: ...

    def watch_fired(self, path: str, event: Any) -> None: ...
