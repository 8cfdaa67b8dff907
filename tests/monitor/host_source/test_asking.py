"""Asking an agent: an answer, or one sentence about why there is none."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from pathlib import Path

import pytest

from highwater.common.ports import free_ports
from highwater.monitor.host_source import asking
from highwater.monitor.host_source.asking import AskError, ask
from highwater.monitor.host_source.settings import HostSettings
from tests.broker.server.certificates import Authority
from tests.monitor.agents import http, listening, says, silent

TOKEN = "0123456789abcdef"  # noqa: S105 - of this test


def asked(port: int, timeout_s: float = 30.0, tls: ssl.SSLContext | None = None) -> bytes:
    return asyncio.run(ask(HostSettings("h", "127.0.0.1", port, TOKEN, tls), timeout_s))


def test_the_body_of_an_answer() -> None:
    with listening(says(http(b"{}"))) as port:
        assert asked(port) == b"{}"


def test_the_token_is_sent_and_not_shown() -> None:
    requests = []

    def talk(client: socket.socket) -> None:
        requests.append(client.recv(4096))
        client.sendall(http(b""))

    with listening(talk) as port:
        asked(port)
    assert requests[0].startswith(b"GET /host HTTP/1.0\r\n")
    assert b"Authorization: Bearer 0123456789abcdef\r\n" in requests[0]
    assert TOKEN not in repr(HostSettings("h", "127.0.0.1", 1, TOKEN))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http(b"", "401 Unauthorized"), "its agent wants another token: see token_file"),
        (http(b"", "404 Not Found"), "answers with status 404: is there an agent of Highwater at this address"),
        (http(b"", "503 x"), "answers with status 503"),
        (http(b"{}", length=10), "its answer breaks off"),
        (b"HTTP/1.1 200 OK\r\nContent-", "speaks no HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "speaks no HTTP"),
        (b"", "closes without an answer .or it wants TLS"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + bytes(5 << 20), "is larger than 4 MiB"),
    ],
)
def test_what_is_no_answer(answer: bytes, said: str) -> None:
    with listening(says(answer)) as port, pytest.raises(AskError, match=said):
        asked(port)


def test_an_agent_that_is_not_there() -> None:
    (port,) = free_ports(1)
    with pytest.raises(AskError, match=r"its agent cannot be reached: .*(refused|Connect)"):
        asked(port)


def test_an_agent_that_never_answers() -> None:
    ended = threading.Event()
    with listening(silent(ended)) as port:
        try:
            with pytest.raises(AskError, match=r"no answer within 0.2 s"):
                asked(port, 0.2)
        finally:
            ended.set()


def test_an_answer_that_drips_is_cut_too() -> None:
    ended = threading.Event()

    def drip(client: socket.socket) -> None:
        while not ended.wait(0.01):
            client.sendall(b"x")

    with listening(drip) as port:
        try:
            with pytest.raises(AskError, match=r"no answer within 0.5 s"):
                asked(port, 0.5)
        finally:
            ended.set()


def test_tls(tmp_path: Path) -> None:
    authority = Authority()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.certify("agent").write_pem(tmp_path / "agent.pem"))
    with listening(says(http(b"{}")), server) as port:
        assert asked(port, tls=ssl.create_default_context(cadata=authority.pem)) == b"{}"
        with pytest.raises(AskError, match=r"its certificate is not trusted: .*; give the authority in ca"):
            asked(port, tls=ssl.create_default_context(cadata=Authority().pem))
        with pytest.raises(AskError, match=r"closes without an answer|cannot be reached|speaks no HTTP"):
            asked(port)
    with (
        listening(lambda client: client.sendall(http(b""))) as port,
        pytest.raises(AskError, match=r"TLS fails|cannot be reached"),
    ):
        asked(port, tls=ssl.create_default_context(cadata=authority.pem))


def test_the_path_is_that_of_the_agent() -> None:
    from highwater.bench.host_agent import serving

    assert asking.ANSWER_PATH == serving.ANSWER_PATH
