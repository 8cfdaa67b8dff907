"""ACLs and SCRAM users of a cluster in which a broker of Kafka 3.9 stands among ours: all decide alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.compat.apache_kafka.answers.authorization import PROPERTIES, USERS
from tests.compat.apache_kafka.authorization_cases import ACLS, client_properties
from tests.compat.apache_kafka.authorization_differs import UserConnection
from tests.compat.apache_kafka.case import succeed
from tests.compat.apache_kafka.cluster_cases import cluster_case
from tests.drills.cluster.network import Loopback
from tests.drills.cluster.systems import Cluster
from tests.waiting import wait_until

KAFKA, OURS, OTHER = 1, 2, 3
SYSTEMS: Final = ("kafka", "highwater", "highwater")
TOPICS: Final = ("t", "o-orders", "o-secret", "other")
_LOGIN: Final[dict[str, str | int]] = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "admin",
    "sasl.password": USERS["admin"],
    "log_level": 0,
}
_SCRAM: Final = "SCRAM-SHA-512"
_TOLD_WITHIN_S: Final = 30.0

ALICE: Final = ("--allow-principal", "User:alice")
CHANGES: Final = (
    (KAFKA, ("--add", *ALICE, "--operation", "Read", "--topic", "t")),
    (OURS, ("--add", *ALICE, "--operation", "Write", "--topic", "o-", "--resource-pattern-type", "prefixed")),
    (OTHER, ("--add", "--deny-principal", "User:alice", "--operation", "All", "--topic", "o-secret")),
    (KAFKA, ("--add", "--allow-principal", "User:*", "--allow-host", "127.0.0.1", "--operation", "Describe",
             "--topic", "*")),
    (OURS, ("--add", *ALICE, "--operation", "Describe", "--operation", "Create", "--cluster")),
    (OTHER, ("--add", "--deny-principal", "User:*", "--deny-host", "127.0.0.1", "--operation", "Read",
             "--topic", "t")),
    (KAFKA, ("--add", *ALICE, "--operation", "Read", "--group", "g")),
    (OURS, ("--add", *ALICE, "--operation", "All", "--transactional-id", "x-", "--resource-pattern-type", "prefixed")),
    (KAFKA, ("--remove", "--force", "--topic", "o-", "--resource-pattern-type", "prefixed")),
    (OURS, ("--remove", "--force", "--topic", "*")),
)  # fmt: skip
"""By which broker, and what. Each changes an answer."""


@contextmanager
def _mixed(directory: Path) -> Iterator[Cluster]:
    jaas = PROPERTIES["listener.name.plaintext.plain.sasl.jaas.config"]
    scram = str(jaas).partition("PlainLoginModule")[2].partition(" user_")[0]
    properties = {name: str(value) for name, value in PROPERTIES.items()} | {
        "inter.broker.protocol.version": "3.9",
        "sasl.enabled.mechanisms": f"PLAIN,{_SCRAM}",
        f"listener.name.plaintext.{_SCRAM.lower()}.sasl.jaas.config": (
            f"org.apache.kafka.common.security.scram.ScramLoginModule{scram};"
        ),
    }
    with Cluster(SYSTEMS, directory, Loopback(), properties=properties, one_by_one=True, login=_LOGIN) as cluster:
        yield cluster


def _at(cluster: Cluster, broker_id: int, directory: Path) -> tuple[str, ...]:
    host, port = cluster.brokers[broker_id].address
    return ("--bootstrap-server", f"{host}:{port}", "--command-config", client_properties(directory, "admin"))


def decisions(port: int) -> Mapping[str, Any]:
    """What a broker lets alice do, by errors and by the bits of authorised operations."""
    connection = UserConnection(port, "alice")
    with ExitStack() as stack:
        stack.callback(connection.close)
        named = [{"topic_id": None, "name": name} for name in TOPICS]
        told = connection.ask(
            "metadata", 12, topics=named, allow_auto_topic_creation=False, include_topic_authorized_operations=True
        )
        found: dict[str, Any] = {
            topic.name: (topic.error_code.name, topic.topic_authorized_operations) for topic in told.topics
        }
        cluster = connection.ask("describe_cluster", 0, include_cluster_authorized_operations=True)
        found["cluster"] = cluster.cluster_authorized_operations
        for kind, keys in enumerate((("g", "g-2"), ("x-1", "y"))):
            answer = connection.ask("find_coordinator", 4, key_type=kind, coordinator_keys=keys)
            found[f"keys of type {kind}"] = [
                (each.key, "authorization" in each.error_code.name) for each in answer.coordinators
            ]
        return found


def _decisions_of_all(cluster: Cluster) -> list[Mapping[str, Any]]:
    return [decisions(broker.address[1]) for broker in cluster.brokers.values() if broker.is_running]


def _change(cluster: Cluster, directory: Path, broker_id: int, arguments: tuple[str, ...]) -> None:
    """All brokers tell something new, and the same."""
    before = decisions(cluster.brokers[broker_id].address[1])
    succeed(ACLS, *_at(cluster, broker_id, directory), *arguments)

    def is_known_to_all() -> bool:
        first, *others = _decisions_of_all(cluster)
        return first != before and all(other == first for other in others)

    try:
        wait_until(is_known_to_all, f"all brokers decide alike after {arguments}", _TOLD_WITHIN_S)
    except TimeoutError as error:
        error.add_note(f"before: {before}\nnow: {_decisions_of_all(cluster)}")
        raise


@cluster_case
def a_mixed_cluster_decides_alike(directory: Path) -> None:
    """ACLs by each kind of broker, under each kind of controller, and while Kafka's broker is away."""
    with _mixed(directory) as cluster:
        for topic in TOPICS:
            succeed("org.apache.kafka.tools.TopicCommand", *_at(cluster, OURS, directory),
                    "--create", "--topic", topic, "--replica-assignment", "1:2:3")  # fmt: skip
        assert cluster.controller_id() == KAFKA
        for broker_id, arguments in CHANGES:
            _change(cluster, directory, broker_id, arguments)
        kafka = cluster.brokers[KAFKA]
        kafka.stop()
        wait_until(lambda: cluster.controller_id() in (OURS, OTHER), "a broker of ours is the controller")
        _change(cluster, directory, OURS, ("--add", *ALICE, "--operation", "Read", "--topic", "other"))
        cluster.start(kafka)
        wait_until(partial(_all_alike, cluster), "Kafka's broker has read what was changed without it", _TOLD_WITHIN_S)
        _change(cluster, directory, KAFKA, ("--remove", "--force", *ALICE, "--operation", "Create", "--cluster"))


def _all_alike(cluster: Cluster) -> bool:
    first, *others = _decisions_of_all(cluster)
    return len(others) == len(SYSTEMS) - 1 and all(other == first for other in others)


@cluster_case
def users_of_a_mixed_cluster_log_in_everywhere(directory: Path) -> None:
    """SCRAM users made, changed and deleted by kafka-configs, by each kind of broker."""
    with _mixed(directory) as cluster:
        for broker_id, user in ((KAFKA, "by-kafka"), (OURS, "by-ours")):
            at = (*_at(cluster, broker_id, directory), "--alter", "--entity-type", "users", "--entity-name", user)
            for password in ("first", "second"):
                keys = f"{_SCRAM}=[iterations=4096,password={password}]"
                succeed("kafka.admin.ConfigCommand", *at, "--add-config", keys)
                wait_until(partial(_all_let_in, cluster, user, password), f"all let in {user} with {password}")
            assert _none_lets_in(cluster, user, "first")
            succeed("kafka.admin.ConfigCommand", *at, "--delete-config", _SCRAM)
            wait_until(partial(_none_lets_in, cluster, user, "second"), f"{user} is gone")


def _all_let_in(cluster: Cluster, user: str, password: str) -> bool:
    return all(_lets_in(broker.address, user, password) for broker in cluster.brokers.values())


def _none_lets_in(cluster: Cluster, user: str, password: str) -> bool:
    return not any(_lets_in(broker.address, user, password) for broker in cluster.brokers.values())


def _lets_in(address: tuple[str, int], user: str, password: str) -> bool:
    login = _LOGIN | {"sasl.mechanism": _SCRAM, "sasl.username": user, "sasl.password": password}
    admin = AdminClient({"bootstrap.servers": f"{address[0]}:{address[1]}", **login})
    try:
        admin.list_topics(timeout=5)
    except KafkaException:
        return False
    return True
