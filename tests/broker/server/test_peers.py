"""Connections to other brokers: to a socket that the tests play, and to real brokers with TLS and SASL."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import uvloop
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from highwater.broker.cluster.peers import Endpoint, Peer, PeerFailure, ask
from highwater.broker.server.peer_security import PeerSecurity
from highwater.broker.server.peers import SocketPeers
from highwater.broker.settings.config import BrokerConfig, ConfigError, Setting
from highwater.kafka.protocol.apis import API_VERSIONS, METADATA
from tests.broker.running import RunningBroker
from tests.broker.server.certificates import Authority
from tests.kafka.client.hashing import threads_that_hash

DEADLINE_S: Final = 60
LONG_MS: Final = 30_000
T = TypeVar("T")


def config(*settings: str) -> BrokerConfig:
    return BrokerConfig([Setting("test", *text.split("=", 1)) for text in settings])


def on_loop(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(main, DEADLINE_S))


def plain(port: int) -> Endpoint:
    return Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port)


class Answers:
    """What requests were given, in order."""

    def __init__(self) -> None:
        self.given: list[bytes | PeerFailure] = []
        self._changed = asyncio.Event()

    def take(self, body: memoryview | PeerFailure) -> None:
        self.given.append(body if isinstance(body, PeerFailure) else bytes(body))
        self._changed.set()

    def note(self) -> None:
        self._changed.set()

    async def wait(self, count: int) -> list[bytes | PeerFailure]:
        await self.wait_until(lambda: len(self.given) >= count)
        return self.given

    async def wait_until(self, is_there: Callable[[], bool]) -> None:
        while not is_there():
            self._changed.clear()
            await self._changed.wait()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def serve(play: Serve) -> tuple[asyncio.Server, Endpoint]:
    async def played(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await play(reader, writer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(played, "127.0.0.1", 0)
    return server, plain(server.sockets[0].getsockname()[1])


async def read_request(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    """(API key, version, correlation id, what follows the client id)."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    frame = await reader.readexactly(size)
    api_key, version, correlation_id, client_id_size = struct.unpack_from(">hhih", frame)
    assert frame[10 : 10 + client_id_size] == b"me"
    return api_key, version, correlation_id, frame[10 + client_id_size :]


def answer(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def send(peer: Peer, body: bytes, answers: Answers, timeout_ms: int = LONG_MS) -> None:
    """A request that has no tags, so that answers are what the test writes."""
    peer.send(METADATA, 1, [body], answers.take, timeout_ms=timeout_ms)


def test_requests_are_pipelined_and_answered_in_order() -> None:
    async def echo_in_pairs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            # The first answer leaves when the second request is there.
            requests = [await read_request(reader) for _ in range(2)]
            for api_key, version, correlation_id, body in requests:
                assert (api_key, version) == (METADATA, 1)
                writer.write(answer(correlation_id, body))

    async def main() -> None:
        server, endpoint = await serve(echo_in_pairs)
        peers = SocketPeers(config(), asyncio.get_running_loop())
        peer = peers.connect(endpoint, "me")
        answers = Answers()
        for body in (b"a", b"b", b"c" * 3_000_000, b"d"):
            send(peer, body, answers)
        assert await answers.wait(4) == [b"a", b"b", b"c" * 3_000_000, b"d"]
        peers.close()
        server.close()

    on_loop(main())


def test_nobody_listens() -> None:
    async def main() -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            peer = SocketPeers(config(), asyncio.get_running_loop()).connect(plain(bound.getsockname()[1]), "me")
            answers = Answers()
            send(peer, b"a", answers)
            send(peer, b"b", answers)
            assert answers.given == []
            assert await answers.wait(2) == [PeerFailure.REFUSED] * 2
            send(peer, b"c", answers)
            assert (await answers.wait(3))[2] is PeerFailure.REFUSED

    on_loop(main())


def test_a_host_that_does_not_exist() -> None:
    async def main() -> None:
        endpoint = plain(1)._replace(host="nobody.invalid")
        answers = Answers()
        send(SocketPeers(config(), asyncio.get_running_loop()).connect(endpoint, "me"), b"a", answers)
        assert await answers.wait(1) == [PeerFailure.DISCONNECTED]

    on_loop(main())


def test_a_connection_that_breaks_fails_all_that_is_under_way_and_is_made_anew() -> None:
    connections = []

    async def break_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        _, _, correlation_id, body = await read_request(reader)
        if len(connections) > 1:
            writer.write(answer(correlation_id, body))
            await reader.read()

    async def main() -> None:
        server, endpoint = await serve(break_first)
        breaks: list[int] = []
        answers = Answers()

        def broke(failure: PeerFailure) -> None:
            breaks.append(len(answers.given))
            answers.note()

        peers = SocketPeers(config(), asyncio.get_running_loop())
        peer = peers.connect(endpoint, "me", on_break=broke)
        send(peer, b"a", answers)
        send(peer, b"b", answers)
        # Closed, or reset where the second request was not read before.
        assert set(await answers.wait(2)) <= {PeerFailure.CLOSED, PeerFailure.DISCONNECTED}
        await answers.wait_until(lambda: bool(breaks))
        assert breaks == [2]
        send(peer, b"c", answers)
        assert (await answers.wait(3))[2] == b"c"
        # Also one with nothing under way.
        connections[1].transport.abort()
        await answers.wait_until(lambda: len(breaks) == 2)
        peers.close()
        server.close()

    on_loop(main())


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_connection_that_is_closed_is_told_from_one_that_is_reset(is_reset: bool) -> None:
    """A kernel closes those of a process that ends; a firewall resets them, and the process lives."""

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, correlation_id, body = await read_request(reader)
        writer.write(answer(correlation_id, body))
        # The client closes nothing, so this is sent when the answer is there.
        assert await reader.readexactly(4) == struct.pack(">i", 14)
        await reader.readexactly(14)
        if is_reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async def main() -> None:
        server, endpoint = await serve(serve_one)
        answers, breaks = Answers(), Answers()
        peer = SocketPeers(config(), asyncio.get_running_loop()).connect(endpoint, "me", on_break=breaks.take)
        send(peer, b"a", answers)
        assert await answers.wait(1) == [b"a"]
        send(peer, b"bc", answers)
        failure = PeerFailure.DISCONNECTED if is_reset else PeerFailure.CLOSED
        assert (await answers.wait(2))[1] is failure
        assert await breaks.wait(1) == [failure]
        server.close()

    on_loop(main())


def test_no_answer_in_time_breaks_the_connection() -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        server, endpoint = await serve(silence)
        peer = SocketPeers(config(), asyncio.get_running_loop()).connect(endpoint, "me")
        answers = Answers()
        send(peer, b"a", answers)
        send(peer, b"b", answers, timeout_ms=50)
        assert await answers.wait(2) == [PeerFailure.TIMED_OUT] * 2
        server.close()

    on_loop(main())


@pytest.mark.parametrize("nonsense", [answer(12345, b""), struct.pack(">i", -2), struct.pack(">ih", 2, 0)])
def test_what_answers_nothing_breaks_the_connection(nonsense: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def talk_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(nonsense)
        await reader.read()

    async def main() -> None:
        server, endpoint = await serve(talk_nonsense)
        answers = Answers()
        send(SocketPeers(config(), asyncio.get_running_loop()).connect(endpoint, "me"), b"a", answers)
        assert await answers.wait(1) == [PeerFailure.DISCONNECTED]
        server.close()

    on_loop(main())
    assert "sent a malformed response" in caplog.text


def test_a_callback_may_close_the_peer() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            peer = SocketPeers(config(), loop).connect(plain(bound.getsockname()[1]), "me")
            answers = Answers()

            def close(body: memoryview | PeerFailure) -> None:
                answers.take(body)
                peer.close()

            peer.send(METADATA, 1, [b"a"], close, timeout_ms=LONG_MS)
            send(peer, b"b", answers)
            await answers.wait(1)
            await asyncio.sleep(0)
            assert answers.given == [PeerFailure.REFUSED]

    on_loop(main())


def test_closing_calls_nobody_back() -> None:
    steps: list[asyncio.Future[None]] = []

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        steps[0].set_result(None)
        await reader.read()
        steps[1].set_result(None)

    async def main() -> None:
        steps.extend(asyncio.get_running_loop().create_future() for _ in range(2))
        server, endpoint = await serve(silence)
        peers = SocketPeers(config(), asyncio.get_running_loop())
        answers = Answers()
        peer = peers.connect(endpoint, "me", on_break=answers.take)
        send(peer, b"a", answers)
        await steps[0]
        peers.close()
        await steps[1]
        assert answers.given == []
        server.close()

    on_loop(main())


# Real brokers

SCRAM: Final = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'
PLAIN: Final = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="inside" password="pw" user_inside="pw";'
)


def settings(directory: Path, authority: Authority) -> list[str]:
    """Of a broker with one listener of each protocol: as server and as client."""
    certified = authority.certify("broker")
    trusted = directory / "trusted.pem"
    trusted.write_text(authority.pem)
    return [
        "listeners=" + ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        f"ssl.keystore.location={certified.write_pem(directory / 'broker.pem')}",
        f"ssl.truststore.location={trusted}",
        "ssl.client.auth=required",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN}",
        f"listener.name.sasl_ssl.plain.sasl.jaas.config={PLAIN}",
        f"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={SCRAM.format('inside', 'pw')}",
        f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={SCRAM.format('inside', 'wrong')}",
        "connection.failed.authentication.delay.ms=1",
    ]


def ports_of(running: RunningBroker) -> dict[str, int]:
    """By the name of the listener."""
    ports = {}
    for line in running.log_text().splitlines():
        if " listener " in line and " at port " in line:
            words = line.split()
            ports[words[words.index("listener") + 1]] = int(words[words.index("port") + 1])
    return ports


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("secured")
    broker_settings = settings(directory, Authority())
    properties = directory / "server.properties"
    properties.write_text("\n".join([*broker_settings, "listener.name.sasl_plaintext.connections.max.reauth.ms=400"]))
    running = RunningBroker(directory / "log", "--config", str(properties))
    try:
        ports = ports_of(running)
        admin = AdminClient({"log_level": 0, "bootstrap.servers": f"127.0.0.1:{ports['PLAINTEXT']}"})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion("inside", ScramCredentialInfo(mechanism, 4096), b"pw")
            admin.alter_user_scram_credentials([change])["inside"].result(60)
        yield broker_settings, ports
    finally:
        running.kill()


def cluster_id(
    broker_settings: list[str],
    ports: dict[str, int],
    listener: str,
    *more: str,
    for_s: float = 0,
    host: str = "127.0.0.1",
) -> Any:
    """What a peer hears at a listener, asked again for so long; or why it hears nothing."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        inside = f"inter.broker.listener.name={listener}"
        peers = SocketPeers(config(*broker_settings, inside, *more), loop)
        peer = peers.connect(Endpoint(listener, listener, host, ports[listener]), "me", name="broker 7")
        end_s = loop.time() + for_s
        while True:
            future: asyncio.Future[Any] = loop.create_future()
            ask(peer, METADATA, 12, {"topics": []}, future.set_result, timeout_ms=LONG_MS)
            versions: asyncio.Future[Any] = loop.create_future()
            ask(peer, API_VERSIONS, 2, {}, versions.set_result, timeout_ms=LONG_MS)
            heard, also = await future, await versions
            if isinstance(heard, PeerFailure):
                assert heard is also
                return heard
            assert also.error_code == 0
            if loop.time() >= end_s:
                peers.close()
                return heard.cluster_id

    return on_loop(main())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.clients
@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("PLAINTEXT", "PLAIN"),
        ("SSL", "PLAIN"),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ],
)
def test_brokers_come_in(broker: Any, listener: str, mechanism: str) -> None:
    assert isinstance(cluster_id(*broker, listener, f"sasl.mechanism.inter.broker.protocol={mechanism}"), str)


@pytest.mark.clients
def test_passwords_are_hashed_outside_of_the_event_loop(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = threads_that_hash(monkeypatch)
    more = "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256"
    assert isinstance(cluster_id(*broker, "SASL_PLAINTEXT", more), str)
    assert threads
    assert threading.current_thread() not in threads


@pytest.mark.clients
def test_the_kernel_closes_the_connections_of_a_killed_broker(tmp_path: Path) -> None:
    """Also with TLS: nobody is left to say good-bye."""
    broker_settings = settings(tmp_path, Authority())
    properties = tmp_path / "server.properties"
    properties.write_text("\n".join(broker_settings))
    running = RunningBroker(tmp_path / "log", "--config", str(properties))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        answers, breaks = Answers(), Answers()
        for name in ("PLAINTEXT", "SSL"):
            peers = SocketPeers(config(*broker_settings, f"inter.broker.listener.name={name}"), loop)
            peer = peers.connect(Endpoint(name, name, "127.0.0.1", ports[name]), "me", on_break=breaks.take)
            peer.send(API_VERSIONS, 0, [], answers.take, timeout_ms=LONG_MS)
        assert all(isinstance(body, bytes) for body in await answers.wait(2))
        await asyncio.to_thread(running.kill)
        assert await breaks.wait(2) == [PeerFailure.CLOSED] * 2

    try:
        ports = ports_of(running)
        on_loop(main())
    finally:
        running.kill()


@pytest.mark.clients
def test_a_session_that_is_over_is_begun_anew_before_it_ends(broker: Any) -> None:
    more = "sasl.mechanism.inter.broker.protocol=PLAIN"
    assert isinstance(cluster_id(*broker, "SASL_PLAINTEXT", more, for_s=1), str)


@pytest.mark.clients
def test_a_wrong_password_is_told(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    heard = cluster_id(*broker, "SASL_SSL", "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512")
    assert heard is PeerFailure.DISCONNECTED
    (line,) = warnings(caplog)
    assert line == (
        f"cannot log in to broker 7 at 127.0.0.1:{broker[1]['SASL_SSL']} (listener SASL_SSL) as User:inside: "
        "SASL_AUTHENTICATION_FAILED (58): "
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512. "
        "Check username and password in listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config, and that ZooKeeper has "
        "this user, with SCRAM-SHA-512"
    )


@pytest.mark.clients
def test_a_broker_that_nobody_trusts_is_not_talked_to(
    broker: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, ports = broker
    assert cluster_id(settings(tmp_path, Authority()), ports, "SSL") is PeerFailure.DISCONNECTED
    (line,) = warnings(caplog)
    assert line == (
        f"no TLS with broker 7 at 127.0.0.1:{ports['SSL']} (listener SSL): certificate signature failure. At this "
        "broker, ssl.truststore.location of listener SSL needs the authority that signed the certificate of that broker"
    )


@pytest.mark.clients
def test_a_broker_that_does_not_trust_this_one_is_named(
    broker: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With TLS 1.3 it closes the connection after it is made. One that is closed once is no news: brokers end."""
    own, ports = broker
    key = Authority().certify("broker").write_pem(tmp_path / "stranger.pem")
    stranger = [*own, f"ssl.keystore.location={key}", "inter.broker.listener.name=SSL"]

    async def main() -> list[list[str]]:
        peers = SocketPeers(config(*stranger), asyncio.get_running_loop())
        peer = peers.connect(Endpoint("SSL", "SSL", "127.0.0.1", ports["SSL"]), "me", name="broker 7")
        answers, said = Answers(), []
        for count in (1, 2, 3):
            send(peer, b"a", answers)
            assert isinstance((await answers.wait(count))[-1], PeerFailure)
            said.append(warnings(caplog))
        peers.close()
        return said

    first, second, third = on_loop(main())
    assert first == []
    assert second == third
    (line,) = second
    assert line == (
        f"broker 7 at 127.0.0.1:{ports['SSL']} (listener SSL) closes connections with TLS before its first answer. If "
        "that broker refuses the certificate of this one: ssl.truststore.location of listener SSL needs, at that "
        "broker, the authority that signed ssl.keystore.location of this one"
    )


@pytest.mark.clients
def test_a_port_without_tls_is_named(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    own, ports = broker
    assert cluster_id(own, {"SSL": ports["PLAINTEXT"]}, "SSL") is PeerFailure.DISCONNECTED
    (line,) = warnings(caplog)
    assert line.startswith(f"no TLS with broker 7 at 127.0.0.1:{ports['PLAINTEXT']} (listener SSL): ")
    assert line.endswith("listener SSL needs the same protocol at all brokers")


@pytest.mark.clients
def test_a_broker_under_a_name_that_its_certificate_lacks_is_not_talked_to(
    broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert cluster_id(*broker, "SSL", host="localhost") is PeerFailure.DISCONNECTED
    (line,) = warnings(caplog)
    assert "That broker has a certificate for other names: give it one for localhost" in line
    assert isinstance(cluster_id(*broker, "SSL", "ssl.endpoint.identification.algorithm=", host="localhost"), str)


@pytest.mark.parametrize(
    ("mistaken", "says"),
    [
        (["inter.broker.listener.name=INSIDE"], "INSIDE is not one of the listeners"),
        (["security.inter.broker.protocol=SSL"], "SSL is not one of the listeners"),
        (
            ["inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=PLAINTEXT"],
            "set one of them",
        ),
        (
            ["listeners=SASL_PLAINTEXT://:0", "security.inter.broker.protocol=SASL_PLAINTEXT"],
            "sasl.mechanism.inter.broker.protocol: GSSAPI is not supported",
        ),
        (
            [
                "listeners=SASL_PLAINTEXT://:0",
                "security.inter.broker.protocol=SASL_PLAINTEXT",
                "sasl.mechanism.inter.broker.protocol=PLAIN",
            ],
            "set listener.name.sasl_plaintext.plain.sasl.jaas.config",
        ),
        (
            [
                "listeners=SASL_PLAINTEXT://:0",
                "security.inter.broker.protocol=SASL_PLAINTEXT",
                "sasl.mechanism.inter.broker.protocol=PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config=PlainLoginModule required user_a=b;",
            ],
            "add username and password",
        ),
    ],
)
def test_settings_that_cannot_be_used(mistaken: list[str], says: str) -> None:
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(ConfigError, match=says):
            SocketPeers(config(*mistaken), loop)
    finally:
        loop.close()


MODULES = "org.apache.kafka.common.security"


@pytest.mark.parametrize(
    ("mechanism", "login", "who", "check"),
    [
        (
            "PLAIN",
            f'{MODULES}.plain.PlainLoginModule required username="b" password="hush" user_b="other";',
            "as User:b",
            "username, password and user_b in {}",
        ),
        (
            "SCRAM-SHA-256",
            f'{MODULES}.scram.ScramLoginModule required username="b" password="hush";',
            "as User:b",
            "username and password in {}, and that ZooKeeper has this user, with SCRAM-SHA-256",
        ),
        (
            "OAUTHBEARER",
            f'{MODULES}.oauthbearer.OAuthBearerLoginModule required clientId="b" clientSecret="hush";',
            "with a token",
            "sasl.oauthbearer.token.endpoint.url and {}",
        ),
    ],
)
def test_what_there_is_to_check_if_the_login_is_refused(mechanism: str, login: str, who: str, check: str) -> None:
    entry = f"listener.name.inside.{mechanism.lower()}.sasl.jaas.config"
    own = config(
        "listeners=CLIENTS://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map=CLIENTS:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name=INSIDE",
        f"sasl.enabled.mechanisms={mechanism}",
        f"sasl.mechanism.inter.broker.protocol={mechanism}",
        "sasl.oauthbearer.token.endpoint.url=file:///token",
        f"{entry}={login}",
    )
    assert PeerSecurity(own).login_in_words == (who, check.format(entry))
