"""`highwater broker acls` and `users` against a broker with an authorizer; Kafka's own tool beside it: tests/compat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.admin.acl_options import Given
from highwater.admin.terminal import UsageError
from highwater.kafka.acl import ResourceType
from tests.admin.calling import Result, call
from tests.broker.running import RunningBroker, running_broker

HOSTILE = "a\x1b[2J\u202eb"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    properties = [
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "super.users=User:ANONYMOUS",
    ]
    with running_broker(tmp_path_factory.mktemp("guarded") / "log", properties=properties) as broker:
        yield broker
        assert broker.stop() == 0


def acls(broker: RunningBroker, *arguments: str) -> Result:
    return call("acls", "-b", broker.address, *arguments)


def listed(broker: RunningBroker, *arguments: str) -> list[str]:
    result = acls(broker, "--list", "--json", *arguments)
    assert result.exit_code == 0, result.errors
    return sorted(
        " ".join(
            each[name]
            for name in (
                "resource_type",
                "resource_name",
                "pattern_type",
                "principal",
                "permission",
                "operation",
                "host",
            )
        )
        for each in result.json
    )


@pytest.mark.clients
class TestAcls:
    def test_added_listed_and_removed(self, guarded: RunningBroker) -> None:
        added = acls(
            guarded, "--add", "--allow-principal", "User:alice", "--producer", "--idempotent", "--topic", "o-",
            "--transactional-id", "x", "--resource-pattern-type", "prefixed",
        )  # fmt: skip
        assert added.exit_code == 0, added.errors
        acls(
            guarded, "--add", "--deny-principal", "User:bob", "--deny-host", "::1", "--operation", "all", "--topic", "*"
        )
        assert listed(guarded) == [
            "CLUSTER kafka-cluster LITERAL User:alice ALLOW IDEMPOTENT_WRITE *",
            "TOPIC * LITERAL User:bob DENY ALL ::1",
            "TOPIC o- PREFIXED User:alice ALLOW CREATE *",
            "TOPIC o- PREFIXED User:alice ALLOW DESCRIBE *",
            "TOPIC o- PREFIXED User:alice ALLOW WRITE *",
            "TRANSACTIONAL_ID x PREFIXED User:alice ALLOW DESCRIBE *",
            "TRANSACTIONAL_ID x PREFIXED User:alice ALLOW WRITE *",
        ]
        assert len(listed(guarded, "--topic", "o-1", "--resource-pattern-type", "match")) == 4
        assert listed(guarded, "--topic", "o-1") == []
        assert len(listed(guarded, "--principal", "User:bob")) == 1
        removed = acls(
            guarded, "--remove", "--force", "--topic", "o-", "--resource-pattern-type", "any",
            "--allow-principal", "User:alice", "--operation", "Create",
        )  # fmt: skip
        assert removed.output.startswith("Removed 1:"), removed
        assert "TOPIC o- PREFIXED User:alice ALLOW CREATE *" not in listed(guarded)
        for names in (("--topic", "o-"), ("--transactional-id", "x"), ("--topic", "*"), ("--cluster",)):
            assert acls(guarded, "--remove", "--force", *names, "--resource-pattern-type", "any").exit_code == 0
        assert listed(guarded) == []

    def test_without_a_terminal_nothing_is_removed_unless_forced(self, guarded: RunningBroker) -> None:
        acls(guarded, "--add", "--allow-principal", "User:alice", "--topic", "kept")
        before = listed(guarded)
        refused = acls(guarded, "--remove", "--topic", "kept")
        assert refused.exit_code == 2
        assert "--force" in refused.errors
        assert listed(guarded) == before != []

    def test_hostile_names_cannot_write_to_the_terminal(self, guarded: RunningBroker) -> None:
        created = acls(guarded, "--add", "--allow-principal", f"User:{HOSTILE}", "--group", "g")
        assert created.exit_code == 0, created.errors
        assert "\x1b" not in created.output + acls(guarded, "--list").output
        assert "a\\x1b[2J\\u202eb" in created.output
        assert acls(guarded, "--remove", "--force", "--group", "g").exit_code == 0
        for option in ("--allow-principal", "--operation", "--allow-host"):
            values = {"--allow-principal": "User:a", "--operation": "Read", "--allow-host": "*"} | {option: HOSTILE}
            refused = acls(guarded, "--add", "--topic", "t", *(word for pair in values.items() for word in pair))
            assert refused.exit_code == 2
            assert "\x1b" not in refused.errors

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("--add", "--allow-principal", "alice", "--topic", "t"), "write a principal as User:alice"),
            (("--add", "--allow-principal", "user:alice", "--topic", "t"), "write User:alice; capitals count"),
            (("--add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Raed"), "did you mean Read?"),
            (("--add", "--allow-principal", "User:a", "--group", "g", "--operation", "Write"), "--group: one of Read"),
            (("--add", "--allow-principal", "User:a", "--tpoic", "t"), "No such option: --tpoic"),
            (("--add", "--allow-principal", "User:a"), "name the resource: --topic"),
            (("--add", "--topic", "t"), "name who: --allow-principal or --deny-principal"),
            (("--add", "--topic", "t", "--allow-host", "10.0.0.1"), "--allow-host needs --allow-principal"),
            (("--add", "--topic", "t", "--allow-principal", "User:a", "--allow-host", "web"), "web is not an address"),
            (("--add", "--topic", "a/b", "--allow-principal", "User:a"), "'a/b'"),
            (
                ("--add", "--topic", "t", "--allow-principal", "User:a", "--resource-pattern-type", "any"),
                "any goes with --list and --remove",
            ),
            (("--list", "--topic", "t", "--resource-pattern-type", "prefix"), "did you mean prefixed?"),
            (("--add", "--producer", "--group", "g", "--allow-principal", "User:a"), "--producer needs --topic"),
            (("--add", "--consumer", "--topic", "t", "--allow-principal", "User:a"), "needs --topic and --group"),
            (("--add", "--idempotent", "--topic", "t", "--allow-principal", "User:a"), "goes with --producer"),
            (("--add", "--producer", "--topic", "t", "--operation", "Read", "--allow-principal", "User:a"), "does not"),
            (("--list", "--allow-principal", "User:a"), "--allow-principal does not go with --list"),
            (("--remove", "--principal", "User:a", "--topic", "t"), "--principal does not go with --remove"),
            (("--remove", "--force"), "name the resource"),
            (("--add", "--list"), "cannot go together"),
            ((), "give one of --list"),
        ],
    )
    def test_wrong_use_is_one_line_and_changes_nothing(
        self, guarded: RunningBroker, arguments: tuple[str, ...], told: str
    ) -> None:
        before = listed(guarded)
        result = acls(guarded, *arguments)
        assert result.exit_code == 2
        assert told in result.errors
        assert "Traceback" not in result.errors
        assert listed(guarded) == before

    def test_without_an_authorizer_there_are_no_acls(self, broker: RunningBroker) -> None:
        for arguments in (("--list",), ("--add", "--allow-principal", "User:a", "--topic", "t")):
            result = acls(broker, *arguments)
            assert result.exit_code == 1
            assert "the brokers have no authorizer (authorizer.class.name)" in result.errors


def test_a_consumer_and_producer_share_the_topic() -> None:
    given = Given(
        {ResourceType.TOPIC: ["t"], ResourceType.GROUP: ["g"]}, allowed=["User:a"], is_producer=True, is_consumer=True
    )
    assert sorted(f"{acl.resource.name} {acl.entry.operation.text}" for acl in given.acls()) == [
        "g Read", "t Create", "t Describe", "t Read", "t Write",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="names nothing"):
        Given({ResourceType.TOPIC: [" "]}, allowed=["User:a"]).acls()


@pytest.mark.clients
class TestUsers:
    def users(self, broker: RunningBroker, *arguments: str, stdin: str = "") -> Result:
        return call("users", "-b", broker.address, *arguments, stdin=stdin)

    def test_created_changed_and_deleted(self, broker: RunningBroker, tmp_path: Path) -> None:
        file = tmp_path / "password"
        file.write_text("first secret\n")
        created = self.users(broker, "--create", "--user", "carol", "--password-file", str(file))
        assert created == Result(0, "Created user carol: SCRAM-SHA-512.\n", "")
        again = self.users(broker, "--create", "--user", "carol", "--password-file", str(file))
        assert (again.exit_code, "--change changes it" in again.errors) == (1, True)
        more = ("--mechanism", "scram-sha-256", "--iterations", "5000", "--password-file", "-")
        assert self.users(broker, "--create", "--user", "carol", *more, stdin="second\n").exit_code == 0
        assert self.users(broker, "--list", "--user", "carol", "--json").json == [
            {"user": "carol", "mechanism": "SCRAM-SHA-256", "iterations": 5000},
            {"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
        ]
        changed = self.users(broker, "--change", "--user", "carol", "--password-file", "-", stdin="third\n")
        assert changed.output == "Changed user carol: SCRAM-SHA-256, SCRAM-SHA-512.\n"
        assert "secret" not in json.dumps([created, again, changed])
        refused = self.users(broker, "--delete", "--user", "carol")
        assert (refused.exit_code, "--force" in refused.errors) == (2, True)
        deleted = self.users(broker, "--delete", "--user", "carol", "--mechanism", "SCRAM-SHA-256", "--force")
        assert deleted.output == "Deleted user carol: SCRAM-SHA-256.\n"
        assert self.users(broker, "--delete", "--user", "carol", "--force").exit_code == 0
        gone = self.users(broker, "--delete", "--user", "carol", "--force")
        assert (gone.exit_code, "there is no user carol" in gone.errors) == (1, True)

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("--create",), "--create needs --user NAME"),
            (("--create", "--user", "User:carol"), "the name alone, carol"),
            (("--create", "--user", "carol"), "give --password-file FILE"),
            (("--create", "--user", "carol", "--password-file", "-"), "the password is empty"),
            (("--create", "--user", "carol", "--password-file", "/nowhere/at-all"), "/nowhere/at-all: cannot read"),
            (("--create", "--user", "carol", "--mechanism", "PLAIN"), "SCRAM-SHA-256 or SCRAM-SHA-512"),
            (("--delete", "--user", "carol", "--iterations", "4096"), "does not go with --delete"),
            (("--list", "--force"), "--force does not go with --list"),
        ],
    )
    def test_wrong_use_is_one_line(self, broker: RunningBroker, arguments: tuple[str, ...], told: str) -> None:
        result = self.users(broker, *arguments)
        assert result.exit_code == 2
        assert told in result.errors
        assert self.users(broker, "--list").output == "There are no users with SCRAM.\n"
