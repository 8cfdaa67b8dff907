"""ZooKeeper with TLS, login and ACLs: our brokers and Kafka 3.9's on one cluster, their ACLs compared."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from highwater.common.ports import free_ports
from highwater.kafka.client.secure_kazoo import SecureHandler, secure
from highwater.kafka.client.zookeeper_security import security_of
from tests.broker.secure_zookeeper import SecureZooKeeper, secure_zookeeper
from tests.compat.apache_kafka.case import succeed
from tests.compat.apache_kafka.cluster_cases import cluster_case
from tests.compat.apache_kafka.tools import jars_3_9, kafka_tool
from tests.drills.cluster.systems import BrokerServer, highwater
from tests.waiting import wait_until

Acls = dict[str, list[tuple[int, str, str]]]
_SETTINGS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.set.acl": "true",
}
_KAFKAS_OWN: Final = ("/migration", "/delegation_token", "/kafka-acl-extended/prefixed/Any")
"""What only Kafka makes: for KRaft, for tokens that we do not have."""


@cluster_case
def znodes_have_kafkas_acls(directory: Path) -> None:
    """By a program: ours and Kafka's nodes by path, and ours before and after Kafka's own tool set them all."""
    with secure_zookeeper(directory) as secured:
        with _broker(secured, "/ours", 1, kafkas=False) as ours:
            _use(ours)
            made = _acls(secured, "/ours")
            _migrate(secured, "/ours")
            _equal(made, _acls(secured, "/ours"), "ours, and what zookeeper-security-migration sets")
            assert {"/config/users/carl", "/kafka-acl/Topic/orders", "/controller", "/consumers"} <= made.keys()
        with _broker(secured, "/kafkas", 1, kafkas=True) as kafkas:
            _use(kafkas)
            theirs = _acls(secured, "/kafkas")
        ours_too = {path: acl for path, acl in theirs.items() if not path.startswith(_KAFKAS_OWN)}
        _equal({path: acl for path, acl in made.items() if path in theirs}, ours_too, "ours, and Kafka's")


@cluster_case
def brokers_of_both_share_closed_znodes(directory: Path) -> None:
    """Each reads, changes and deletes what the other made, in turns as the controller."""
    with (
        secure_zookeeper(directory) as secured,
        _broker(secured, "/mixed", 1, kafkas=False) as ours,
        _broker(secured, "/mixed", 2, kafkas=True) as kafkas,
    ):
        _wait_for_brokers(secured, "/mixed", 2)
        for at, name in ((ours, "one"), (kafkas, "two")):
            _topics(at, "--create", "--topic", name, "--partitions", "2", "--replication-factor", "2")
            # The controller answers, and tells the others afterwards.
            wait_until(partial(_lists, at, name), f"topic {name} is known where it was asked for")
            _configs(at, "users", name, "SCRAM-SHA-256=[iterations=4096,password=secret]")
            _configs(at, "topics", name, "retention.ms=3600000")
        for at in (ours, kafkas):
            for name in ("one", "two"):
                wait_until(partial(_knows, at, name), f"{name} is known with its settings")
        _topics(kafkas, "--delete", "--topic", "one")
        ours.stop()
        # Kafka's is the controller now: it elects and deletes in nodes that ours made.
        wait_until(lambda: _topics(kafkas, "--list").split() == ["two"], "the topic is deleted")
        ours.start()
        _wait_for_brokers(secured, "/mixed", 2)
        _topics(kafkas, "--alter", "--topic", "two", "--partitions", "3")
        lines = "".join(f"{number}\n" for number in range(30))
        succeed("kafka.tools.ConsoleProducer", "--bootstrap-server", _address(kafkas), "--topic", "two",
                "--producer-property", "acks=all", stdin=lines)  # fmt: skip


@contextmanager
def _broker(secured: SecureZooKeeper, chroot: str, broker_id: int, *, kafkas: bool) -> Iterator[BrokerServer]:
    (port,) = free_ports(1)
    place = secured.directory / f"{chroot[1:]}-{broker_id}"
    (place / "data").mkdir(parents=True)
    settings = _SETTINGS | secured.tls()
    if not kafkas:
        settings |= secured.login()
    settings |= {
        "broker.id": str(broker_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(place / "data"),
        "zookeeper.connect": secured.connect + chroot,
        "offsets.topic.replication.factor": "1",
    }
    file = place / "server.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    command = _java(secured, "kafka.Kafka", str(file)) if kafkas else highwater(file)
    server = BrokerServer(broker_id, command, ("127.0.0.1", port), place)
    server.start()
    try:
        wait_until(lambda: not server.is_running or server.accepts(), f"broker {broker_id} takes connections", 120)
        assert server.is_running, server.end_of_log()
        yield server
    finally:
        server.kill()


def _java(secured: SecureZooKeeper, *words: str) -> list[str]:
    login = f"-Djava.security.auth.login.config={secured.directory / 'client.jaas'}"
    return ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", login, "-cp", f"{jars_3_9()}/*", *words]


def _use(broker: BrokerServer) -> None:
    """Have nodes of every kind made."""
    _topics(broker, "--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "1")
    _configs(broker, "topics", "orders", "retention.ms=3600000")
    _configs(broker, "users", "carl", "SCRAM-SHA-256=[iterations=4096,password=secret]")
    _configs(broker, "users", "carl", "producer_byte_rate=1000000")
    _configs(broker, "clients", "app", "producer_byte_rate=1000000")
    _configs(broker, "brokers", "1", "log.roll.ms=3600000")
    for pattern in ("literal", "prefixed"):
        succeed("kafka.admin.AclCommand", "--bootstrap-server", _address(broker), "--add", "--allow-principal",
                "User:ann", "--operation", "Read", "--topic", "orders", "--resource-pattern-type", pattern)  # fmt: skip
    succeed("kafka.tools.ConsoleProducer", "--bootstrap-server", _address(broker), "--topic", "orders", stdin="one\n")


def _knows(broker: BrokerServer, topic: str) -> bool:
    tool = "org.apache.kafka.tools.TopicCommand"
    described = kafka_tool(tool, "--bootstrap-server", _address(broker), "--describe", "--topic", topic)
    return described.returncode == 0 and "retention.ms=3600000" in described.stdout


def _lists(broker: BrokerServer, topic: str) -> bool:
    return topic in _topics(broker, "--list").split()


def _address(broker: BrokerServer) -> str:
    return f"{broker.address[0]}:{broker.address[1]}"


def _topics(broker: BrokerServer, *arguments: str) -> str:
    return succeed("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", _address(broker), *arguments)


def _configs(broker: BrokerServer, kind: str, name: str, config: str) -> None:
    succeed("kafka.admin.ConfigCommand", "--bootstrap-server", _address(broker), "--alter", "--entity-type", kind,
            "--entity-name", name, "--add-config", config)  # fmt: skip


@contextmanager
def _client(secured: SecureZooKeeper, chroot: str) -> Iterator[KazooClient]:
    security = security_of((secured.tls() | secured.login()).get)
    client = KazooClient(secured.connect + chroot, handler=SecureHandler(security.tls))
    secure(client, security, lambda _: None, gives_up=True)
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def _wait_for_brokers(secured: SecureZooKeeper, chroot: str, count: int) -> None:
    with _client(secured, chroot) as client:
        wait_until(lambda: len(client.get_children("/brokers/ids")) == count, "all brokers are registered", 120)


def _acls(secured: SecureZooKeeper, chroot: str) -> Acls:
    found: Acls = {}

    def visit(path: str) -> None:
        listed, _ = client.get_acls(path or "/")
        found[path or "/"] = sorted((acl.perms, acl.id.scheme, acl.id.id) for acl in listed)
        for name in client.get_children(path or "/"):
            visit(f"{path}/{name}")

    with _client(secured, chroot) as client:
        visit("")
    return found


def _equal(ours: Mapping[str, object], theirs: Mapping[str, object], what: str) -> None:
    different = [
        f"{path}: {ours.get(path)} and {acl}" for path, acl in theirs.items() if path in ours and ours[path] != acl
    ]
    assert not different, f"{what}: " + "; ".join(different)
    missing = [path for path in theirs.keys() - ours.keys() if not path.startswith(_KAFKAS_OWN) and "_0000" not in path]
    assert not missing, f"{what}: only Kafka has {missing}"
    assert len(ours) > 50, f"only {len(ours)} nodes were compared"


def _migrate(secured: SecureZooKeeper, chroot: str) -> None:
    file = secured.directory / "tls.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in secured.tls().items()))
    words = ["--zookeeper.acl", "secure", "--zookeeper.connect", secured.connect + chroot]
    command = _java(secured, "kafka.admin.ZkSecurityMigrator", *words, "--zk-tls-config-file", str(file))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ), check=False)
    assert done.returncode == 0, json.dumps(done.stdout[-2000:] + done.stderr[-2000:])
