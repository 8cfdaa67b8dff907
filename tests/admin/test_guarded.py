"""The commands over SASL_SSL, as a user who may do what ACLs for that user alone allow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import ScramMechanism  # type: ignore[attr-defined]

from tests.admin.calling import Result, call
from tests.broker.server.secured import PASSWORD as ALICES
from tests.broker.server.secured import Secured, running_secured

USER, PASSWORD = "ops", 'a "long" password; x'

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    more = (
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "super.users=User:ANONYMOUS",
        "transaction.state.log.num.partitions=1",
    )
    with running_secured(tmp_path_factory.mktemp("guarded"), *more) as found:
        found.set_password(ScramMechanism.SCRAM_SHA_512, USER, PASSWORD.encode())
        yield found


@pytest.fixture(scope="module")
def file(guarded: Secured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Kafka's tools take it."""
    path = tmp_path_factory.mktemp("client") / "client.properties"
    quoted = PASSWORD.replace('"', '\\\\"')
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="{USER}" password="{quoted}";\n'
        f"ssl.truststore.location={guarded.ca}\nssl.truststore.type=PEM\n"
    )
    return path


def test_each_command_does_what_the_users_acls_allow(guarded: Secured, file: Path, tmp_path: Path) -> None:
    address = f"127.0.0.1:{guarded.ports['SASL_SSL']}"

    def run(name: str, *arguments: str, stdin: str = "") -> Result:
        own = ("--bootstrap-server", address, "--command-config", str(file))
        return call(name, *own, *arguments, stdin=stdin)

    def done(name: str, *arguments: str, stdin: str = "") -> Result:
        result = run(name, *arguments, stdin=stdin)
        assert result.exit_code == 0, (name, arguments, result.errors)
        return result

    def allow(*arguments: str) -> None:
        allowed = call("acls", "-b", plain, "--add", "--allow-principal", f"User:{USER}", *arguments)
        assert allowed.exit_code == 0, allowed.errors

    plain = f"127.0.0.1:{guarded.ports['PLAINTEXT']}"
    assert call("topics", "-b", plain, "--create", "--topic", "hidden").exit_code == 0
    for name in ("hidden", "none"):
        for command in (("topics", "--describe"), ("produce",), ("consume", "--max-messages", "1")):
            unseen = run(*command, "--topic", name)
            assert unseen.errors == (
                f"error: there is no topic {name}, or this user may not see it (that needs DESCRIBE on the topic)\n"
            )
            assert unseen.exit_code == 1
        told = re.findall(rf'.*"event":"denied".*"operation":"Describe".*"{name}".*', guarded.broker.log_text())
        assert told, "the denial is in the audit log"
    unknown = call("topics", "-b", plain, "--describe", "--topic", "hiden")
    assert unknown.errors == "error: there is no topic hiden; did you mean hidden?\n"
    assert call("topics", "-b", plain, "--delete", "--topic", "hidden").exit_code == 0
    denied = run("topics", "--create", "--topic", "t")
    assert denied.exit_code == 1
    assert "AUTHORIZATION_FAILED" in denied.errors.upper().replace(" ", "_")
    for command in (
        ("acls", "--list"),
        ("users", "--list"),
        ("reassign", "--list"),
        ("elect", "--preferred", "--all-topics"),
    ):
        refused = run(*command)
        assert (refused.exit_code, refused.errors.count("\n")) == (1, 1), (command, refused)

    allow("--topic", "*")
    allow("--group", "*")
    allow("--transactional-id", "*")
    allow("--cluster")
    done("topics", "--create", "--topic", "t", "--partitions", "2")
    assert "t" in done("topics", "--list").output
    done("produce", "--topic", "t", stdin="one\ntwo\n")
    read = done("consume", "--topic", "t", "--from-beginning", "--group", "g", "--max-messages", "2")
    assert sorted(read.output.split()) == ["one", "two"]
    assert "g" in done("groups", "--describe", "--group", "g").output
    done("configs", "--alter", "--topic", "t", "--add-config", "flush.messages=5")
    assert "flush.messages" in done("configs", "--describe", "--topic", "t").output
    assert done("log-dirs", "--topic", "t", "--json").json
    done("elect", "--preferred", "--topic", "t")
    done("reassign", "--list")
    done("transactions", "list")
    assert USER in done("acls", "--list", "--group", "*").output
    done("users", "--create", "--user", "new", "--password-file", "-", stdin="long\n")
    assert "new" in done("users", "--list").output
    done("users", "--delete", "--user", "new", "--force")
    status = call("cluster", "status", "--bootstrap-server", address, "--command-config", str(file))
    assert status.exit_code == 0, (status.output, status.errors)
    unserved = run("monitoring", str(tmp_path / "monitoring"))
    assert (unserved.exit_code, "no broker reports where it serves metrics" in unserved.errors) == (1, True)
    both = ("--source", address, "--target", address, "--source-config", str(file), "--target-config", str(file))
    copied = call("mirror", *both, "--topic", "t", "--prefix", "copy.", "--once")
    assert copied.exit_code == 0, copied.errors
    assert sorted(done("consume", "--topic", "copy.t", "--from-beginning", "--max-messages", "2").output.split()) == [
        "one",
        "two",
    ]


ACLS_OF_THE_MIRROR = (
    "--topic t --operation Read --operation DescribeConfigs",
    "--group g --operation Read",
    "--group highwater-mirror- --resource-pattern-type prefixed --operation Read",
    (
        "--topic copy. --topic highwater-mirror- --resource-pattern-type prefixed --operation Create --operation Write "
        "--operation Read --operation Alter --operation DescribeConfigs --operation AlterConfigs"
    ),
    "--transactional-id highwater-mirror- --resource-pattern-type prefixed --operation Write",
)
"""As docs/access-control.md has them, of one cluster that is source and target."""


def test_the_mirror_does_with_the_acls_of_the_docs(guarded: Secured, tmp_path: Path) -> None:
    plain = f"127.0.0.1:{guarded.ports['PLAINTEXT']}"
    assert call("topics", "-b", plain, "--create", "--topic", "m").exit_code == 0
    assert call("produce", "-b", plain, "--topic", "m", stdin="one\ntwo\n").exit_code == 0
    read = call("consume", "-b", plain, "--topic", "m", "--from-beginning", "--group", "mg", "--max-messages", "2")
    assert read.exit_code == 0
    for acl in ACLS_OF_THE_MIRROR:
        words = acl.replace("--topic t ", "--topic m ").replace("--group g", "--group mg").split()
        assert call("acls", "-b", plain, "--add", "--allow-principal", "User:alice", *words).exit_code == 0
    file = tmp_path / "alice.properties"
    conf = guarded.conf("SASL_SSL", sasl_mechanism="PLAIN", sasl_username="alice", sasl_password=ALICES)
    address = conf.pop("bootstrap.servers")
    file.write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    both = ("--source", address, "--target", address, "--source-config", str(file), "--target-config", str(file))
    copied = call("mirror", *both, "--topic", "m", "--group", "mg", "--prefix", "copy.", "--once")
    assert copied.exit_code == 0, copied.errors
    assert copied.errors.splitlines() == ["created copy.m with 1 partitions", "group mg: offsets of 1 partitions"]


def test_a_file_that_only_java_can_read_is_one_line(guarded: Secured, tmp_path: Path) -> None:
    file = tmp_path / "java.properties"
    file.write_text("security.protocol=SSL\nssl.truststore.location=/etc/trust.jks\nssl.truststore.password=hidden\n")
    refused = call("topics", "-b", f"127.0.0.1:{guarded.ports['SSL']}", "--command-config", str(file), "--list")
    assert refused.exit_code == 2
    assert refused.errors.startswith(f"error: {file}: ssl.truststore.location=/etc/trust.jks is of type JKS")
    assert refused.errors.count("\n") == 1
    assert "hidden" not in refused.errors
