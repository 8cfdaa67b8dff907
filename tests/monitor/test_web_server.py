"""The sockets of the monitor's pages."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.common.listen_address import ListenAddress, listening_at
from highwater.common.listener_rules import Limits, descriptors
from highwater.monitor import web_server
from highwater.monitor.config import WebConfig
from highwater.monitor.model import Snapshot
from highwater.monitor.serving import Monitor
from highwater.monitor.web_server import Message, Receive, Send, metrics_app, server_of

HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_A_FORM = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf"


@pytest.mark.parametrize(
    ("headers", "token", "status"),
    [
        ([(b"host", b"localhost:9645")], None, 200),
        ([(b"host", b"[::1]:9645")], None, 200),
        ([(b"host", b"evil.example")], None, 421),
        ([], None, 421),
        ([(b"host", b"monitor.example"), (b"authorization", b"Bearer token")], "token", 200),
        ([(b"host", b"localhost")], "token", 401),
    ],
)
def test_metrics_without_a_token_are_for_this_host_by_its_own_names(
    headers: list[tuple[bytes, bytes]], token: str | None, status: int
) -> None:
    async def nothing() -> Message:
        return {}

    async def snapshot(number: int) -> Snapshot:
        raise AssertionError(number)

    async def main() -> None:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        monitor = Monitor(cast(Any, SimpleNamespace(snapshot=snapshot)), tick_s=1)
        scope = {"type": "http", "path": "/metrics", "method": "GET", "headers": headers}
        await metrics_app(monitor, has_partitions=False, token=token)(scope, nothing, send)
        assert sent[0]["status"] == status

    asyncio.run(main())


async def page(scope: Message, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http"
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def run(limits: Limits, monkeypatch: pytest.MonkeyPatch, scenario: Callable[[tuple[str, int]], None]) -> None:
    """A scenario in a thread, beside a server of the monitor."""
    monkeypatch.setattr(web_server, "limits", lambda: limits)

    async def main() -> None:
        with listening_at(ListenAddress("127.0.0.1", 0), "--listen") as listening:
            server = server_of(page, WebConfig())
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            async with asyncio.timeout(60):
                await asyncio.to_thread(scenario, listening.getsockname())
            server.should_exit = True
            await serving

    asyncio.run(main())


def connected(stack: ExitStack, address: tuple[str, int], data: bytes) -> socket.socket:
    client = stack.enter_context(socket.create_connection(address, 60))
    client.sendall(data)
    return client


@pytest.mark.parametrize("data", [b"", HALF, HALF_A_FORM])
def test_requests_that_never_end_are_cut_in_time(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(address: tuple[str, int]) -> None:
        with ExitStack() as stack:
            assert connected(stack, address, data).recv(1) == b""
            again = connected(stack, address, WHOLE)
            assert again.recv(4096).startswith(b"HTTP/1.1 200")
            if data:
                # The deadline does not begin anew with each byte.
                again.sendall(data)
                while again.recv(4096):
                    pass

    run(Limits(10, 10, head_ms=200), monkeypatch, scenario)


def test_a_crowd_of_half_requests_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(address: tuple[str, int]) -> None:
        with ExitStack() as stack:
            for _ in range(50):
                connected(stack, address, HALF)
            for _ in range(5):
                assert connected(stack, address, WHOLE).recv(4096).startswith(b"HTTP/1.1 200")

    run(Limits(10, 8, head_ms=3_600_000), monkeypatch, scenario)


def test_several_requests_on_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(address: tuple[str, int]) -> None:
        with ExitStack() as stack:
            client = connected(stack, address, WHOLE + WHOLE)
            answers = b""
            while answers.count(b"HTTP/1.1 200") < 2 or not answers.endswith(b"ok"):
                answers += client.recv(4096)
            client.sendall(WHOLE)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")

    run(Limits(10, 8, head_ms=3_600_000), monkeypatch, scenario)


def test_most_descriptors_are_left_for_ticks() -> None:
    assert web_server.limits().most <= descriptors().connections // 2


def test_no_piece_of_an_answer_waits_for_the_one_before() -> None:
    with (
        listening_at(ListenAddress("127.0.0.1", 0), "--listen") as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
