"""The source on a real ZooKeeper: under our brokers with an outage, under Apache Kafka 3.9 with a chroot."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient

from highwater.monitor.model import ZnodeChange
from highwater.monitor.zookeeper import source as source_module
from highwater.monitor.zookeeper.address import address_of, child_path
from highwater.monitor.zookeeper.meaning import meaning
from highwater.monitor.zookeeper.source import ZooKeeperSource
from highwater.monitor.zookeeper.znode import Znode, ZooKeeperError
from tests.broker.running_cluster import running_cluster
from tests.compat.apache_kafka.server import running_kafka
from tests.compat.apache_kafka.server import running_zookeeper as running_kafkas_zookeeper
from tests.topics import create_topics
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.clients]
DEADLINE_S = 90


@contextmanager
def running_source(connect: str) -> Iterator[ZooKeeperSource]:
    made = ZooKeeperSource(address_of(connect), tick_s=1.0)
    made.start()
    try:
        yield made
    finally:
        made.stop()


class Listener:
    """Gathers the changes, as snapshots do."""

    def __init__(self, source: ZooKeeperSource) -> None:
        self._source = source
        self.changes: list[ZnodeChange] = []

    def saw(self, text: str) -> bool:
        self.changes += self._source.take()[0].changes
        return any(text in each.text for each in self.changes)


def has_numbers(source: ZooKeeperSource) -> bool:
    """A server that is starved may miss the second that it has for an answer."""
    return [(each.mode, each.error) for each in source.take()[0].servers] == [("standalone", "")]


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create_topics(bootstrap, [NewTopic("orders", 3, 1, config={"retention.ms": "3600000"})])
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("carl", credential, b"tiger-7f2b")
    for done in admin.alter_user_scram_credentials([upsertion]).values():
        done.result(DEADLINE_S)


def every_znode(source: ZooKeeperSource, path: str = "/") -> Iterator[Znode]:
    found = source.read(path)
    yield found
    for child in found.children:
        yield from every_znode(source, child_path(path, child.name))


def check_tree(source: ZooKeeperSource, raw: KazooClient) -> None:
    """Each znode that the cluster made has a meaning, and what brokers keep secret is in none of them."""
    credential = json.loads(raw.get("/config/users/carl")[0])["config"]["SCRAM-SHA-256"]
    secrets = [part.partition("=")[2] for part in credential.split(",") if not part.startswith("iterations")]
    assert len(secrets) == 3
    paths = set()
    for znode in every_znode(source):
        paths.add(znode.path)
        said = meaning(znode.path, znode.data)
        assert said is not None, znode.path
        assert "not what Kafka writes" not in " ".join(said.sentences), znode
        assert not any(secret.encode() in znode.data for secret in secrets), znode.path
        if not znode.data_note:
            assert znode.data == (raw.get(znode.path)[0] or b""), znode.path
    assert {"/controller", "/brokers/topics/orders/partitions/2/state", "/config/users/carl", "/cluster/id"} <= paths
    assert "SCRAM-SHA-256" in source.read("/config/users/carl").data_note


@contextmanager
def raw_client(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect)
    client.start(DEADLINE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.mark.timeout(600)
def test_under_apache_kafka_in_a_chroot(tmp_path: Path) -> None:
    with running_kafkas_zookeeper(tmp_path) as zookeeper:
        connect = f"{zookeeper}/kafka/main"
        with running_kafka(tmp_path / "log", connect) as kafka, running_source(connect) as source:
            fill(kafka.address)
            listener = Listener(source)
            wait_until(lambda: source.take()[0].controller == 0, "the controller", DEADLINE_S)
            with raw_client(connect) as raw:
                check_tree(source, raw)
                epoch = int(raw.get("/controller_epoch")[0])
                wait_until(lambda: source.take()[0].controller_epoch == epoch, "its epoch", DEADLINE_S)
                assert list(source.take()[0].sessions.values()) == [("/controller", "/brokers/ids/0")]
                # Its own broker becomes the controller again, which no request to a broker tells.
                raw.delete("/controller")
                wait_until(lambda: listener.saw(f"epoch {epoch + 1}"), "the election", DEADLINE_S)
                # Others share this ZooKeeper: the chroot hides them, and data that are not Kafka's are not shown.
                raw.create("/security.json", b'{"x": "tiger-7f2b"}')
                assert source.read("/security.json").data == b""
            for path in ("/..", "/../../zookeeper", "/kafka"):
                with pytest.raises(ZooKeeperError):
                    source.read(path)
            # The whitelist of this ZooKeeper is Apache's own.
            wait_until(lambda: has_numbers(source), "the numbers", DEADLINE_S)
            (server,) = source.take()[0].servers
            # As many as there were when the numbers were asked for: the tree still grew then.
            assert server.numbers["znode_count"] > 10


@pytest.mark.timeout(600)
def test_under_our_brokers_while_zookeeper_and_brokers_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_cluster(tmp_path, 2) as cluster, running_source(cluster.connect) as source:
        fill(cluster.bootstrap)
        listener = Listener(source)
        wait_until(lambda: len(source.take()[0].sessions) == 2, "both brokers", DEADLINE_S)
        wait_until(lambda: has_numbers(source), "the numbers", DEADLINE_S)

        def ephemerals() -> float:
            return source.take()[0].servers[0].numbers.get("ephemerals_count", 0)

        # The controller and two brokers; the numbers were asked for a moment before the watches.
        wait_until(lambda: ephemerals() >= 3, "the numbers", DEADLINE_S)
        with raw_client(cluster.connect) as raw:
            check_tree(source, raw)
            raw.set("/config/topics/orders", b"x" * (source_module.LARGEST_DATA_BYTES // 2))
            assert b"x" not in source.read("/config/topics/orders").data
            for number in range(120):
                raw.create(f"/consumers/group-{number:03}")
        third = source.read("/consumers", page=3)
        assert (third.page, third.pages, third.matching_children) == (3, 3, 120)
        assert [each.name for each in third.children][-1] == "group-119"
        assert source.read("/consumers", "07").matching_children == 12
        monkeypatch.setattr(source_module, "_MOST_CHILDREN", 100)
        assert "120 children" in source.read("/consumers").children_note
        monkeypatch.setattr(source_module, "LARGEST_DATA_BYTES", 10)
        assert "too many" in source.read("/cluster/id").data_note
        check_turns(source, monkeypatch)

        victim = source.take()[0].controller
        assert victim is not None
        other = next(each for each in cluster.brokers if each != victim)
        cluster.kill(victim)
        wait_until(lambda: listener.saw(f"broker {other} is the controller"), "the other", DEADLINE_S)
        wait_until(lambda: listener.saw(f"registration of broker {victim} is gone"), "the end", DEADLINE_S)

        for each in cluster.ensemble.servers:
            each.kill()
        wait_until(lambda: source.take()[0].silent_since_ms is not None, "its silence", DEADLINE_S)
        said, state = source.take()
        assert said.error
        assert state.error.startswith(source.address)
        with pytest.raises(ZooKeeperError, match="does not answer"):
            source.read("/")
        wait_until(lambda: bool(source.take()[0].servers[0].error), "no numbers", DEADLINE_S)
        cluster.ensemble.start()
        wait_until(lambda: source.take()[0].silent_since_ms is None, "its return", DEADLINE_S)
        assert source.read("/").path == "/"


def check_turns(source: ZooKeeperSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fifth read at a time is refused, and turns are given back."""
    ended = threading.Event()
    monkeypatch.setattr(source, "_read", lambda *_: ended.wait(DEADLINE_S))
    readers = [threading.Thread(target=source.read, args=("/",)) for _ in range(4)]
    for each in readers:
        each.start()
    wait_until(lambda: source._turns._value == 0, "four reads")
    with pytest.raises(ZooKeeperError, match="under way already"):
        source.read("/")
    ended.set()
    for each in readers:
        each.join(DEADLINE_S)
    monkeypatch.undo()
    assert source.read("/").path == "/"
