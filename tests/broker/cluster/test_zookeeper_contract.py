"""The contract of broker/cluster/zookeeper.py: ZooKeeper and our tree through kazoo, the simulated one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from highwater.broker.cluster.zookeeper import (
    Check,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    Get,
    Multi,
    NodeData,
    Set,
    Stat,
    WatchEvent,
    ZooKeeperError,
)
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.running_tree import running_tree
from tests.broker.simulation.zookeeper import Ensemble
from tests.broker.zookeeper_clients import Client, RealClient, SimulatedClient, ask
from tests.broker.zookeeper_server import running_zookeeper

MakeClient = Callable[[], Client]


@pytest.fixture(scope="module")
def real_connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("zookeeper")
    with running_zookeeper(directory) as ensemble:
        yield ensemble.connect


@pytest.fixture(scope="module")
def tree_connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_tree(tmp_path_factory.mktemp("tree") / "metadata") as tree:
        yield tree.connect
        assert tree.failures == []


_chroots = count()


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.slow), "tree", "simulated"])
def make_client(request: pytest.FixtureRequest) -> Iterator[MakeClient]:
    made: list[Client] = []
    scheduler = ManualScheduler()
    ensemble = Ensemble(scheduler)
    chroot = f"/deep/{next(_chroots)}"

    def make() -> Client:
        if request.param == "simulated":
            made.append(SimulatedClient(ensemble, scheduler))
        else:
            made.append(RealClient(request.getfixturevalue(f"{request.param}_connect"), chroot))
        client = made[-1]
        client.wait(lambda: bool(client.told.events))
        assert client.told.taken() == ["began"]
        return client

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    return make_client()


def test_nodes_are_made_read_set_and_deleted(client: Client) -> None:
    made, found, names = ask(client, Create("/a", b"1"), Get("/a"), Children("/"))
    assert isinstance(made, Created)
    assert made.path == "/a"
    assert (made.stat.version, made.stat.ephemeral_owner) == (0, 0)
    assert found == NodeData(b"1", made.stat)
    assert names == ["a"]
    stat, found, there = ask(client, Set("/a", b"2", 0), Get("/a"), Exists("/a"))
    assert isinstance(stat, Stat)
    assert (stat.version, stat.czxid) == (1, made.stat.czxid)
    assert found == NodeData(b"2", stat)
    assert there == stat
    assert ask(client, Delete("/a", 1), Exists("/a")) == [None, ZooKeeperError.NO_NODE]


def test_a_node_without_data_reads_as_none(client: Client) -> None:
    _, node = ask(client, Create("/a"), Get("/a"))
    assert node.data == b""


def test_what_cannot_be_done_is_told(client: Client) -> None:
    ask(client, Create("/a"), Create("/a/b"), Set("/a", b"x"))
    assert ask(
        client,
        Create("/a"),
        Create("/no/parent"),
        Get("/none"),
        Children("/none"),
        Set("/none", b""),
        Delete("/none"),
        Delete("/a"),
        Set("/a", b"", 0),
        Delete("/a/b", 7),
    ) == [
        ZooKeeperError.NODE_EXISTS,
        ZooKeeperError.NO_NODE,
        ZooKeeperError.NO_NODE,
        ZooKeeperError.NO_NODE,
        ZooKeeperError.NO_NODE,
        ZooKeeperError.NO_NODE,
        ZooKeeperError.NOT_EMPTY,
        ZooKeeperError.BAD_VERSION,
        ZooKeeperError.BAD_VERSION,
    ]


def test_sequential_nodes_have_numbers_that_rise(client: Client) -> None:
    ask(client, Create("/s"))
    first, second = ask(client, Create("/s/n_", b"a", is_sequential=True), Create("/s/n_", b"b", is_sequential=True))
    assert [first.path, second.path] == ["/s/n_0000000000", "/s/n_0000000001"]


def test_an_ephemeral_node_is_its_sessions_and_has_no_children(client: Client) -> None:
    made, child = ask(client, Create("/e", b"", is_ephemeral=True), Create("/e/c"))
    assert made.stat.ephemeral_owner == client.zookeeper.session_id != 0
    assert child is ZooKeeperError.REFUSED


def test_a_transaction_is_done_whole(client: Client) -> None:
    ask(client, Create("/a", b"1"), Create("/b"))
    ((made, stat, deleted, checked),) = ask(
        client, Multi((Create("/c", b"2", is_ephemeral=True), Set("/a", b"3", 0), Delete("/b"), Check("/a", 1)))
    )
    assert isinstance(made, Created)
    assert made.path == "/c"
    assert made.stat.ephemeral_owner == client.zookeeper.session_id
    assert isinstance(stat, Stat)
    assert stat.version == 1
    assert (deleted, checked) == (None, None)
    assert made.stat.czxid == ask(client, Get("/c"))[0].stat.czxid


def test_or_not_at_all(client: Client) -> None:
    ask(client, Create("/a", b"1"))
    transaction = Multi((Create("/c"), Set("/a", b"3", 7), Delete("/a")))
    assert ask(client, transaction, Exists("/c")) == [
        [ZooKeeperError.ROLLED_BACK, ZooKeeperError.BAD_VERSION, ZooKeeperError.ROLLED_BACK],
        ZooKeeperError.NO_NODE,
    ]


def test_a_watch_is_told_once_and_before_the_answer_that_shows_the_change(make_client: MakeClient) -> None:
    reader, writer = make_client(), make_client()
    assert ask(reader, Exists("/a", watch=True)) == [ZooKeeperError.NO_NODE]
    ask(writer, Create("/a", b"1"), Set("/a", b"2"))
    reader.zookeeper.execute([Get("/a", watch=True), Children("/a", watch=True)], reader.told.answered)
    reader.wait(lambda: len(reader.told.events) >= 2)
    fired, (node, names) = reader.told.taken()
    assert fired == ("/a", WatchEvent.CREATED)
    assert (node.data, names) == (b"2", [])
    ask(writer, Set("/a", b"3"), Set("/a", b"4"), Create("/a/b"), Delete("/a/b"))
    reader.wait(lambda: len(reader.told.events) >= 2)
    assert reader.told.taken() == [("/a", WatchEvent.CHANGED), ("/a", WatchEvent.CHILDREN)]
    ask(reader, Get("/a", watch=True), Children("/a", watch=True))
    ask(writer, Delete("/a"), Create("/a"))
    reader.wait(lambda: bool(reader.told.events))
    ask(reader, Exists("/a"))
    assert reader.told.taken() == [("/a", WatchEvent.DELETED)]


def test_requests_and_watches_outlive_a_connection(make_client: MakeClient) -> None:
    client, other = make_client(), make_client()
    ask(client, Create("/data"), Create("/children"), Create("/gone"))
    ask(client, Get("/data", watch=True), Children("/children", watch=True), Exists("/made", watch=True))
    ask(client, Exists("/gone", watch=True), Get("/gone", watch=True), Exists("/never", watch=True))
    session_id = client.zookeeper.session_id
    results: list[list[Any]] = []
    client.lose_connection()
    client.zookeeper.execute([Create("/late"), Exists("/late")], results.append)
    ask(other, Set("/data", b"1"), Create("/children/c"), Create("/made"), Delete("/gone"))
    events = {
        ("/data", WatchEvent.CHANGED),
        ("/children", WatchEvent.CHILDREN),
        ("/made", WatchEvent.CREATED),
        ("/gone", WatchEvent.DELETED),
    }
    client.wait(lambda: bool(results) and events <= set(client.told.events))
    told = client.told.taken()
    assert sorted(map(str, told)) == sorted(map(str, ["disconnected", "connected", *events]))
    assert isinstance(results[0][1], Stat)
    assert client.zookeeper.session_id == session_id
    # Those that did not fire stand.
    ask(other, Create("/never"))
    client.wait(lambda: bool(client.told.events))
    assert client.told.taken() == [("/never", WatchEvent.CREATED)]


def test_many_requests_are_carried_out_in_order_across_connections(client: Client) -> None:
    ask(client, Create("/a"))
    results: list[list[Any]] = []
    client.zookeeper.execute([Set("/a", str(number).encode()) for number in range(300)], results.append)
    client.lose_connection()
    client.zookeeper.execute([Get("/a")], results.append)
    client.wait(lambda: len(results) == 2)
    versions = [stat.version for stat in results[0]]
    assert versions == sorted(set(versions))
    assert results[1][0].data == b"299"


def test_a_session_that_expires_takes_its_nodes_along_and_another_follows(make_client: MakeClient) -> None:
    client, other = make_client(), make_client()
    ask(client, Create("/e", is_ephemeral=True), Exists("/later", watch=True))
    ask(other, Exists("/e", watch=True))
    first = client.zookeeper.session_id
    client.expire()
    other.wait(lambda: bool(other.told.events))
    assert other.told.taken() == [("/e", WatchEvent.DELETED)]
    client.wait(lambda: "began" in client.told.events)
    assert [event for event in client.told.taken() if event not in ("disconnected", "connected")] == ["ended", "began"]
    assert client.zookeeper.session_id not in (0, first)
    # Its watches ended with it.
    ask(other, Create("/later"))
    assert isinstance(ask(client, Create("/e", is_ephemeral=True), Exists("/later"))[0], Created)
    assert client.told.taken() == []


def test_what_was_under_way_is_told_that_the_session_ended(make_client: MakeClient) -> None:
    client = make_client()
    ask(client, Create("/a"))
    told = client.told
    client.expire()
    client.zookeeper.execute([Set("/a", b"1"), Get("/a")], told.answered)
    client.wait(lambda: "began" in told.events)
    expired = [ZooKeeperError.SESSION_EXPIRED] * 2
    assert [event for event in told.taken() if event not in ("disconnected", "connected")] == [
        expired,
        "ended",
        "began",
    ]
