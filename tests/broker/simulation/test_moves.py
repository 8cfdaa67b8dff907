"""Partitions that move and topics that go, with their records, on simulated brokers that fail meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from highwater.broker.cluster import znodes
from highwater.broker.cluster.zookeeper import Create
from highwater.broker.settings import metadata_tree
from highwater.broker.topics.administration import Terms
from tests.broker.simulation.story import KEY, Story

TOPIC = KEY[0]


def move(story: Story, target: Sequence[int] | None) -> None:
    """Begin to, or call it off."""
    controller = story[story.controller].node
    assert controller is not None
    results: list[Any] = []
    wanted = {KEY: None if target is None else list(target)}
    controller.administration.alter_reassignments(wanted, results.append)
    story.wait(lambda: bool(results))
    assert results == [{KEY: None}]


def assigned(story: Story) -> tuple[int, ...]:
    data = story.cluster.ensemble.data(znodes.topic_path(TOPIC))
    assert data is not None
    assignment = znodes.read(data, znodes.parse_assigned_topic)[1][KEY[1]]
    return () if assignment.is_being_reassigned else assignment.replicas


def holds(story: Story, broker_id: int) -> bool:
    """Whether it has a log of the partition."""
    node = story[broker_id].node
    return node is None or node.storage.log_directories.get(KEY) is not None


def produced(story: Story, count: int) -> list[str]:
    for number in range(count):
        story.produce(f"m{number}", story.state.leader)
    return [f"m{number}" for number in range(count)]


def values(story: Story, broker_id: int) -> list[str]:
    return [entry.partition("@")[0] for entry in story.log(broker_id)]


def test_a_partition_moves_with_its_records() -> None:
    story = Story((2, 3))
    expected = produced(story, 20)
    move(story, (4, 1))
    story.wait(lambda: assigned(story) == (4, 1) and story.cluster.is_whole)
    assert story.state.leader == 4
    assert values(story, 4) == values(story, 1) == expected
    story.wait(lambda: not holds(story, 2) and not holds(story, 3))
    story.produce("more", 4)
    story.heal()


def test_it_moves_on_when_the_controller_dies() -> None:
    story = Story((2, 3))
    expected = produced(story, 5)
    story[4].kill()
    story.wait(lambda: 4 not in story.cluster.states[KEY].in_sync_replicas)
    story[4].start()
    story.wait(lambda: story[4].is_registered)
    move(story, (4, 3))
    story[1].kill()
    story.wait(lambda: assigned(story) == (4, 3) and story.cluster.is_whole)
    assert values(story, 4) == expected
    story[1].start()
    story.heal()


@pytest.mark.parametrize("died", [2, 3, 4])
def test_it_moves_when_brokers_that_died_are_back(died: int) -> None:
    """The leader, which is told then that what it has is another's; a follower that stays; or the one that is added."""
    story = Story((2, 3))
    expected = produced(story, 5)
    move(story, (4, 3))
    story[died].kill()
    story.let_pass(10_000)
    story[died].start()
    story.wait(lambda: assigned(story) == (4, 3) and story.cluster.is_whole, at_most_ms=60_000)
    assert values(story, 4) == values(story, 3) == expected
    story.wait(lambda: not holds(story, 2))
    story.heal()


def test_a_move_that_is_called_off_leaves_nothing() -> None:
    story = Story((2, 3))
    expected = produced(story, 5)
    story.cut(2, 4)
    story.cut(3, 4)
    move(story, (4, 3))
    story.let_pass(1000)
    assert assigned(story) == ()
    move(story, None)
    story.cluster.network.heal_all()
    story.wait(lambda: sorted(assigned(story)) == [2, 3] and story.cluster.is_whole)
    story.wait(lambda: not holds(story, 4))
    assert values(story, 2) == expected
    story.heal()


def _set_topic(story: Story, **settings: str) -> None:
    """As a tool does, which tells brokers of it."""
    config = {name.replace("_", "."): text for name, text in settings.items()}
    path = metadata_tree.topic_config_path(TOPIC)
    story.cluster.ensemble.make(path, znodes.encode(metadata_tree.config_value(config)))
    value = znodes.encode(znodes.config_change_value(path))
    story.cluster.ensemble.do(Create(znodes.CONFIG_CHANGE_PREFIX, value, is_sequential=True))


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_it_moves_no_faster_than_it_may(side: str) -> None:
    story = Story((2, 3), properties={"log.segment.bytes": "1000000", "replica.fetch.max.bytes": "1000"})
    expected = produced(story, 100)
    log = story.replica(2).log
    data = log.read(0, 1 << 30, end_offset=log.log_end_offset)
    assert isinstance(data, bytes)
    rate = len(data) // 5
    for broker in story.cluster.brokers.values():
        assert broker.node is not None
        broker.node.config.set_dynamic("", {f"{side}.replication.throttled.rate": str(rate)})
        broker.node.config.set_dynamic(str(broker.broker_id), {})
    _set_topic(story, **{f"{side}_replication_throttled_replicas": "*"})
    story.let_pass(100)
    began_ms = story.cluster.world.now_ms
    move(story, (4, 3))
    story.wait(lambda: assigned(story) == (4, 3) and story.cluster.is_whole)
    assert values(story, 4) == expected
    assert story.cluster.world.now_ms - began_ms > 2000
    story.heal()


def test_a_deleted_topic_goes_everywhere_once_all_are_back() -> None:
    story = Story((2, 3, 4))
    produced(story, 3)
    story[4].kill()
    story.wait(lambda: 4 not in story.state.in_sync_replicas)
    controller = story[1].node
    assert controller is not None
    results: list[Any] = []
    controller.administration.delete_topics([TOPIC], Terms(5000), results.append)
    story.wait(lambda: bool(results))
    assert results == [[None]]
    assert story.cluster.ensemble.data(znodes.topic_path(TOPIC)) is not None
    story[4].start()
    story.wait(lambda: story.cluster.ensemble.data(znodes.topic_path(TOPIC)) is None)
    assert not any(holds(story, broker_id) for broker_id in story.cluster.brokers)


def test_of_a_topic_that_goes_as_soon_as_it_came_nobody_goes_on_asking() -> None:
    """Its followers, which follow more of that leader, may not even have had the answer to their first fetch."""
    replicas = (2, 3, 1)
    story = Story(replicas)
    for number, brief_ms in enumerate((0, 50, 200, 450, 1000)):
        name = f"brief-{number}"
        story.cluster.create_topic(name, [replicas], is_used=False)
        story.wait(lambda: story.cluster.is_whole)
        story.let_pass(brief_ms)
        story.cluster.deleted.add(name)
        story.cluster.ensemble.make(znodes.delete_topic_path(name))
        story.wait(lambda: story.cluster.is_whole)
        story.heal()
