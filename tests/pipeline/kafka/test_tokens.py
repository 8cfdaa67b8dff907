"""Logins of the pipeline's client with tokens of a server on loopback: shared, renewed, and missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.pipeline.errors import ClientError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.connection import credential
from highwater.pipeline.kafka.settings import Settings, settings_of
from tests.broker.running import RunningBroker, running_broker
from tests.broker.token_server import (
    SECRET,
    TokenServer,
    broker_properties,
    client_properties,
    running_token_server,
    token_of,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory = tmp_path_factory.mktemp("broker")
    properties = (*broker_properties(directory), "sasl.oauthbearer.clock.skew.seconds=0")
    with running_broker(directory / "log", properties=properties) as running:
        yield running


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with running_token_server() as found:
        yield found


def settings(broker: RunningBroker, server: TokenServer, **more: str) -> Settings:
    own = client_properties(server, default_api_timeout_ms="20000", **more)
    return settings_of({"bootstrap.servers": broker.address, **own})


def comes_in(own: Settings) -> bool:
    with Client(own) as client:
        return client.cluster([]).cluster_id is not None


def refusal(own: Settings) -> str:
    with pytest.raises(ClientError) as caught:
        comes_in(own)
    text = str(caught.value)
    assert "\n" not in text
    assert SECRET not in text
    return text


def test_all_connections_of_a_process_share_a_token(broker: RunningBroker, server: TokenServer) -> None:
    for _ in range(3):
        assert comes_in(settings(broker, server, sasl_oauthbearer_scope="kafka"))
    assert server.scopes == ["kafka"]


def test_a_token_is_renewed_before_it_ends_on_the_same_connection(broker: RunningBroker, server: TokenServer) -> None:
    server.lifetime_s = 2
    with Client(settings(broker, server)) as client:

        def is_renewed() -> bool:
            assert client.cluster([]).cluster_id is not None
            return len(server.scopes) >= 3

        wait_until(is_renewed, "three tokens")


def test_why_there_is_no_token(broker: RunningBroker, server: TokenServer, tmp_path: Path) -> None:
    url = server.url.partition("?")[0]
    wrong = refusal(settings(broker, server, sasl_oauthbearer_client_secret="another"))  # noqa: S106
    assert wrong == (
        f"broker {broker.address} cannot be logged in to: no token: {url} answers with status 401: invalid_client"
    )
    server.status = 503
    assert f"no token: {url} answers with status 503" in refusal(settings(broker, server, client_id="b"))
    missing = tmp_path / "none"
    of_a_file = settings(broker, server, sasl_oauthbearer_token_endpoint_url=missing.as_uri())
    assert f"no token: {missing.as_uri()} cannot be read: No such file or directory" in refusal(of_a_file)
    (tmp_path / "late").write_text(token_of("late", -90))
    late = settings(broker, server, sasl_oauthbearer_token_endpoint_url=(tmp_path / "late").as_uri())
    assert re.search("refuses the login: .*the token has expired", refusal(late))
    no_authority = settings(broker, server, https_ca_location="/none.pem")
    assert refusal(no_authority) == "TLS: /none.pem cannot be used: No such file or directory"


def test_a_process_that_was_forked_asks_for_its_own_tokens(broker: RunningBroker, server: TokenServer) -> None:
    own = settings(broker, server).sasl
    assert own is not None
    assert credential(own) is credential(own)
    before = credential(own)
    credential.cache_clear()  # as after a fork
    assert credential(own) is not before
