"""A cluster with records gets TLS, logins and ACLs: three ZooKeepers, three brokers, and the bench over all.

Run by `python -m tests.lab test`, as root, on a lab of its own; `make test` does not collect it.
"""

from __future__ import annotations

import json
import shlex
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from highwater.results.reader import RunResult
from tests.lab import inventory
from tests.lab.ledger import Ledger
from tests.lab.operating import Operator, Played, operated
from tests.lab.record import Node
from tests.lab.story import access
from tests.lab.telling import tell
from tests.waiting import wait_until

NAME: Final = "secure"
COMMITTED: Final = (inventory.COMMITTED / "group_vars/all.yml").read_text("utf-8")
BROKERS: Final = """---
broker_instances:
  - {name: main, log_dirs: [/data/ssd1/highwater]}
broker_properties: {group.initial.rebalance.delay.ms: 0}
"""
PORT: Final = 9092
ELECTION_PORT: Final = 3888
SENDING_S: Final = 2.0
WITHIN_S: Final = 60.0
STOP_BROKERS: Final = "systemctl stop 'highwater-broker@*'"
STOP_ZOOKEEPER: Final = "systemctl stop zookeeper"
ACLS: Final = (
    "/opt/highwater/broker/current/bin/highwater broker acls --list "
    "--command-config /etc/highwater/security/admin.properties -b {}:10092"
)
AUTHORITY: Final = "/etc/highwater/zookeeper/authority.pem"
MEMBER: Final = "/etc/highwater/zookeeper/member.pem"
# With TLS 1.2 the handshake ends only after the member has accepted the caller.
SHAKE_HANDS: Final = """
import socket, ssl
tls = ssl.create_default_context(cafile={authority!r})
tls.maximum_version = ssl.TLSVersion.TLSv1_2
tls.load_cert_chain({own!r})
raw = socket.create_connection(({address!r}, {port}), 60)
with tls.wrap_socket(raw, server_hostname={address!r}) as it:
    print(ssl.DER_cert_to_PEM_cert(it.getpeercert(binary_form=True)), end="")
"""
# As short as the instrument takes it: whether it works is asked here.
BENCH: Final = {
    "topics": {"partitions": 3},
    "load": {"rate": "1k/s"},
    "phases": {"warmup": "2s", "measure": "5s", "drain": "5s"},
    "trials": {"n": 1, "seed": 1},
    "matrix": {"producers.client.acks": ["all"]},
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    yield from operated(NAME, 3, tmp_path_factory.mktemp("logs"))


def inventory_of(lab: Operator, directory: Path, *, is_secure: bool) -> Path:
    groups = inventory.groups_of([node.name for node in lab.record.nodes])
    wanted = {name: groups[name] for name in ("zookeeper", "brokers", "spark_master", "spark_workers", "bench")}
    variables = {"all": COMMITTED + (access.VARIABLES if is_secure else ""), "brokers": BROKERS}
    return inventory.write_narrowed(lab.store, directory, wanted, variables=variables)


def test_a_cluster_with_records_gets_tls_and_the_bench_measures_it(lab: Operator, tmp_path: Path) -> None:
    nodes, keys = list(lab.record.nodes), lab.store.directory / "keys"
    plain = inventory_of(lab, tmp_path / "plain", is_secure=False)
    secure = inventory_of(lab, tmp_path / "secure", is_secure=True)

    def play(playbook: str, *arguments: str, of: Path = secure, status: int | None = 0) -> Played:
        return lab.play(playbook, "-i", str(of), *arguments, status=status)

    for playbook in ("provision.yml", "zookeeper.yml", "broker.yml"):
        play(playbook, of=plain)
    bootstrap = ",".join(f"{node.address}:{PORT}" for node in nodes)
    ledger = Ledger(bootstrap, "orders")
    ledger.create_topic(6, 3)
    with ledger.producing():
        time.sleep(SENDING_S)
    assert ledger.faults() == []

    # While a part of it runs it stays as it is.
    for playbook in ("zookeeper.yml", "broker.yml"):
        refused(play(playbook, status=None), "node1 (zookeeper.service)", "node3 (highwater-broker@main.service)")
    for node in nodes[:2]:
        lab.run(node, STOP_BROKERS)
    refused(play("zookeeper.yml", status=None), "node3 (highwater-broker@main.service): runs without TLS and logins")
    lab.run(nodes[2], STOP_BROKERS)
    for node in nodes:
        lab.run(node, STOP_ZOOKEEPER)

    # A run that ends half-way: ZooKeeper has TLS, and a property keeps brokers from being started. It says which.
    play("zookeeper.yml")
    wrong = {"broker_properties": {"num.partitons": 3}}
    failed = play("broker.yml", "-e", json.dumps(wrong), status=None)
    assert "did you mean num.partitions?" in " ".join(failed.out.split())
    assert access.PASSWORD not in failed.out
    play("broker.yml")
    again = play("zookeeper.yml")
    assert again.changed == 0, again.changes
    again = play("broker.yml")
    assert again.changed == 0, again.changes

    # All that was written before is there, and the cluster goes on.
    ledger.client = {"bootstrap.servers": bootstrap, **access.of_librdkafka(keys)}
    with ledger.producing():
        time.sleep(SENDING_S)
    assert ledger.faults() == []

    for node in nodes:
        members_have_tls(lab, node, keys)
    leader = next(node for node in nodes if mode(node, keys) == "leader")
    with ledger.producing():
        lab.run(leader, "systemctl kill --signal=KILL zookeeper")
        wait_until(lambda: sorted(mode(node, keys) for node in nodes) == ["follower", "follower", "leader"], "ensemble")
        time.sleep(SENDING_S)
    assert ledger.faults() == []

    the_bench_is_held_to_its_topics(lab, nodes[0], bootstrap, keys)
    variables = {
        "bench_workload": "smoke",
        "bench_run": "secured",
        "bench_overrides": BENCH,
        "bench_reports_directory": str(tmp_path / "reports"),
        "bench_accepted_exit_codes": [0, 4],
    }
    printed = play("bench.yml", "-e", json.dumps(variables)).out
    trials = RunResult(tmp_path / "reports/secured").trials
    assert trials
    for trial in trials:
        assert trial.summary.achieved_per_s > 0
        assert (trial.summary.delivery.lost, trial.summary.delivery.corrupt) == (0, 0)
        tell(f"bench over SASL_SSL: {trial.summary.achieved_per_s:.0f} records/s, {trial.summary.delivery}")
    results = [path for path in (tmp_path / "reports/secured").rglob("*") if path.is_file()]
    secrets = {path.read_text("utf-8").strip() for path in keys.glob("*.secret")} | {access.PASSWORD}
    for secret in secrets:
        escaped = json.dumps(secret, ensure_ascii=False)[1:-1]
        assert not any(text in printed for text in (secret, escaped))
        assert [path.name for path in results if secret.encode() in path.read_bytes()] == []
        assert [path.name for path in results if escaped.encode() in path.read_bytes()] == []
    settings = lab.run(nodes[0], "cat /etc/highwater/spark/spark-defaults.conf")
    assert "spark.network.crypto.enabled true" in settings
    assert lab.run(nodes[0], "stat -c %a /etc/highwater/spark/spark-defaults.conf") == "640"


def refused(played: Played, *words: str) -> None:
    text = " ".join(played.out.split())
    assert [word for word in words if word not in text] == [], text[-3000:]
    assert played.changed == 0


def mode(node: Node, keys: Path) -> str:
    """What a member of the ensemble says it is."""
    tls = ssl.create_default_context(cafile=access.authority(keys))
    try:
        with (
            socket.create_connection((node.address, 2181), WITHIN_S) as raw,
            tls.wrap_socket(raw, server_hostname=node.address) as connection,
        ):
            connection.sendall(b"srvr")
            answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    except OSError:
        return ""
    return next((line.removeprefix("Mode: ") for line in answer.splitlines() if line.startswith("Mode: ")), "")


def members_have_tls(lab: Operator, node: Node, keys: Path) -> None:
    """At the port of elections: a member shows its own certificate to who has that of the host that it calls from."""
    calling = SHAKE_HANDS.format(authority=AUTHORITY, own=MEMBER, address=node.address, port=ELECTION_PORT)
    shown = lab.run(node, f"python3 -c {shlex.quote(calling)}")
    own = (keys / f"host-{node.name}.pem").read_text("utf-8")
    assert ssl.PEM_cert_to_DER_cert(shown) == ssl.PEM_cert_to_DER_cert(own)
    for certificate in (None, keys / f"host-{node.name}.pem"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            come_in_from_elsewhere(node, keys, certificate)


def come_in_from_elsewhere(node: Node, keys: Path, certificate: Path | None) -> None:
    stranger = ssl.create_default_context(cafile=access.authority(keys))
    if certificate is not None:
        stranger.load_cert_chain(certificate, certificate.with_suffix(".key"))
    with (
        socket.create_connection((node.address, ELECTION_PORT), WITHIN_S) as raw,
        stranger.wrap_socket(raw, server_hostname=node.address) as connection,
    ):
        # With TLS 1.3 a client learns with its first read that it was refused.
        connection.sendall(b"\0" * 8)
        if connection.recv(1) == b"":
            raise ConnectionError("closed")


def the_bench_is_held_to_its_topics(lab: Operator, node: Node, bootstrap: str, keys: Path) -> None:
    listed = lab.run(node, ACLS.format(node.address))
    rows = [line for line in listed.splitlines() if "User:highwater-bench" in line]
    assert rows, listed
    refusals: list[str] = []
    login = {**access.of_librdkafka(keys, "highwater-bench"), "bootstrap.servers": bootstrap}
    producer = Producer({**login, "delivery.timeout.ms": 20_000, "log_level": 0})
    producer.produce("orders", b"x", on_delivery=lambda error, _: refusals.append(error.name() if error else "written"))
    producer.flush(WITHIN_S)
    assert refusals == ["TOPIC_AUTHORIZATION_FAILED"]
