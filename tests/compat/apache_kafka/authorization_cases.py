"""ACLs by Apache Kafka's tools on brokers of ours, and what they deny beside what Apache Kafka 3.9 denies."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Producer

from tests.admin.calling import Result, call
from tests.broker.running import running_broker
from tests.broker.running_cluster import RunningCluster, running_cluster
from tests.compat.apache_kafka import authorizer_integration, end_to_end_authorization, recorded_outcomes
from tests.compat.apache_kafka.answers.authorization import PROPERTIES, USERS
from tests.compat.apache_kafka.authorization_differs import differences
from tests.compat.apache_kafka.case import succeed
from tests.compat.apache_kafka.cluster_cases import cluster_case
from tests.compat.apache_kafka.tools import kafka_tool
from tests.waiting import wait_until

_TOLD_WITHIN_S: Final = 10.0
ACLS: Final = "kafka.admin.AclCommand"


def client_properties(directory: Path, user: str) -> str:
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
    for line in succeed(ACLS, *options, "--list").splitlines():
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
        admin = ("--bootstrap-server", cluster.bootstrap, "--command-config", client_properties(directory, "admin"))
        alice = ("--allow-principal", "User:alice")
        succeed(ACLS, *admin, "--add", *alice, "--producer", "--topic", "o-", "--resource-pattern-type", "prefixed")
        succeed(ACLS, *admin, "--add", *alice, "--operation", "Read", "--group", "g")
        in_zookeeper = ("--authorizer-properties", f"zookeeper.connect={cluster.connect}")
        succeed(ACLS, *in_zookeeper, "--add", "--deny-principal", "User:bob", "--operation", "All", "--topic", "*")
        wanted = _listed(*in_zookeeper)
        assert len(wanted) == 5, wanted
        _all_know(cluster, directory, wanted)
        denied = kafka_tool(ACLS, *admin[:3], client_properties(directory, "alice"), "--list")
        assert denied.returncode, denied.stdout
        assert "ClusterAuthorizationException" in denied.stdout + denied.stderr
        assert _produced(cluster, "o-1", "other") == {"o-1": "", "other": "TOPIC_AUTHORIZATION_FAILED"}
        succeed(ACLS, *admin, "--remove", "--force", "--topic", "o-", "--resource-pattern-type", "prefixed")
        assert len(_listed(*in_zookeeper)) == 2
        _all_know(cluster, directory, _listed(*in_zookeeper))


def _all_know(cluster: RunningCluster, directory: Path, wanted: list[str]) -> None:
    for port in cluster.ports.values():
        one = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", client_properties(directory, "admin"))
        found = partial(_listed, *one)
        wait_until(lambda: found() == wanted, lambda: (found(), wanted), _TOLD_WITHIN_S)  # noqa: B023 - called here


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
    assert producer.flush(60) == 0
    return outcomes


def _name_of(error: KafkaError | None) -> str:
    return "" if error is None else str(error.name())


_ADDITIONS: Final = (
    "--allow-principal User:alice --topic t",
    "--allow-principal User:alice --deny-principal User:bob --deny-host 10.0.0.1 --operation read --topic t --topic u",
    "--allow-principal User:* --allow-host 10.0.0.1 --allow-host 10.0.0.2 --operation DescribeConfigs --topic *",
    "--allow-principal User:alice --producer --topic t",
    "--allow-principal User:alice --producer --idempotent --topic t --transactional-id x",
    "--allow-principal User:alice --consumer --topic t --group g",
    "--allow-principal User:alice --consumer --producer --topic t --group g --resource-pattern-type prefixed",
    "--allow-principal User:CN=b1,O=x --operation ClusterAction --operation Alter --cluster",
    "--allow-principal User:alice --operation Describe --delegation-token d",
    "--allow-principal User:alice --operation CreateTokens --user-principal User:bob",
)
_REMOVALS: Final = (
    "--topic t",
    "--topic t --resource-pattern-type any",
    "--topic t --resource-pattern-type match",
    "--allow-principal User:alice --topic t --operation Read",
    "--allow-principal User:alice --producer --topic t",
    "--deny-principal User:bob --deny-host 10.0.0.1 --topic t --operation Read",
    "--cluster --group g",
)
_LISTS: Final = (
    "",
    "--topic t",
    "--topic t --resource-pattern-type match",
    "--topic t --topic u --group g --resource-pattern-type any",
    "--principal User:alice",
    "--principal User:alice --principal User:bob --topic t",
    "--cluster",
)
_WRONG: Final = (
    "--add --topic t",
    "--add --allow-principal alice --topic t",
    "--add --allow-principal User:alice",
    "--add --allow-principal User:alice --topic t --operation Fly",
    "--add --allow-principal User:alice --group g --operation Write",
    "--add --allow-principal User:alice --topic t --resource-pattern-type match",
    "--add --allow-principal User:alice --producer --group g",
    "--add --allow-principal User:alice --consumer --topic t",
    "--add --allow-principal User:alice --idempotent --topic t",
    "--list --allow-principal User:alice",
    "--remove --principal User:alice --topic t",
    "--remove --force",
    "--list --add",
)


@cluster_case
def acls_of_both_commands_are_the_same(directory: Path) -> None:
    """What each adds, lists, removes and refuses, of one broker."""
    properties = ["authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS"]
    with running_broker(directory / "log", properties=properties) as broker:
        at = ("--bootstrap-server", broker.address)

        def ours(*arguments: str) -> Result:
            return call("acls", *at, *arguments)

        def there() -> list[str]:
            return _rows(ours("--list", "--json"))

        def clear() -> None:
            names = {"--topic": "* t u", "--group": "* g", "--transactional-id": "* x"}
            names |= {"--delegation-token": "d", "--user-principal": "User:bob"}
            every = [word for option, texts in names.items() for text in texts.split() for word in (option, text)]
            done = ours("--remove", "--force", "--resource-pattern-type", "any", "--cluster", *every)
            assert done.exit_code == 0, done.errors
            assert there() == []

        def fill() -> None:
            for addition in _ADDITIONS:
                assert ours("--add", *addition.split()).exit_code == 0

        for addition in _ADDITIONS:
            clear()
            succeed(ACLS, *at, "--add", *addition.split())
            theirs = there()
            clear()
            added = ours("--add", *addition.split())
            assert added.exit_code == 0, added.errors
            assert there() == theirs != [], addition
        clear()
        fill()
        for listing in _LISTS:
            rows = _rows(ours("--list", "--json", *listing.split()))
            assert rows == sorted(set(_their_rows(*at, *listing.split()))) != [], listing
        for removal in _REMOVALS:
            fill()
            before = there()
            succeed(ACLS, *at, "--remove", "--force", *removal.split())
            theirs = there()
            fill()
            removed = ours("--remove", "--force", *removal.split())
            assert removed.exit_code == 0, removed.errors
            assert there() == theirs != before, removal
        for wrong in _WRONG:
            before = there()
            assert kafka_tool(ACLS, *at, *wrong.split()).returncode != 0, wrong
            assert ours(*wrong.split()).exit_code == 2, wrong
            assert there() == before


_ROW: Final = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")


def _rows(result: Result) -> list[str]:
    assert result.exit_code == 0, result.errors
    return sorted(" ".join(each[name] for name in _ROW) for each in result.json)


def _their_rows(*options: str) -> list[str]:
    return [" ".join(re.findall(r"\w+=(.*?)(?:, (?=\w+=)|(?=: )|\)?$)", line)) for line in _listed(*options)]


@cluster_case
def what_is_denied_is_what_kafka_denies(directory: Path) -> None:
    different = differences(directory)
    assert not different, "\n".join(different)[:2000]


@cluster_case
def authorizer_integration_test_of_kafka(directory: Path) -> None:
    """Kafka's cases by their names: each outcome is Kafka's."""
    _are_as_recorded(authorizer_integration.SUITE, directory)


@cluster_case
def end_to_end_authorization_tests_of_kafka(directory: Path) -> None:
    """The same, for clients that come by SASL_SSL and by SSL."""
    _are_as_recorded(end_to_end_authorization.SUITE, directory)


def _are_as_recorded(suite: recorded_outcomes.Suite, directory: Path) -> None:
    different = recorded_outcomes.differences(suite, directory, suite.cases)
    assert not different, "\n".join(different)[:2000]
