"""Events of one cause are one line, whatever the order in which ticks see them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from highwater.monitor.causes import Happening, by_cause
from highwater.monitor.events import Event, EventKind, events_between
from highwater.monitor.model import NO_LEADER, Partition, Snapshot
from tests.monitor.clusters import broker, partition, snapshot, topic

TICK_MS = 15_000
PARTITIONS = 9


def cluster(number: int, partitions: list[Partition], *, alive: set[int], controller: int = 1) -> Snapshot:
    made = snapshot(number=number, topics=[topic("orders", *partitions)])
    brokers = {node_id: replace(broker(node_id), is_alive=node_id in alive) for node_id in range(4)}
    at_ms = 1_800_000_000_000 + number * TICK_MS
    return replace(made, taken_at_ms=at_ms, brokers=brokers, controller=controller, controller_epoch=None)


def story(states: list[tuple[list[Partition], set[int], int]]) -> list[Event]:
    """The events between states that follow each other tick by tick, the newest first."""
    snapshots = [
        cluster(number, partitions, alive=alive, controller=controller)
        for number, (partitions, alive, controller) in enumerate(states)
    ]
    found = [event for before, after in pairwise(snapshots) for event in events_between(before, after)]
    return found[::-1]


WELL = [partition("orders", number, leader=number % 3, replicas=(0, 1, 2)) for number in range(PARTITIONS)]
LED = [number for number in range(PARTITIONS) if number % 3 == 2]
ALL = {0, 1, 2, 3}


def without_2(each: Partition) -> Partition:
    leader = 0 if each.leader == 2 else each.leader
    return replace(each, leader=leader, in_sync_replicas=(0, 1))


def loss_and_return(random_: random.Random) -> list[tuple[list[Partition], set[int], int]]:
    """Broker 2, the controller, is lost and comes back; each change is seen in some tick near it."""
    changed, states = list(WELL), [(list(WELL), ALL, 2)]
    gone_at, elected_at = random_.randrange(1, 5), random_.randrange(1, 5)
    moved_at = [random_.randrange(1, 5) for _ in WELL]
    for tick in range(1, 5):
        changed = [without_2(each) if moved_at[at] == tick else each for at, each in enumerate(changed)]
        states.append((changed, ALL - {2} if tick >= gone_at else ALL, 0 if tick >= elected_at else 2))
    back_at = 10
    in_sync_at = [back_at + random_.randrange(8) for _ in WELL]
    led_at = [at + random_.randrange(8) for at in in_sync_at]
    for tick in range(5, 30):
        for at, well in enumerate(WELL):
            if tick == in_sync_at[at]:
                changed = [*changed[:at], replace(changed[at], in_sync_replicas=(0, 1, 2)), *changed[at + 1 :]]
            if tick == led_at[at]:
                changed = [*changed[:at], replace(changed[at], leader=well.leader), *changed[at + 1 :]]
        states.append((changed, ALL if tick >= back_at else ALL - {2}, 0))
    return states


@pytest.mark.parametrize("seed", range(200))
def test_a_loss_and_a_return_are_a_line_each_in_any_order_of_ticks(seed: int) -> None:
    lines = by_cause(story(loss_and_return(random.Random(seed))))
    assert [each.line.text for each in lines] == [
        "broker 2 is back: 3 partitions have it as leader, 9 have its copy in sync",
        "broker 2 is gone: 3 partitions have new leaders, 9 have a copy less; broker 0 is the controller",
    ]
    assert [len(each.parts) for each in lines] == [1 + 3 + 9, 1 + 3 + 9 + 1]
    assert all(a.at_ms <= b.at_ms for each in lines for a, b in pairwise(each.parts))


@pytest.mark.parametrize("seed", range(200))
def test_every_event_is_in_one_line(seed: int) -> None:
    """Brokers come and go, leaders and replicas move, for no reason at all."""
    random_ = random.Random(seed)
    states, partitions = [], list(WELL)
    for _ in range(40):
        at = random_.randrange(PARTITIONS)
        replicas = tuple(random_.sample(range(4), 3)) if random_.random() < 0.2 else partitions[at].replicas
        in_sync = tuple(each for each in replicas if random_.random() < 0.8)
        leader = random_.choice(in_sync) if in_sync else NO_LEADER
        partitions = list(partitions)
        partitions[at] = replace(partitions[at], leader=leader, replicas=replicas, in_sync_replicas=in_sync)
        alive = {each for each in range(4) if random_.random() < 0.9} or {0}
        states.append((partitions, alive, random_.randrange(4)))
    events = story(states)
    lines = by_cause(events)
    assert Counter(part for each in lines for part in each.parts or (each.line,)) == Counter(events)
    assert [each.line.at_ms for each in lines] == sorted((each.line.at_ms for each in lines), reverse=True)
    assert len({each.anchor for each in lines if each.parts}) == sum(bool(each.parts) for each in lines)


def only(lines: list[Happening]) -> Happening:
    (line,) = lines
    return line


def test_thousands_of_partitions_count_although_a_line_of_the_history_names_a_hundred() -> None:
    many = [partition("orders", number, leader=2, replicas=(0, 1, 2)) for number in range(1500)]
    lost = [replace(each, leader=NO_LEADER, in_sync_replicas=(0, 1)) for each in many]
    line = only(by_cause(story([(many, ALL, 0), (lost, ALL - {2}, 0)])))
    assert line.line.text == "broker 2 is gone: 1,500 partitions have no leader, 1,500 have a copy less"
    assert len(line.parts) == 3


def test_a_reassignment_is_a_line_from_the_first_copies_to_the_last() -> None:
    def moved(replicas: tuple[int, ...], leader: int, *in_sync: int) -> list[Partition]:
        changed = [replace(each, replicas=replicas, leader=leader, in_sync_replicas=in_sync) for each in WELL[:2]]
        return [*changed, *WELL[2:]]

    copying = (moved((3, 0, 1, 2), 0, 0, 1, 2), ALL, 1)
    done = (moved((3, 0, 1), 3, 0, 1, 3), ALL, 1)
    begun = (moved((0, 1, 2), 0, 0, 1, 2), ALL, 1)
    line = only(by_cause(story([begun, copying, copying, done])))
    assert line.line.text == "2 partitions moved to other replicas, 2 have new leaders"


def test_changes_of_one_tick_without_a_cause_are_a_line_of_each_kind() -> None:
    swapped = [replace(each, leader=(each.leader + 1) % 3) for each in WELL]
    assert only(by_cause(story([(WELL, ALL, 1), (swapped, ALL, 1)]))).line.text == "9 partitions have new leaders"
    slow = [replace(each, in_sync_replicas=(0, 1)) for each in WELL]
    lines = by_cause(story([(WELL, ALL, 1), (slow, ALL, 1), (WELL, ALL, 1)]))
    assert [each.line.text for each in lines] == [
        "broker 2 joined the in-sync replicas of 9 partitions",
        "broker 2 left the in-sync replicas of 9 partitions",
    ]


def test_what_zookeeper_says_of_a_broker_and_of_the_controller_is_of_the_same_line() -> None:
    def znode(at_ms: int, path: str, before: str, after: str) -> Event:
        return Event(at_ms, EventKind.ZNODE_CHANGE, "znode", path, "ZooKeeper: …", before, after)

    story_of_2 = [
        znode(0, "/controller", '{"version":2,"brokerid":2,"timestamp":"1"}', '{"version":2,"brokerid":1}'),
        Event(4_000, EventKind.CONTROLLER_CHANGE, "cluster", "c", "broker 1 is the controller; it was …", "2", "1"),
        znode(13_000, "/chroot/brokers/ids/2", "{}", ""),
        Event(19_000, EventKind.BROKER_GONE, "broker", "2", "broker 2 is gone"),
        znode(90_000, "/chroot/brokers/ids/2", "", "{}"),
        Event(90_100, EventKind.BROKER_BACK, "broker", "2", "broker 2 is back"),
    ]
    lines = by_cause(story_of_2[::-1])
    assert [(each.line.text, len(each.parts)) for each in lines] == [
        ("broker 2 is back", 2),
        ("broker 2 is gone: broker 1 is the controller", 4),
    ]


def test_an_event_by_itself_keeps_its_sentence() -> None:
    event = Event(1, EventKind.BROKER_GONE, "broker", "2", "broker 2 is gone")
    assert by_cause([event]) == [Happening(event)]


def test_what_is_long_after_is_not_of_it() -> None:
    gone = Event(0, EventKind.BROKER_GONE, "broker", "2", "broker 2 is gone")
    change = Event(700_000, EventKind.LEADER_CHANGE, "partition", "orders-0", "orders-0: …", "2", "1")
    assert by_cause([change, gone]) == [Happening(change), Happening(gone)]
