"""What two looks at the watched znodes say of elections, registrations and settings."""

from __future__ import annotations

import json
from dataclasses import replace

from highwater.monitor.events import EventKind, events_between
from highwater.monitor.model import SourceState, ZooKeeper
from highwater.monitor.sources import with_zookeeper
from highwater.monitor.zookeeper.changes import Ephemeral, Watched, changes
from tests.monitor.clusters import snapshot

AT_MS = 1_790_000_000_000


def controller(node_id: int, czxid: int) -> Ephemeral:
    return Ephemeral(json.dumps({"version": 2, "brokerid": node_id}).encode(), 0xA00 + node_id, czxid)


def broker(node_id: int, czxid: int) -> Ephemeral:
    return Ephemeral(b'{"host":"b"}', 0xA00 + node_id, czxid)


FIRST = Watched(controller(1, 10), 4, {"1": broker(1, 8), "2": broker(2, 9)}, {"config_change_0000000001": b"{}"})


def texts(after: Watched, before: Watched = FIRST) -> list[str]:
    return [each.text for each in changes(before, after, AT_MS)]


def test_nothing_happened_between_two_equal_looks() -> None:
    assert texts(FIRST) == []


def test_an_election_is_one_change_with_the_data_as_proof() -> None:
    (found,) = changes(FIRST, replace(FIRST, controller=controller(2, 20), controller_epoch=5), AT_MS)
    assert found.text == "broker 2 is the controller (epoch 5); it was broker 1"
    assert (found.at_ms, found.path) == (AT_MS, "/controller")
    assert (json.loads(found.before)["brokerid"], json.loads(found.after)["brokerid"]) == (1, 2)
    again = replace(FIRST, controller=controller(1, 20), controller_epoch=5)
    assert texts(again) == ["broker 1 was elected controller again (epoch 5)"]
    gone = replace(FIRST, controller=None)
    assert texts(gone) == ["there is no controller: broker 1 gave it up, or its session 0xa01 is over"]
    assert texts(again, gone) == ["broker 1 is the controller (epoch 5); there was none"]
    assert texts(replace(FIRST, controller_epoch=5)) == ["the controller epoch is 5; it was 4"]


def test_a_controller_that_does_not_say_who_it_is_is_not_named() -> None:
    odd = replace(FIRST, controller=Ephemeral(b"<b>", -5, 20))
    assert texts(odd) == ["a broker that is not named is the controller (epoch 4); it was broker 1"]
    assert "0xfffffffffffffffb" in odd.sessions


def test_a_broker_that_was_away_between_two_looks_is_seen() -> None:
    after = replace(FIRST, brokers={"2": broker(2, 30), "3": broker(3, 31)})
    assert texts(after) == [
        "the registration of broker 1 is gone: it stopped, or its session 0xa01 is over",
        "broker 2 registered anew, in session 0xa02: it was away meanwhile",
        "broker 3 registered, in session 0xa03",
    ]


def test_settings_that_are_changed_are_named_and_many_of_them_counted() -> None:
    names = {f"config_change_{number:010}": b'{"version":2,"entity_path":"topics/orders"}' for number in range(2, 4)}
    assert texts(replace(FIRST, config_changes=names)) == ["settings of topics/orders were changed"] * 2
    many = {f"config_change_{number:010}": b"" for number in range(2, 30)}
    assert texts(replace(FIRST, config_changes=many)) == ["settings were changed 28 times"]
    # An old notification that is removed is nothing.
    assert texts(replace(FIRST, config_changes={})) == []


def test_sessions_have_the_znodes_that_they_own() -> None:
    assert FIRST.sessions == {"0xa01": ("/controller", "/brokers/ids/1"), "0xa02": ("/brokers/ids/2",)}


def test_changes_become_events_also_while_no_broker_answers() -> None:
    found = changes(FIRST, replace(FIRST, controller=None), AT_MS)
    for brokers in (0, 3):
        after = replace(snapshot(brokers=brokers), zookeeper=ZooKeeper(changes=tuple(found)))
        events = events_between(snapshot(brokers=brokers), after)
        (event,) = (each for each in events if each.kind is EventKind.ZNODE_CHANGE)
        assert (event.entity, event.name, event.at_ms) == ("znode", "/controller", AT_MS)
        assert event.text.startswith("ZooKeeper: there is no controller")


def test_the_epoch_is_that_of_the_controller_that_brokers_name() -> None:
    state = SourceState("zookeeper", AT_MS)
    plain = replace(snapshot(controller=1), controller_epoch=None)
    assert with_zookeeper(plain, ZooKeeper(controller=1, controller_epoch=5), state).controller_epoch == 5
    assert with_zookeeper(plain, ZooKeeper(controller=2, controller_epoch=6), state).controller_epoch is None
    silent = ZooKeeper(silent_since_ms=AT_MS, controller=1, controller_epoch=5)
    assert with_zookeeper(plain, silent, state).controller_epoch is None
    assert "zookeeper" in with_zookeeper(plain, silent, state).sources
