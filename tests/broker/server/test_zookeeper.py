"""kazoo's side of the broker, on a real ZooKeeper: what the contract (tests/broker/cluster) does not say of it."""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from highwater.broker.cluster.zookeeper import (
    Children,
    Create,
    Created,
    Exists,
    Get,
    Multi,
    Set,
    Stat,
    WatchEvent,
    ZooKeeperError,
)
from highwater.broker.server import kazoo_client
from highwater.broker.server.zookeeper import SESSION_FILE_NAME, KazooZooKeeper, SessionFile, ZooKeeperSettings
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from highwater.broker.settings.store import MetadataError
from tests.broker.zookeeper_clients import RealClient, ask
from tests.broker.zookeeper_server import Ensemble, running_zookeeper


def settings_of(connect: str, **properties: str) -> ZooKeeperSettings:
    named = {name.replace("_", "."): text for name, text in properties.items()}
    return ZooKeeperSettings.of(
        BrokerConfig(Setting("test", *item) for item in {"zookeeper.connect": connect, **named}.items())
    )


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


def test_several_hosts_and_a_chroot() -> None:
    settings = settings_of(" one:2181 , [::1]:2182,three/kafka/a/", zookeeper_session_timeout_ms="9000")
    assert settings == ZooKeeperSettings("one:2181,[::1]:2182,three", "/kafka/a", 9000, 9000, 10)
    assert settings_of("one:1", zookeeper_connection_timeout_ms="7").connection_timeout_ms == 7
    assert settings_of("one:1/").chroot == ""


@pytest.mark.parametrize("connect", ["one:", "one:x", ":2181", "a b", "one:70000", "one//a", "one/a/../b", "/a"])
def test_a_mistaken_address_is_told(connect: str) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect="):
        settings_of(connect)


def test_no_zookeeper_is_told_after_the_time_for_it() -> None:
    loop = uvloop.new_event_loop()
    zookeeper = KazooZooKeeper(loop, settings_of("127.0.0.1:1", zookeeper_connection_timeout_ms="200"), print)
    with pytest.raises(MetadataError, match=r"zookeeper.connect=127.0.0.1:1: no session within 200 ms"):
        loop.run_until_complete(zookeeper.start())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def test_a_chroot_that_is_not_there_is_made(ensemble: Ensemble) -> None:
    client = RealClient(ensemble.connect, "/not/there")
    ask(client, Create("/a"))
    client.close()
    root = RealClient(ensemble.connect)
    assert ask(root, Children("/not/there")) == [["a"]]
    root.close()


def test_nodes_without_data_have_none_as_kafkas_have(ensemble: Ensemble) -> None:
    client = RealClient(ensemble.connect, "/none")
    ask(client, Create("/a"))
    kazoo = client.zookeeper._client
    assert kazoo is not None
    assert kazoo.get("/none/a")[0] is None
    client.close()


def test_an_older_server_does_not_tell_the_stat_of_what_a_transaction_made() -> None:
    """What ZooKeeper 3.8.0 of Debian 12 answered (ZOOKEEPER-4026)."""
    answer = bytes.fromhex(
        "00000001 00 00000000 00000009 2f70726f62652f7830"  # create, not done, no error: /probe/x0
        "00000005 00 00000000"  # setData, not done, no error, and the stat
        "0000000100000116 0000000100000117 000001a2003ecd2f 000001a2003ecd43 00000001 00000001 00000000"
        "0000000000000000 00000001 00000001 0000000100000117 ffffffff 01 ffffffff"
    )
    results = kazoo_client._Multi.deserialize(answer, 0)
    asked = Multi((Create("/x0", b"abc"), Set("/", b"1")))
    created, stat = kazoo_client.result_of(asked, results, "/probe")
    assert created == Created("/x0", Stat(0, 0, 0))
    assert (stat.version, stat.czxid) == (1, 0x100000116)


def test_a_connection_that_comes_and_goes_is_one_line_each(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    client = RealClient(ensemble.connect, "/lines")
    caplog.set_level(logging.INFO)
    caplog.clear()
    client.lose_connection()
    client.wait(lambda: client.told.events[-1] == "connected")
    assert [record.message for record in caplog.records] == [
        "lost the connection to ZooKeeper; reconnecting within the session",
        "connected to ZooKeeper again, in the same session",
    ]
    client.close()


def test_many_watches_outlive_a_restart_of_zookeeper(ensemble: Ensemble) -> None:
    client = RealClient(ensemble.connect, "/many", session_timeout_ms=60_000)
    paths = [f"/node{number:05}" for number in range(2500)]
    ask(client, *(Create(path) for path in paths))
    ask(client, *(Get(path, watch=True) for path in paths))
    ensemble.restart()
    client.wait(lambda: client.told.events[-1] == "connected")
    client.told.taken()
    other = RealClient(ensemble.connect, "/many")
    ask(other, *(Create(f"{path}/child") for path in paths[:1]), Create("/x"))
    kazoo = other.zookeeper._client
    assert kazoo is not None
    for path in (paths[0], paths[1200], paths[-1]):
        kazoo.set(f"/many{path}", b"1")
    client.wait(lambda: len(client.told.events) == 3)
    assert client.told.taken() == [(path, WatchEvent.CHANGED) for path in (paths[0], paths[1200], paths[-1])]
    other.close()
    client.close()


def test_the_event_loop_goes_on_while_zookeeper_stands_still(ensemble: Ensemble) -> None:
    client = RealClient(ensemble.connect, "/still", session_timeout_ms=10_000)
    ensemble.servers[0].pause()
    try:
        results: list[list[object]] = []
        for _ in range(1000):
            client.zookeeper.execute([Exists("/"), Exists("/none")], results.append)
        turns: list[int] = []
        client.loop.call_soon(turns.append, 1)
        client.wait(lambda: bool(turns))
        # Were the loop to wait for ZooKeeper, it would be until the requests have failed.
        assert results == []
    finally:
        ensemble.servers[0].resume()
    client.wait(lambda: len(results) == 1000)
    assert results[-1][1] is ZooKeeperError.NO_NODE
    client.close()


def test_the_session_of_the_last_run_is_ended(ensemble: Ensemble, tmp_path: Path) -> None:
    killed = RealClient(ensemble.connect, "/kept", session_timeout_ms=60_000)
    file = SessionFile(tmp_path, killed.settings)
    killed.loop.run_until_complete(killed.zookeeper.keep_sessions_in(file))
    path = tmp_path / SESSION_FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ask(killed, Create("/e", is_ephemeral=True))
    again = RealClient(ensemble.connect, "/kept")
    assert not isinstance(ask(again, Exists("/e"))[0], ZooKeeperError)
    again.loop.run_until_complete(again.zookeeper.keep_sessions_in(file))
    assert ask(again, Exists("/e")) == [ZooKeeperError.NO_NODE]
    kept = file.read()
    assert kept is not None
    assert kept[0] == again.zookeeper.session_id
    again.close()
    assert not path.exists()
    killed.close()


def test_sessions_that_follow_are_kept_too(ensemble: Ensemble, tmp_path: Path) -> None:
    client = RealClient(ensemble.connect, "/kept2")
    file = SessionFile(tmp_path, client.settings)
    client.loop.run_until_complete(client.zookeeper.keep_sessions_in(file))
    client.expire()
    client.wait(lambda: client.told.events[-1] == "began")
    kept = file.read()
    assert kept is not None
    assert kept[0] == client.zookeeper.session_id
    client.close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"hosts": "h", "chroot": ""}', '{"hosts": "other:1", "chroot": ""}'])
def test_a_session_file_that_is_of_no_use_does_no_harm(tmp_path: Path, text: str) -> None:
    (tmp_path / SESSION_FILE_NAME).write_text(text)
    assert SessionFile(tmp_path, settings_of("h:1")).read() is None


def test_a_fault_of_ours_in_an_answer_is_told(ensemble: Ensemble, caplog: pytest.LogCaptureFixture) -> None:
    client = RealClient(ensemble.connect, "/fault")

    def stumble(results: list[object]) -> None:
        raise LookupError("a bug")

    client.zookeeper.execute([Exists("/")], stumble)
    client.wait(lambda: bool(client.failures))
    assert client.failures == ["the broker cannot go on as a member of its cluster"]
    assert "a bug" in caplog.text
    client.close()


def test_a_quorum_that_loses_its_leader_is_survived(tmp_path: Path) -> None:
    with running_zookeeper(tmp_path, 3) as quorum:
        client = RealClient(quorum.connect, "/q", session_timeout_ms=10_000)
        ask(client, Create("/e", is_ephemeral=True))
        leader = next(server for server in quorum.servers if server.is_leader)
        leader.kill()
        session_id = client.zookeeper.session_id
        made, there = ask(client, Create("/after"), Exists("/e"))
        assert not isinstance(made, ZooKeeperError)
        assert not isinstance(there, ZooKeeperError)
        # Without a majority nothing is answered, and nothing is lost.
        second = next(server for server in quorum.servers if server is not leader)
        second.kill()
        results: list[list[object]] = []
        client.told.taken()
        client.zookeeper.execute([Create("/late")], results.append)
        client.wait(lambda: "disconnected" in client.told.events)
        assert results == []
        leader.start()
        second.start()
        client.wait(lambda: bool(results))
        assert not isinstance(results[0][0], ZooKeeperError) or results[0][0] is ZooKeeperError.NODE_EXISTS
        assert client.zookeeper.session_id == session_id
        client.close()
