"""The small HTTP endpoint with a token and with TLS. A broker's tests ask it well and badly without them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from highwater.common.http_endpoint import HttpEndpoint, Page
from tests.broker.server.certificates import Authority

TOKEN = "0123456789abcdef"  # noqa: S105 - of this test


@contextmanager
def served(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A page that needs a token; its port."""

    async def page() -> str:
        return "secret\n"

    loop = asyncio.new_event_loop()
    endpoint = HttpEndpoint({"/page": Page(page)}, "only /page", TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(endpoint.start([listening], tls), loop).result(60)
            yield listening.getsockname()[1]
        finally:
            asyncio.run_coroutine_threadsafe(ended(endpoint), loop).result(60)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def ended(endpoint: HttpEndpoint) -> None:
    endpoint.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*tasks, return_exceptions=True)


def exchange(port: int, request: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        client = plain if tls is None else tls.wrap_socket(plain, server_hostname="127.0.0.1")
        with client:
            client.sendall(request)
            answer = b""
            while piece := client.recv(65536):
                answer += piece
            return answer


@pytest.mark.parametrize(
    ("path", "authorization", "status"),
    [
        ("/page", b"Authorization: Bearer 0123456789abcdef\r\n", b"200"),
        ("/page", b"authorization:Bearer 0123456789abcdef \r\n", b"200"),
        ("/page", b"", b"401"),
        ("/page", b"Authorization: Bearer \r\n", b"401"),
        ("/page", b"Authorization: Bearer 0123456789abcdeF\r\n", b"401"),
        ("/page", b"Authorization: Basic 0123456789abcdef\r\n", b"401"),
        ("/page", b"X: y Authorization: Bearer 0123456789abcdef\r\n", b"401"),
        ("/page", b"X-Authorization: Bearer 0123456789abcdef\r\n", b"401"),
        ("/page", b"Authorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer x\r\n", b"401"),
        ("/other", b"", b"401"),
        ("/other", b"Authorization: Bearer 0123456789abcdef\r\n", b"404"),
        ("//page", b"Authorization: Bearer 0123456789abcdef\r\n", b"404"),
    ],
)
def test_only_who_sends_the_token_is_answered(path: str, authorization: bytes, status: bytes) -> None:
    with served() as port:
        request = b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (path.encode(), authorization)
        head, _, body = exchange(port, request).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert (b"secret" in body) == (status == b"200")


def test_over_tls(tmp_path: Path) -> None:
    authority = Authority()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.certify("agent").write_pem(tmp_path / "agent.pem"))
    client = ssl.create_default_context(cadata=authority.pem)
    request = b"GET /page HTTP/1.1\r\nAuthorization: Bearer %s\r\n\r\n" % TOKEN.encode()
    with served(server) as port:
        assert exchange(port, request, client).endswith(b"secret\n")
        assert b"secret" not in _plainly(port, request)


def _plainly(port: int, request: bytes) -> bytes:
    try:
        return exchange(port, request)
    except ConnectionError:
        return b""
