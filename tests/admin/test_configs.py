"""`highwater broker configs` and `cluster` against a running broker."""

from __future__ import annotations

import pytest

from highwater.admin.configs import split_pairs
from highwater.admin.terminal import UsageError
from tests.admin.calling import Result, call
from tests.broker.running import RunningBroker


def configs(broker: RunningBroker, *arguments: str) -> Result:
    return call("configs", "-b", broker.address, *arguments)


def settings(broker: RunningBroker, *arguments: str) -> dict[str, tuple[str, str]]:
    (entity,) = configs(broker, "--describe", "--json", *arguments).json
    return {row["name"]: (row["value"], row["source"]) for row in entity["configs"]}


@pytest.mark.clients
def test_a_topics_settings_are_changed_and_shown(broker: RunningBroker) -> None:
    call("topics", "-b", broker.address, "--create", "--topic", "set", "--config", "flush.messages=5")
    assert settings(broker, "--topic", "set") == {"flush.messages": ("5", "topic")}
    changed = configs(
        broker, "--alter", "--entity-type", "topics", "--entity-name", "set",
        "--add-config", "max.message.bytes=100,cleanup.policy=[compact,delete]", "--delete-config", "flush.messages",
    )  # fmt: skip
    assert changed == Result(0, "Changed the settings of topic set.\n", "")
    assert settings(broker, "--topic", "set") == {
        "cleanup.policy": ("compact,delete", "topic"),
        "max.message.bytes": ("100", "topic"),
    }
    assert settings(broker, "--topic", "set", "--all")["flush.messages"] == ("9223372036854775807", "default")
    refused = call("produce", "-b", broker.address, "--topic", "set", stdin="x" * 200 + "\n")
    assert refused.exit_code == 1
    assert "MSG_SIZE_TOO_LARGE" in refused.errors
    assert "max.message.bytes" in configs(broker, "--describe", "--topic", "set").output


@pytest.mark.clients
def test_a_brokers_settings_are_changed_and_shown(broker: RunningBroker) -> None:
    assert settings(broker, "--broker", "0")["log.dirs"] == (str(broker.log_dir), "static broker")
    assert configs(broker, "--alter", "--broker", "0", "--add-config", "log.roll.ms=70000000").exit_code == 0
    assert settings(broker, "--broker", "0")["log.roll.ms"] == ("70000000", "dynamic broker")
    assert configs(broker, "--alter", "--broker", "0", "--delete-config", "log.roll.ms").exit_code == 0
    assert "log.roll.ms" not in settings(broker, "--broker", "0")


@pytest.mark.clients
def test_settings_of_all_brokers(broker: RunningBroker) -> None:
    everyone = ("--entity-type", "brokers", "--entity-default")
    assert settings(broker, *everyone) == {}
    assert configs(broker, "--describe", *everyone).output == "No settings of all brokers are changed.\n"
    changed = configs(broker, "--alter", *everyone, "--add-config", "log.roll.ms=70000000")
    assert changed == Result(0, "Changed the settings of all brokers.\n", "")
    assert settings(broker, *everyone) == {"log.roll.ms": ("70000000", "dynamic default")}
    assert "log.roll.ms" in configs(broker, "--describe", *everyone).output
    refused = configs(broker, "--alter", *everyone, "--add-config", "num.io.threads=1")
    assert (refused.exit_code, len(refused.errors.splitlines())) == (1, 1)
    assert configs(broker, "--alter", *everyone, "--delete-config", "log.roll.ms").exit_code == 0
    assert settings(broker, *everyone) == {}
    mistaken = configs(broker, "--describe", "--entity-default", "--topic", "t")
    assert (mistaken.exit_code, len(mistaken.errors.splitlines())) == (2, 1)


@pytest.mark.clients
def test_quotas_of_users_and_clients(broker: RunningBroker) -> None:
    def limits(*arguments: str) -> list[tuple[str | None, str | None, dict[str, str]]]:
        rows = configs(broker, "--describe", "--json", *arguments).json
        return [(row["user"], row["client_id"], row["configs"]) for row in rows]

    alice_of_app = ("--user", "alice", "--client", "app")
    assert configs(broker, "--describe", "--client", "app").output == "No settings of client app are changed.\n"
    assert configs(broker, "--alter", "--client", "app", "--add-config", "producer_byte_rate=77").exit_code == 0
    assert configs(broker, "--alter", *alice_of_app, "--add-config", "consumer_byte_rate=5").exit_code == 0
    everyone = ("--entity-type", "users", "--entity-default")
    assert configs(broker, "--alter", *everyone, "--add-config", "consumer_byte_rate=9").exit_code == 0
    assert limits("--client", "app") == [(None, "app", {"producer_byte_rate": "77"})]
    assert limits(*alice_of_app) == [("alice", "app", {"consumer_byte_rate": "5"})]
    assert limits(*everyone) == [("", None, {"consumer_byte_rate": "9"})]
    assert [row[:2] for row in limits("--entity-type", "clients")] == [(None, "app"), ("alice", "app")]
    assert "client app of user alice" in configs(broker, "--describe", "--entity-type", "users").output
    for whose, name in (
        (("--client", "app"), "producer_byte_rate"),
        (alice_of_app, "consumer_byte_rate"),
        (everyone, "consumer_byte_rate"),
    ):
        assert configs(broker, "--alter", *whose, "--delete-config", name).exit_code == 0
    assert limits("--entity-type", "users") == limits("--entity-type", "clients") == []


@pytest.mark.clients
def test_scram_credentials_of_users(broker: RunningBroker) -> None:
    password = "SCRAM-SHA-512=[iterations=4096,password=with, and = in it]"  # noqa: S105
    assert configs(broker, "--alter", "--user", "alice", "--add-config", password).exit_code == 0
    shown = configs(broker, "--describe", "--entity-type", "users")
    assert "iterations=4096" in shown.output
    assert "in it" not in shown.output
    assert configs(broker, "--alter", "--user", "alice", "--delete-config", "SCRAM-SHA-512").exit_code == 0
    assert configs(broker, "--describe", "--user", "alice").output == "No settings of user alice are changed.\n"
    for arguments, exit_code, word in (
        (("--user", "alice", "--delete-config", "SCRAM-SHA-512"), 1, "does not exist"),
        (("--user", "alice", "--add-config", "SCRAM-SHA-512=secret"), 2, "password=…"),
        (("--user", "alice", "--add-config", "SCRAM-SHA-512=[iterations=1,password=x]"), 1, "iterations"),
        (("--client", "app", "--add-config", "SCRAM-SHA-512=[password=x]"), 2, "belong to a user"),
        (("--client", "app", "--add-config", "request_percentage=0"), 1, "greater than 0"),
        (("--client", "app", "--add-config", "producer_byte_rate=many"), 2, "is a number"),
        (("--entity-type", "users", "--add-config", "producer_byte_rate=1"), 2, "--entity-default"),
        (("--entity-type", "ips", "--add-config", "producer_byte_rate=1"), 2, "clients, groups, client-metrics have"),
    ):
        refused = configs(broker, "--alter", *arguments)
        assert (refused.exit_code, len(refused.errors.splitlines())) == (exit_code, 1), refused
        assert word in refused.errors


@pytest.mark.clients
def test_subscriptions_to_metrics_of_clients(broker: RunningBroker) -> None:
    of_type = ("--entity-type", "client-metrics")
    named = (*of_type, "--entity-name", "all")
    assert configs(broker, "--describe", *of_type).output == "Clients are asked for no metrics.\n"
    assert configs(broker, "--describe", *named).output == "There is no subscription all.\n"
    added = "interval.ms=60000,metrics=[a.,b.],match=client_id=orders-.*"
    changed = configs(broker, "--alter", *named, "--add-config", added)
    assert changed == Result(0, "Changed the settings of client-metrics all.\n", "")
    told = {"interval.ms": "60000", "metrics": "a.,b.", "match": "client_id=orders-.*"}
    assert settings(broker, *of_type) == {name: (value, "subscription") for name, value in told.items()}
    assert "orders-.*" in configs(broker, "--describe", *of_type).output
    assert configs(broker, "--alter", *named, "--delete-config", "match").exit_code == 0
    assert settings(broker, *named, "--all")["match"] == ("", "default")
    for arguments, exit_code, word in (
        ((*named, "--add-config", "match=user=x"), 1, "Illegal client matching pattern: user=x (INVALID_CONFIG)"),
        ((*named, "--add-config", "interval.ms=1"), 1, "INVALID_REQUEST"),
        ((*of_type, "--add-config", "interval.ms=100"), 2, "--entity-name"),
        ((*of_type, "--entity-default", "--add-config", "interval.ms=100"), 2, "--entity-default"),
    ):
        refused = configs(broker, "--alter", *arguments)
        assert (refused.exit_code, len(refused.errors.splitlines())) == (exit_code, 1), refused
        assert word in refused.errors
    assert configs(broker, "--alter", *named, "--delete-config", "metrics,interval.ms").exit_code == 0
    assert settings_of_all(broker, *of_type) == []


@pytest.mark.clients
def test_settings_of_groups(broker: RunningBroker) -> None:
    of_type, named = ("--entity-type", "groups"), ("--group", "billing")
    assert configs(broker, "--describe", *of_type).output == "No group has settings of its own.\n"
    assert "billing has no settings of its own" in configs(broker, "--describe", *named).output
    added = "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=10000"
    changed = configs(broker, "--alter", *of_type, "--entity-name", "billing", "--add-config", added)
    assert changed == Result(0, "Changed the settings of groups billing.\n", "")
    told = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "10000"}
    assert settings(broker, *named) == settings(broker, *of_type) == {name: (told[name], "group") for name in told}
    assert "50000" in configs(broker, "--describe", *of_type).output
    assert configs(broker, "--alter", *named, "--delete-config", "consumer.session.timeout.ms").exit_code == 0
    assert settings(broker, *named, "--all")["consumer.session.timeout.ms"] == ("45000", "default")
    for arguments, exit_code, word in (
        ((*named, "--add-config", "consumer.sesion.timeout.ms=1"), 1, "did you mean consumer.session.timeout.ms?"),
        ((*named, "--add-config", "consumer.session.timeout.ms=1"), 1, "group.consumer.min.session.timeout.ms"),
        ((*named, "--add-config", "consumer.heartbeat.interval.ms=soon"), 1, "soon"),
        ((*of_type, "--add-config", "consumer.session.timeout.ms=50000"), 2, "--entity-name"),
        ((*of_type, "--entity-default", "--add-config", "consumer.session.timeout.ms=50000"), 2, "--entity-default"),
        ((*named, "--topic", "t", "--add-config", "flush.ms=1"), 2, "--entity-type topics|brokers"),
    ):
        refused = configs(broker, "--alter", *arguments)
        assert (refused.exit_code, len(refused.errors.splitlines())) == (exit_code, 1), refused
        assert word in refused.errors
    assert configs(broker, "--alter", *named, "--delete-config", "consumer.heartbeat.interval.ms").exit_code == 0
    assert settings_of_all(broker, *of_type) == []


def settings_of_all(broker: RunningBroker, *arguments: str) -> object:
    return configs(broker, "--describe", "--json", *arguments).json


@pytest.mark.clients
def test_mistakes_are_one_line_each(broker: RunningBroker) -> None:
    call("topics", "-b", broker.address, "--create", "--topic", "mistaken")
    topic = ("--topic", "mistaken")
    for arguments, exit_code, word in (
        (("--describe", "--topic", "mistakn"), 1, "did you mean mistaken?"),
        (("--describe", "--broker", "3"), 1, "there is no broker 3; there are: 0"),
        (("--alter", *topic, "--add-config", "max.mesage.bytes=1"), 1, "did you mean max.message.bytes?"),
        (("--alter", *topic, "--add-config", "flush.ms=soon"), 1, "soon"),
        (("--alter", "--broker", "0", "--add-config", "num.partitions=2"), 1, "num.partitions"),
        (("--alter", *topic, "--add-config", "flush.ms"), 2, "name=value"),
        (("--alter", *topic), 2, "--add-config"),
        (("--alter", *topic, "--add-config", "flush.ms=1", "--delete-config", "flush.ms"), 2, "flush.ms"),
        (("--describe", *topic, "--add-config", "flush.ms=1"), 2, "--add-config"),
        (("--describe",), 2, "--entity-type"),
        (("--describe", "--entity-type", "user"), 2, "users"),
        (topic, 2, "--describe, --alter"),
    ):
        result = configs(broker, *arguments)
        assert (result.exit_code, result.output) == (exit_code, ""), result
        assert result.errors.count("\n") == 1, result.errors
        assert word in result.errors


@pytest.mark.clients
def test_the_cluster_is_told(broker: RunningBroker) -> None:
    told = call("cluster", "-b", broker.address, "--json").json
    assert (told["cluster_id"], told["controller"]) == (broker.cluster_id, 0)
    assert [(node["id"], f"{node['host']}:{node['port']}") for node in told["brokers"]] == [(0, broker.address)]
    assert broker.address in call("cluster", "-b", broker.address).output


def test_brackets_hold_a_list_together() -> None:
    assert split_pairs("a=1,b=[2,3],c=x=y") == [("a", "1"), ("b", "2,3"), ("c", "x=y")]
    assert split_pairs("a=") == [("a", "")]
    for text in ("a", "a=[1", "a=[1]b=2", "=1", "a,b=1"):
        with pytest.raises(UsageError, match="--add-config"):
            split_pairs(text)
