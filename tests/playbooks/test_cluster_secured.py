"""What the roles write with cluster_security: tls, started: ZooKeeper, two brokers, users, and who comes in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.common.java_properties import parse_properties
from highwater.common.ports import free_ports
from tests.broker.running import RunningBroker
from tests.broker.zookeeper_server import running_zookeeper
from tests.playbooks.modules import TREE, call
from tests.playbooks.shipped import shipped
from tests.playbooks.test_rendering import render
from tests.waiting import wait_until

USERS = shipped("library/highwater_users.py")
PARTITIONS = shipped("library/highwater_partitions.py")
MEMBERS = shipped("library/highwater_zookeeper.py")
FILTERS = shipped("filter_plugins/highwater_cluster.py")
HOST = "127.0.0.1"
SERVICES = ("broker", "verify", "monitor", "bench", "mirror", "spark")
# With what has to be quoted in every file.
PASSWORDS = {service: f'{service} "hush" \\ é$' for service in SERVICES}
USER: dict[str, Any] = {"name": "alice", "password": 'hush "x"', "acls": [{"topic": "orders", "operations": ["read"]}]}

pytestmark = [pytest.mark.slow, pytest.mark.clients]


@dataclass
class Running:
    port: int
    inside_port: int
    zookeeper_port: int
    authority: str
    folder: Path

    def client(self, user: str, password: str, **changed: Any) -> AdminClient:
        login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password}
        tls: dict[str, Any] = {"security.protocol": "SASL_SSL", "ssl.ca.location": self.authority, "log_level": 0}
        return AdminClient({"bootstrap.servers": f"{HOST}:{self.port}", **tls, **login, **changed})

    def users(self) -> dict[str, Any]:
        wanted = {
            "inside_servers": f"{HOST}:{self.inside_port}",
            "bootstrap_servers": f"{HOST}:{self.port}",
            "authority": self.authority,
            "username": "highwater-broker",
            "password": PASSWORDS["broker"],
            "users": FILTERS.users_of("main", [USER], []),
            "passwords": FILTERS.passwords_of_users(PASSWORDS, [USER]),
            "timeout_seconds": 60,
        }
        found: dict[str, Any] = USERS.ensure(wanted, is_check_mode=False)
        return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("secured")
    keys = call(
        "highwater_keys", directory=str(folder / "keys"), name="host", names=[HOST, "localhost"], is_client=True
    )
    zookeeper_port, *ports = free_ports(5)
    instances: list[dict[str, Any]] = [
        {"name": str(number), "broker_id": number, "port": port, "inside_port": inside, "metrics_port": 0,
         "log_dirs": [str(folder / f"log-{number}")]}
        for number, (port, inside) in enumerate(((ports[0], ports[1]), (ports[2], ports[3])), 1)
    ]  # fmt: skip
    access = {name: keys[name] for name in ("authority", "certificate", "key")}
    host = {
        "cluster_security": "tls",
        "cluster_access": {**access, "passwords": PASSWORDS},
        "ansible_host": HOST,
        "broker_id": 1,
        "broker_instances": instances,
        "broker_properties": {"offsets.topic.num.partitions": 1, "connection.failed.authentication.delay.ms": 1},
        "zookeeper_client_port": zookeeper_port,
        "bench_run": "smoke",
    }
    groups = ("zookeeper", "brokers", "spark_master", "bench", "monitor")
    inventory = {"all": {"hosts": {"a": host}, "children": {group: {"hosts": {"a": None}} for group in groups}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), "utf-8")
    rendered = render(folder, folder / "hosts.yml", "a")
    for place, name, text in (
        ("security", "broker.pem", keys["key"] + keys["certificate"]),
        ("security", "authority.pem", keys["authority"]),
        ("zookeeper", "member.pem", keys["key"] + keys["certificate"]),
        ("zookeeper", "authority.pem", keys["authority"]),
        ("zookeeper", "jaas.conf", (rendered / "jaas.conf").read_text("utf-8")),
    ):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / name).write_text(text, "utf-8")

    def moved(name: str) -> str:
        return (rendered / name).read_text("utf-8").replace("/etc/highwater", str(folder))

    settings = {each.name: each.value for each in parse_properties(moved("zoo.cfg"))}
    chosen = re.compile(r"secureClientPort|ssl[.].*|serverCnxnFactory|authProvider.*|enforce.*|4lw.*")
    authority = str(folder / "security/authority.pem")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            logins = folder / "zookeeper/jaas.conf"
            patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={logins}")
            own = {name: value for name, value in settings.items() if chosen.fullmatch(name)}
            stack.enter_context(running_zookeeper(folder, settings=own))
        for instance in instances:
            name = instance["name"]
            file = folder / f"{name}.properties"
            file.write_text(moved(f"highwater-{name}-broker.properties"), "utf-8")
            broker = RunningBroker(folder / f"log-{name}", "--config", str(file))
            stack.callback(broker.kill)
        yield Running(ports[0], ports[1], zookeeper_port, authority, folder)


def test_brokers_find_each_other_users_are_made_once_and_nobody_else_comes_in(running: Running) -> None:
    login = PARTITIONS.Login(running.authority, "highwater-broker", PASSWORDS["broker"])
    inside = f"{HOST}:{running.inside_port}"
    wait_until(lambda: PARTITIONS.look([inside], [1, 2], login)["in_sync"], "all replicas in sync")
    made = running.users()
    assert made["made"] == ["highwater-verify", "highwater-monitor", "highwater-bench", "alice"]
    assert made["added_acls"] > 10
    assert running.users() == {"made": [], "given_passwords": [], "added_acls": 0}

    strangers = {
        "without TLS": AdminClient({"bootstrap.servers": f"{HOST}:{running.port}", "log_level": 0}),
        "with a wrong password": running.client("alice", "another"),
        "at the port of brokers": running.client("alice", USER["password"], **{"bootstrap.servers": inside}),
        "as the broker": running.client("highwater-broker", PASSWORDS["broker"]),
    }
    for how, client in strangers.items():
        with pytest.raises(KafkaException):
            client.list_topics(timeout=5)
        assert client is not None, how

    bench = running.client("highwater-bench", PASSWORDS["bench"])
    bench.create_topics([NewTopic("highwater-x", 2, 2)])["highwater-x"].result(60)
    with pytest.raises(KafkaException) as refused:
        bench.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    monitor = running.client("highwater-monitor", PASSWORDS["monitor"])
    wait_until(lambda: "highwater-x" in monitor.list_topics(timeout=30).topics, "the monitor sees the topic")
    assert "highwater-x" not in running.client("alice", USER["password"]).list_topics(timeout=30).topics
    wait_until(lambda: PARTITIONS.look([inside], [1, 2], login)["in_sync"], "all replicas in sync")


def test_zookeeper_is_asked_with_tls_and_lets_in_who_logs_in(running: Running) -> None:
    member = MEMBERS.ask("a", HOST, running.zookeeper_port, running.authority)
    assert (member.problem, member.mode) == ("", "standalone")
    assert MEMBERS.ask("a", HOST, running.zookeeper_port).problem != ""
    program = TREE / "roles/zookeeper/files/write_and_read.py"

    def verified(password: str) -> str:
        authority = Path(running.authority).read_text("utf-8")
        given = json.dumps({"authority": authority, "username": "verify", "password": password})
        command = [sys.executable, str(program), f"{HOST}:{running.zookeeper_port}"]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)
        return str(done.stderr)

    assert verified(PASSWORDS["verify"]) == ""
    refusal = verified("another")
    assert "it refuses the login of the user 'verify'" in refusal
    assert "another password" in refusal
