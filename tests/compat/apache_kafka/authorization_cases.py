"""ACLs by Apache Kafka's tools on brokers of ours, and what they deny beside what Apache Kafka 3.9 denies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Producer

from tests.broker.running_cluster import RunningCluster, running_cluster
from tests.compat.apache_kafka.answers.authorization import PROPERTIES, USERS
from tests.compat.apache_kafka.authorization_differs import differences
from tests.compat.apache_kafka.case import succeed
from tests.compat.apache_kafka.cluster_cases import cluster_case
from tests.compat.apache_kafka.tools import kafka_tool

_TOLD_WITHIN_S: Final = 10.0
_ACLS: Final = "kafka.admin.AclCommand"


def _client(directory: Path, user: str) -> str:
    file = directory / f"{user}.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{USERS[user]}";\n'
    )
    return str(file)


def _listed(*options: str) -> list[str]:
    """Each entry with the resource above it, as kafka-acls prints them."""
    found, resource = [], ""
    for line in succeed(_ACLS, *options, "--list").splitlines():
        if "ResourcePattern(" in line:
            resource = line.partition("ResourcePattern(")[2].partition(")")[0]
        elif "principal=" in line:
            found.append(f"{resource}: {line.strip()}")
    return sorted(found)


@cluster_case
def acls_are_set_by_kafkas_tools(directory: Path) -> None:
    """By a broker, and past all brokers in ZooKeeper, as the tool's deprecated form does it."""
    properties = tuple(f"{name}={value}" for name, value in PROPERTIES.items())
    with running_cluster(directory, 2, properties=properties) as cluster:
        admin = ("--bootstrap-server", cluster.bootstrap, "--command-config", _client(directory, "admin"))
        alice = ("--allow-principal", "User:alice")
        succeed(_ACLS, *admin, "--add", *alice, "--producer", "--topic", "o-", "--resource-pattern-type", "prefixed")
        succeed(_ACLS, *admin, "--add", *alice, "--operation", "Read", "--group", "g")
        in_zookeeper = ("--authorizer-properties", f"zookeeper.connect={cluster.connect}")
        succeed(_ACLS, *in_zookeeper, "--add", "--deny-principal", "User:bob", "--operation", "All", "--topic", "*")
        wanted = _listed(*in_zookeeper)
        assert len(wanted) == 5, wanted
        _all_know(cluster, directory, wanted)
        denied = kafka_tool(_ACLS, *admin[:3], _client(directory, "alice"), "--list")
        assert denied.returncode, denied.stdout
        assert "ClusterAuthorizationException" in denied.stdout + denied.stderr
        assert _produced(cluster, "o-1", "other") == {"o-1": "", "other": "TOPIC_AUTHORIZATION_FAILED"}
        succeed(_ACLS, *admin, "--remove", "--force", "--topic", "o-", "--resource-pattern-type", "prefixed")
        assert len(_listed(*in_zookeeper)) == 2
        _all_know(cluster, directory, _listed(*in_zookeeper))


def _all_know(cluster: RunningCluster, directory: Path, wanted: list[str]) -> None:
    for port in cluster.ports.values():
        one = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", _client(directory, "admin"))
        deadline = time.monotonic() + _TOLD_WITHIN_S
        while _listed(*one) != wanted:
            assert time.monotonic() < deadline, (_listed(*one), wanted)


def _produced(cluster: RunningCluster, *topics: str) -> dict[str, str]:
    """The name of the error with which a record of alice's is refused, by topic; empty for one that is kept."""
    outcomes: dict[str, str] = {}
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": USERS["alice"],
            "enable.idempotence": True,
            "log_level": 0,
        }
    )
    for topic in topics:
        producer.produce(
            topic, b"value", on_delivery=lambda error, message: outcomes.update({str(message.topic()): _name_of(error)})
        )
    assert producer.flush(30) == 0
    return outcomes


def _name_of(error: KafkaError | None) -> str:
    return "" if error is None else str(error.name())


@cluster_case
def what_is_denied_is_what_kafka_denies(directory: Path) -> None:
    different = differences(directory)
    assert not different, "\n".join(different)[:2000]
