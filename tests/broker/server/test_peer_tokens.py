"""Brokers log in to each other with tokens of a server on loopback, and again before their sessions end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import uvloop

from highwater.broker.cluster.peers import Endpoint, PeerFailure, ask
from highwater.broker.server.peers import SocketPeers
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from highwater.kafka.protocol.apis import METADATA
from tests.broker.running import RunningBroker, running_broker
from tests.broker.token_server import CLIENT, SECRET, TokenServer, broker_properties, running_token_server

DEADLINE_S: Final = 120
KAFKAS: Final = "org.apache.kafka.common.security.oauthbearer"
OF_LISTENER: Final = "listener.name.sasl_plaintext.oauthbearer.sasl"
URL: Final = "sasl.oauthbearer.token.endpoint.url"
LOGIN: Final = f'{OF_LISTENER}.jaas.config={KAFKAS}.OAuthBearerLoginModule required clientId="{CLIENT}"'


def config(*settings: str) -> BrokerConfig:
    own = (
        "listeners=SASL_PLAINTEXT://:0",
        "security.inter.broker.protocol=SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
    )
    return BrokerConfig([Setting("test", *text.split("=", 1)) for text in (*own, *settings)])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory = tmp_path_factory.mktemp("peer-tokens")
    with running_broker(directory / "log", properties=broker_properties(directory)) as found:
        yield found


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with running_token_server() as found:
        yield found


def heard(broker: RunningBroker, settings: BrokerConfig, is_enough: Callable[[list[Any]], bool]) -> list[Any]:
    """What one peer is answered, one request after the other."""

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        peers = SocketPeers(settings, loop)
        peer = peers.connect(Endpoint("SASL_PLAINTEXT", "SASL_PLAINTEXT", "127.0.0.1", broker.port), "me")
        answers: list[Any] = []
        while not is_enough(answers):
            future: asyncio.Future[Any] = loop.create_future()
            ask(peer, METADATA, 12, {"topics": []}, future.set_result, timeout_ms=30_000)
            answers.append(await future)
            await asyncio.sleep(0.05)
        peers.close()
        return answers

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(main(), DEADLINE_S))


@pytest.mark.clients
def test_a_broker_logs_in_again_with_new_tokens(broker: RunningBroker, server: TokenServer) -> None:
    server.lifetime_s = 3
    own = config(f"{URL}={server.url}", f'{LOGIN} clientSecret="{SECRET}" scope="kafka";')
    answers = heard(broker, own, lambda _: len(server.scopes) >= 3)
    assert server.scopes[:3] == ["kafka"] * 3
    assert any(not isinstance(each, PeerFailure) for each in answers[-20:])


@pytest.mark.clients
def test_no_token_is_told_and_asked_for_again(
    broker: RunningBroker, server: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.status = 503
    own = config(f"{URL}={server.url}", f'{LOGIN} clientSecret="{SECRET}";')

    def is_enough(answers: list[Any]) -> bool:
        if PeerFailure.DISCONNECTED in answers:
            server.status = 200
        return bool(answers) and not isinstance(answers[-1], PeerFailure)

    heard(broker, own, is_enough)
    assert "cannot log in to a broker at 127.0.0.1" in caplog.text
    assert "no token: http://127.0.0.1:" in caplog.text
    assert "answers with status 503" in caplog.text
    assert "hidden" not in caplog.text


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ([], f"{URL} is missing"),
        ([f"{URL}=http://idp.example/token"], f"{URL} must be https"),
        ([f"{URL}=https://idp.example/token"], "sasl.oauthbearer.client.id is missing"),
        ([f"{URL}=https://idp.example/token", f"{LOGIN};"], "sasl.oauthbearer.client.secret is missing"),
        ([f"{URL}=https://idp.example/token", f"{LOGIN} secret=a;"], "the options of OAuthBearerLoginModule are"),
        (
            [f"{URL}=file:///token", f"{OF_LISTENER}.login.callback.handler.class=com.example.Mine"],
            "com.example.Mine cannot be loaded; remove it, or name org.apache.kafka",
        ),
    ],
)
def test_settings_that_cannot_be_used(settings: list[str], says: str) -> None:
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(ConfigError, match=says):
            SocketPeers(config(*settings), loop)
    finally:
        loop.close()


def test_kafkas_handler_is_known() -> None:
    handler = f"{OF_LISTENER}.login.callback.handler.class={KAFKAS}.secured.OAuthBearerLoginCallbackHandler"
    loop = asyncio.new_event_loop()
    try:
        assert SocketPeers(config(f"{URL}=file:///token", handler), loop).security.user is None
    finally:
        loop.close()
