"""TLS and logins of the client and of the commands, with a process of our broker; each refusal is one line."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic, ScramMechanism  # type: ignore[attr-defined]
from typer.testing import CliRunner

import highwater.cli
from highwater.kafka.client.client import Client
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import cold_request
from highwater.kafka.client.settings import settings_of
from tests.admin.calling import Result, call
from tests.broker.server.certificates import Authority
from tests.broker.server.secured import PASSWORD, Secured, running_secured
from tests.kafka.client.hashing import threads_that_hash

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with running_secured(tmp_path_factory.mktemp("secured")) as found:
        found.set_password(ScramMechanism.SCRAM_SHA_256, "bob", PASSWORD.encode())
        found.set_password(ScramMechanism.SCRAM_SHA_512, "bob", PASSWORD.encode())
        admin = AdminClient(found.conf("PLAINTEXT"))
        admin.create_topics([NewTopic("t", 2)])["t"].result(60)
        yield found


def comes_in(properties: dict[str, Any]) -> bool:
    async def asking() -> bool:
        client = Client(settings_of(properties))
        try:
            answer = await client.ask_any(cold_request("metadata", 4, 12, {"topics": None}, lambda found: found))
        finally:
            await client.close()
        return {each.name for each in answer.topics} >= {"t"}

    return asyncio.run(asking())


def refusal(properties: dict[str, Any]) -> str:
    with pytest.raises(ClientError) as caught:
        comes_in(properties)
    text = str(caught.value)
    assert "\n" not in text
    assert PASSWORD not in text
    return text


def login(mechanism: str, user: str, password: str = PASSWORD) -> dict[str, str]:
    return {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}


LOGINS = [("PLAIN", "alice"), ("SCRAM-SHA-256", "bob"), ("SCRAM-SHA-512", "bob")]


def test_without_tls_and_login(secured: Secured) -> None:
    assert comes_in(secured.conf("PLAINTEXT"))


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(("mechanism", "user"), LOGINS)
def test_logins(secured: Secured, protocol: str, mechanism: str, user: str) -> None:
    assert comes_in(secured.conf(protocol, **login(mechanism, user)))
    told = refusal(secured.conf(protocol, **login(mechanism, user, "wrong")))
    assert re.fullmatch(
        r"broker 127\.0\.0\.1:\d+ refuses the login: SASL_AUTHENTICATION_FAILED \(58\): .*; "
        r"check sasl\.username and sasl\.password, or sasl\.jaas\.config",
        told,
    )


def test_passwords_are_hashed_outside_of_the_event_loop(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = threads_that_hash(monkeypatch)
    assert comes_in(secured.conf("SASL_PLAINTEXT", **login("SCRAM-SHA-256", "bob")))
    assert threads
    assert threading.current_thread() not in threads


def test_tls_with_certificates_of_both_sides(secured: Secured) -> None:
    assert comes_in(secured.with_certificate())
    pem = {f"ssl.{name}.pem": Path(secured.with_certificate()[f"ssl.{name}.location"]).read_text() for name in KINDS}
    assert comes_in(secured.conf("SSL") | pem)
    assert re.search(
        r"certificate required; the broker wants a certificate of this client: ssl\.certificate\.location|"
        "closed the connection|closes new",
        refusal(secured.conf("SSL")),
    )


KINDS = ("certificate", "key")


def test_a_broker_that_is_not_trusted(secured: Secured, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority().pem)
    conf = secured.conf("SASL_SSL", **login("PLAIN", "alice"))
    told = refusal(conf | {"ssl.ca.location": str(other)})
    assert re.fullmatch(
        r"TLS with broker 127\.0\.0\.1:\d+ failed: .*; ssl\.ca\.location must name the authority that signed its "
        "certificate",
        told,
    )
    assert comes_in(conf | {"ssl.ca.location": str(other), "enable.ssl.certificate.verification": "false"})
    assert refusal(conf | {"ssl.ca.location": "/none.pem"}) == (
        "TLS: /none.pem cannot be used: No such file or directory"
    )


def test_the_name_of_the_host_is_checked(secured: Secured) -> None:
    conf = secured.conf("SASL_SSL", **login("PLAIN", "alice"))
    conf["bootstrap.servers"] = conf["bootstrap.servers"].replace("127.0.0.1", "localhost")
    assert "ask for it by a name of its certificate" in refusal(conf)
    assert comes_in(conf | {"ssl.endpoint.identification.algorithm": "none"})


PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
OTHER_PROTOCOLS = [(own, listener) for own in (*PROTOCOLS, "SSL") for listener in PROTOCOLS if own != listener]


def of_another_protocol(secured: Secured, own: str, listener: str) -> dict[str, Any]:
    conf = secured.conf(own, **(login("PLAIN", "alice") if own.startswith("SASL") else {}))
    return conf | {"bootstrap.servers": f"127.0.0.1:{secured.ports[listener]}"}


def names_the_protocol(text: str, own: str, listener: str) -> bool:
    """Whether an error says what the listener speaks, and which setting makes the client fit."""
    if own.removeprefix("SASL_") == "PLAINTEXT" == listener:
        return "has no login at this address; set security.protocol without SASL_" in text
    words = [
        f"speaks {listener} at this address, and this client speaks {own}: set security.protocol={listener}",
        *(["ssl.ca.location"] if "PLAINTEXT" in own and "PLAINTEXT" not in listener else []),
        *(["sasl.mechanism ("] if listener.startswith("SASL") and not own.startswith("SASL") else []),
    ]
    return all(word in text for word in words)


@pytest.mark.parametrize(("own", "listener"), OTHER_PROTOCOLS)
def test_another_protocol_than_that_of_the_listener(secured: Secured, own: str, listener: str) -> None:
    assert names_the_protocol(text := refusal(of_another_protocol(secured, own, listener)), own, listener), text


# The commands


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (login("SCRAM-SHA-512", "bob", "wrong"), "refuses the login"),
        ({"ssl.ca.location": None}, "ssl.ca.location must name the authority that signed its certificate"),
        ({"security.protocol": "PLAINTEXT"}, "set security.protocol=SASL_SSL"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "set security.protocol=SASL_SSL"),
        ({"security.protocol": "SSL"}, "set security.protocol=SASL_SSL"),
    ],
)
def test_commands_say_why_they_are_not_let_in(
    secured: Secured, tmp_path: Path, properties: dict[str, str | None], text: str
) -> None:
    right = {**secured.conf("SASL_SSL"), **login("SCRAM-SHA-512", "bob")}
    conf = {name.replace("_", "."): value for name, value in (right | properties).items() if value is not None}
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in conf.items() if name != "bootstrap.servers"))
    for arguments in (("topics", "--list"), ("users", "--list"), ("acls", "--list"), ("groups", "--list")):
        told = call(*arguments, "-b", conf["bootstrap.servers"], "--command-config", str(path))
        assert (told.exit_code, text in told.errors) == (2, True), told.errors
        assert told.errors.count("\n") == 1


EACH_COMMAND = [
    ("acls", "--list"),
    ("cluster", "status"),
    ("configs", "--describe", "--topic", "t"),
    ("consume", "--topic", "t"),
    ("dlq", "list"),
    ("elect", "--preferred", "--all-topics"),
    ("groups", "--list"),
    ("log-dirs",),
    ("produce", "--topic", "t"),
    ("reassign", "--list"),
    ("retry", "list"),
    ("topics", "--list"),
    ("trace", "t/0/0"),
    ("transactions", "list"),
    ("users", "--list"),
]


@pytest.mark.parametrize("arguments", EACH_COMMAND)
def test_each_command_names_the_protocol_that_it_lacks(secured: Secured, arguments: tuple[str, ...]) -> None:
    address = ("-b", f"127.0.0.1:{secured.ports['SASL_SSL']}")
    is_group = arguments[0] == "transactions"  # its options stand before the command of its own
    options = (arguments[0], *address, *arguments[1:]) if is_group else (*arguments, *address)
    told = CliRunner().invoke(highwater.cli.app, ["broker", *options])
    assert told.exit_code == 2, told.stderr
    assert "security.protocol=SASL_SSL" in told.stderr
    assert told.stderr.count("\n") == 1


def command(secured: Secured, tmp_path: Path, *arguments: str, first: bool = False, **more: str) -> Result:
    """Run a command over SASL_SSL. `first`: its options stand before the command of its own."""
    conf = secured.conf("SASL_SSL", **(login("SCRAM-SHA-512", "bob") | more))
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in conf.items() if name != "bootstrap.servers"))
    options = ["-b", conf["bootstrap.servers"], "--command-config", str(path)]
    name, *rest = arguments
    return call(name, *options, *rest) if first else call(name, *rest, *options)


def test_every_command_that_librdkafka_cannot_serve_logs_in(secured: Secured, tmp_path: Path) -> None:
    def run(*arguments: str, first: bool = False) -> Result:
        result = command(secured, tmp_path, *arguments, first=first)
        assert (result.exit_code, result.errors) == (0, "")
        return result

    sizes = run("log-dirs", "--topic", "t", "--json").json
    assert [size["partition"] for size in sizes] == [0, 1]
    assert run("transactions", "list", "--json", first=True).json == []
    assert run("transactions", "find-hanging", "--topic", "t", "--json", first=True).json == []
    run(
        "configs", "--entity-type", "brokers", "--entity-default", "--alter", "--add-config", "log.retention.ms=3600000"
    )
    assert "log.retention.ms" in run("configs", "--entity-type", "brokers", "--entity-default", "--describe").output
    run("configs", "--user", "bob", "--alter", "--add-config", "producer_byte_rate=100000000")
    assert "producer_byte_rate" in run("configs", "--user", "bob", "--describe").output
    assert run("reassign", "--list", "--json").exit_code == 0
    assert "No election was needed" in run("elect", "--preferred", "--all-topics").output


def test_a_command_with_a_wrong_password(secured: Secured, tmp_path: Path) -> None:
    wrong = command(secured, tmp_path, "log-dirs", sasl_password="wrong")  # noqa: S106
    assert wrong.exit_code == 2
    assert wrong.errors.count("\n") == 1
