"""The order in which members of an ensemble start, and what a member says of itself."""

from __future__ import annotations

import itertools
import socket
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.playbooks.shipped import shipped
from tests.serving import ANY_PORT, serving

FILTERS = shipped("filter_plugins/highwater_zookeeper.py")
MODULE = shipped("library/highwater_zookeeper.py")


def inventory(count: int) -> list[dict[str, Any]]:
    hostvars = {f"node{n}": {"zookeeper_id": n, "ansible_host": f"10.0.0.{n}"} for n in range(1, count + 1)}
    members: list[dict[str, Any]] = FILTERS.members(hostvars, hostvars)
    return members


def node(
    number: int,
    *,
    data: bool = False,
    was_among: int = 0,
    running: bool = False,
    stale: bool = False,
) -> dict[str, Any]:
    """was_among: the size of the ensemble that it was last started in; 0 and 1 are no list of servers."""
    return {
        "name": f"node{number}",
        "holds_data": data,
        "was_among": FILTERS.server_lines(inventory(was_among)),
        "running": running,
        "stale": stale,
    }


def ordered(nodes: list[dict[str, Any]], leader: str = "") -> dict[str, list[str]]:
    found: dict[str, list[str]] = FILTERS.order(nodes, inventory(len(nodes)), leader)
    return found


def test_what_the_inventory_says_of_a_member() -> None:
    hostvars = {
        "a": {"zookeeper_id": 7, "highwater_address": "10.1.0.1", "ansible_host": "192.168.0.1"},
        "b": {"zookeeper_id": "8", "zookeeper_client_port": 2281, "zookeeper_quorum_port": 2988},
    }
    assert FILTERS.members(hostvars, hostvars) == [
        {"name": "a", "id": 7, "host": "10.1.0.1", "port": 2181, "server_line": "7=10.1.0.1:2888:3888"},
        {"name": "b", "id": 8, "host": "b", "port": 2281, "server_line": "8=b:2988:3888"},
    ]
    assert FILTERS.server_lines(FILTERS.members(["a"], hostvars)) == [], "a single node is no ensemble"


def test_a_new_ensemble_starts_at_once() -> None:
    nodes = [node(1), node(2), node(3)]
    assert FILTERS.judge(nodes, inventory(3)) == {"holders": [], "lost": [], "grows": False}
    assert ordered(nodes) == {"stop": [], "first": ["node1", "node2", "node3"], "later": [], "restart": []}


def test_the_leader_restarts_last_and_whoever_is_as_wanted_not_at_all() -> None:
    nodes = [node(n, data=True, was_among=3, running=True, stale=n != 3) for n in (1, 2, 3)]
    assert ordered(nodes, "node1")["restart"] == ["node2", "node1"]
    assert ordered(nodes, "node2")["restart"] == ["node1", "node2"]


def test_a_member_that_lost_its_disk_starts_when_the_others_are_an_ensemble() -> None:
    nodes = [node(1), node(2, data=True, was_among=3), node(3, data=True, was_among=3)]
    assert not FILTERS.judge(nodes, inventory(3))["grows"]
    assert ordered(nodes) == {"stop": [], "first": ["node2", "node3"], "later": ["node1"], "restart": []}


def test_from_one_member_to_three_the_one_with_data_starts_with_one_other() -> None:
    nodes = [node(1), node(2, data=True, was_among=1, running=True, stale=True), node(3)]
    assert FILTERS.judge(nodes, inventory(3)) == {"holders": ["node2"], "lost": [], "grows": True}
    assert ordered(nodes) == {"stop": ["node2"], "first": ["node1", "node2"], "later": ["node3"], "restart": []}


def test_from_three_members_to_five_all_with_data_start_first() -> None:
    nodes = [node(n, data=n <= 3, was_among=3 if n <= 3 else 0, running=n <= 3) for n in range(1, 6)]
    assert ordered(nodes) == {
        "stop": ["node1", "node2", "node3"],
        "first": ["node1", "node2", "node3"],
        "later": ["node4", "node5"],
        "restart": [],
    }


def test_a_growth_that_was_interrupted_needs_the_word_again_and_goes_on() -> None:
    # The configuration is everywhere; node1 was started with it, and nobody else yet.
    nodes = [node(1, data=True, was_among=3, running=True), node(2), node(3)]
    assert FILTERS.judge(nodes, inventory(3))["grows"], "two without data could agree without it"
    assert ordered(nodes)["first"] == ["node1", "node2"]
    # Of three old members one was started anew already.
    nodes = [node(n, data=n <= 3, was_among=5 if n == 1 else 3 if n <= 3 else 0) for n in range(1, 6)]
    assert FILTERS.judge(nodes, inventory(5))["grows"]


def test_members_that_the_inventory_forgot_are_named() -> None:
    nodes = [node(n, data=True, was_among=5, running=True) for n in (1, 2, 3)]
    assert FILTERS.judge(nodes, inventory(3))["lost"] == ["4=10.0.0.4:2888:3888", "5=10.0.0.5:2888:3888"]


@pytest.mark.parametrize("size", [1, 3, 5])
def test_members_without_data_never_are_a_majority_before_those_with_data_are_back(size: int) -> None:
    for states in itertools.product(itertools.product((False, True), repeat=3), repeat=size):
        nodes = [
            node(number, data=data, was_among=size if member else 0, running=running, stale=True)
            for number, (data, member, running) in enumerate(states, 1)
        ]
        plan = ordered(nodes)
        with_data = {each["name"] for each in nodes if each["holds_data"]}
        up = {each["name"] for each in nodes if each["running"]} - set(plan["stop"])
        if with_data:
            assert with_data <= up | set(plan["first"])
            assert len(set(plan["first"]) - with_data) <= size // 2
        assert not set(plan["first"]) & set(plan["later"])
        assert up | set(plan["first"]) | set(plan["later"]) == {each["name"] for each in nodes}
        assert not set(plan["restart"]) & (set(plan["first"]) | set(plan["later"]))


SRVR = "Zookeeper version: 3.8.0, built on 2023\nZxid: 0x500000007\nMode: {mode}\nNode count: 5\n"


@contextmanager
def answering(answers: dict[str, str]) -> Iterator[int]:
    """A server of four-letter words on a port of the loopback address."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(answers[self.request.recv(4).decode()].encode())

    with serving(socketserver.ThreadingTCPServer(ANY_PORT, Handler)) as port:
        yield port


def test_an_ensemble_is_complete_when_its_leader_has_all_others_in_sync() -> None:
    leading = {"srvr": SRVR.format(mode="leader"), "mntr": "zk_version\t3.8\nzk_synced_followers\t1\n"}
    following = {"srvr": SRVR.format(mode="follower")}
    with answering(leading) as first, answering(following) as second:
        members = [MODULE.ask("node1", "127.0.0.1", first), MODULE.ask("node2", "127.0.0.1", second)]
    assert members[0] == MODULE.Member("node1", "leader", "0x500000007", "3.8.0, built on 2023", 1)
    assert members[1].mode == "follower"
    assert MODULE.leader_of(members) == "node1"
    assert MODULE.incomplete(members, 2) == ""
    assert MODULE.incomplete(members, 3) == "2 members instead of 3"
    members[0].synced_followers = 0
    assert MODULE.incomplete(members, 2) == "0 of 1 followers are in sync with node1"
    assert MODULE.incomplete(members[1:], 1) == "one member should lead, and nobody does"


def test_a_member_that_does_not_serve_says_why() -> None:
    with answering({"srvr": "This ZooKeeper instance is not currently serving requests\n"}) as port:
        waiting = MODULE.ask("node1", "127.0.0.1", port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    absent = MODULE.ask("node2", "127.0.0.1", free)
    assert waiting.problem == "This ZooKeeper instance is not currently serving requests"
    assert absent.problem == f"127.0.0.1:{free}: Connection refused"
    assert MODULE.leader_of([waiting, absent]) == ""
    assert "node2 does not serve: 127.0.0.1" in MODULE.incomplete([waiting, absent], 2)
