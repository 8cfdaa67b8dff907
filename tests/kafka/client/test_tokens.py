"""Tokens of a server on loopback: kept, renewed, and missing; the client and the commands log in with them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.common.ports import free_ports
from highwater.kafka.client.client import Client
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import cold_request
from highwater.kafka.client.security import TlsError
from highwater.kafka.client.settings import settings_of
from highwater.kafka.client.tokens import TokenSource, token_source
from highwater.kafka.login.credentials import LoginError
from highwater.kafka.login.token_request import TokenSettings
from tests.admin.calling import call
from tests.broker.running import RunningBroker, running_broker
from tests.broker.server.certificates import Authority
from tests.broker.token_server import (
    CLIENT,
    SECRET,
    TokenServer,
    broker_properties,
    client_properties,
    running_token_server,
    token_of,
)

KAFKAS = "org.apache.kafka.common.security.oauthbearer"
EVERYTHING = cold_request("metadata", 4, 12, {"topics": None}, lambda found: found)


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with running_token_server() as found:
        yield found


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


def source(server: TokenServer, clock: Clock, secret: str = SECRET) -> TokenSource:
    return TokenSource(TokenSettings(server.url, CLIENT, secret, "kafka"), None, clock_s=clock)


def test_a_token_is_kept_and_asked_for_once_by_all_threads(server: TokenServer) -> None:
    tokens = source(server, Clock())
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(tokens.text())) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert server.scopes == ["kafka"]
    assert len(set(found)) == 1
    assert len(found) == 8


def test_a_token_is_renewed_before_it_ends(server: TokenServer) -> None:
    clock = Clock()
    tokens = source(server, clock)
    first = tokens.token()
    clock.now_s += 0.79 * server.lifetime_s
    assert tokens.token() == first
    clock.now_s += 0.02 * server.lifetime_s
    assert tokens.token().ends_s == clock.now_s + server.lifetime_s
    assert len(server.scopes) == 2


def test_a_server_that_fails_leaves_the_present_token_until_it_ends(
    server: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    tokens = source(server, clock)
    first = tokens.token()
    server.status = 503
    clock.now_s += 0.9 * server.lifetime_s
    assert tokens.token() == first
    assert "answers with status 503; the present one has not ended" in caplog.text
    clock.now_s = first.ends_s
    with pytest.raises(LoginError, match="answers with status 503"):
        tokens.token()
    server.status = 200
    with pytest.raises(LoginError, match="answers with status 503"):
        tokens.token()  # nobody asks again for a moment
    clock.now_s += 1
    assert tokens.token() != first


def test_a_wrong_secret_is_told_without_it(server: TokenServer) -> None:
    with pytest.raises(LoginError) as caught:
        source(server, Clock(), "wrong").token()
    shown = server.url.partition("?")[0]
    assert str(caught.value) == f"no token: {shown} answers with status 401: invalid_client"


def test_a_server_that_is_not_there() -> None:
    (port,) = free_ports(1)
    tokens = TokenSource(TokenSettings(f"http://127.0.0.1:{port}/token", CLIENT, SECRET), None)
    with pytest.raises(LoginError, match="/token cannot be reached: Connection refused"):
        tokens.token()


def test_a_server_must_have_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    with running_token_server(authority.certify("idp").write_pem(tmp_path / "idp.pem")) as server:
        settings = TokenSettings(server.url, CLIENT, SECRET)
        with pytest.raises(LoginError, match="/token has a certificate that is not trusted: "):
            token_source(settings, 10).token()
        assert token_source(replace(settings, ca_file=str(tmp_path / "ca.pem")), 10).text()
        assert token_source(replace(settings, ca_pem=authority.pem), 10).text()
    with pytest.raises(TlsError, match=r"no\.pem cannot be used: No such file"):
        token_source(replace(settings, ca_file=str(tmp_path / "no.pem")), 10)


def test_a_file_is_read_at_each_login(tmp_path: Path) -> None:
    clock = Clock()
    file = tmp_path / "token"
    tokens = TokenSource(TokenSettings(file.as_uri()), None, clock_s=clock)
    with pytest.raises(LoginError, match="cannot be read: No such file or directory"):
        tokens.text()
    clock.now_s += 1
    for user in ("a", "b"):
        file.write_text(f"{(token := token_of(user))}\n")
        assert tokens.text() == token


# A broker that takes tokens


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory = tmp_path_factory.mktemp("tokens")
    with running_broker(directory / "log", properties=broker_properties(directory)) as found:
        yield found


async def asked(properties: dict[str, Any]) -> None:
    client = Client(settings_of(properties))
    try:
        await client.ask_any(EVERYTHING)
    finally:
        await client.close()


async def asked_until(properties: dict[str, Any], is_enough: Callable[[], bool]) -> None:
    """With one client. A request that comes late, when the session is over, is asked again."""
    client = Client(settings_of(properties))
    try:
        while not is_enough():
            try:
                await client.ask_any(EVERYTHING)
            except ClientError as error:
                if "closed the connection" not in str(error):
                    raise
            await asyncio.sleep(0.05)
    finally:
        await client.close()


@pytest.mark.clients
def test_the_client_logs_in_again_with_new_tokens(broker: RunningBroker, server: TokenServer) -> None:
    server.lifetime_s = 3
    properties = client_properties(server) | {"bootstrap.servers": broker.address}
    asyncio.run(asyncio.wait_for(asked_until(properties, lambda: len(server.scopes) >= 3), 120))


@pytest.mark.clients
def test_the_client_says_why_there_is_no_login(broker: RunningBroker, server: TokenServer) -> None:
    properties = client_properties(server) | {"bootstrap.servers": broker.address}
    with pytest.raises(ClientError, match=r"cannot be logged in to: no token: .*: invalid_client") as caught:
        asyncio.run(asked(properties | {"sasl.oauthbearer.client.secret": "wrong"}))
    assert "wrong" not in str(caught.value)
    assert caught.value.is_refusal


@pytest.mark.clients
def test_a_token_that_the_broker_refuses(broker: RunningBroker, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token_of("late", -90))
    properties = {
        "bootstrap.servers": broker.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }
    with pytest.raises(ClientError, match=r"refuses the login: .*the token has expired"):
        asyncio.run(asked(properties))


@pytest.mark.clients
@pytest.mark.parametrize("spelling", ["Kafka", "librdkafka", "a file"])
def test_commands_log_in(broker: RunningBroker, server: TokenServer, tmp_path: Path, spelling: str) -> None:
    file = tmp_path / "client.properties"
    lines = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER"]
    if spelling == "librdkafka":
        lines = [f"{name}={value}" for name, value in client_properties(server).items()]
    elif spelling == "Kafka":
        lines += [
            f"sasl.oauthbearer.token.endpoint.url={server.url}",
            f"sasl.login.callback.handler.class={KAFKAS}.secured.OAuthBearerLoginCallbackHandler",
            f"sasl.jaas.config={KAFKAS}.OAuthBearerLoginModule required clientId={CLIENT} \\",
            f'  clientSecret="{SECRET}" scope="kafka" extension_cluster="lkc-1";',
        ]
    else:
        (tmp_path / "token").write_text(token_of(CLIENT))
        lines.append(f"sasl.oauthbearer.token.endpoint.url={(tmp_path / 'token').as_uri()}")
    file.write_text("\n".join(lines))
    own = ("--bootstrap-server", broker.address, "--command-config", str(file))
    topic = f"by-{spelling.replace(' ', '-')}"
    for name, *arguments in (
        ("topics", "--create", "--topic", topic),  # confluent-kafka
        ("acls", "--add", "--allow-principal", "User:bob", "--producer", "--topic", topic),  # our own client
    ):
        result = call(name, *own, *arguments)
        assert result.exit_code == 0, result.errors
    assert server.scopes == {"Kafka": ["kafka"] * len(server.scopes), "librdkafka": [""] * len(server.scopes)}.get(
        spelling, []
    )


@pytest.mark.clients
def test_commands_say_at_once_why_there_is_no_token(broker: RunningBroker, server: TokenServer, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    lines = client_properties(server) | {"sasl.oauthbearer.client.secret": "wrong"}
    file.write_text("\n".join(f"{name}={value}" for name, value in lines.items()))
    result = call("topics", "--list", "--bootstrap-server", broker.address, "--command-config", str(file))
    assert result.exit_code == 2
    assert result.errors.strip().endswith("/token answers with status 401: invalid_client"), result.errors
    assert "wrong" not in result.errors
