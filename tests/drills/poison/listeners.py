"""Listeners as decoders: bytes go into a socket, and a fault is a thread that ended, or a bug that was logged."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import socket
import threading
from typing import Final

from highwater.common.http_endpoint import HttpEndpoint, Page
from highwater.spark_loadgen.channel import DriverChannel

HTTP_HEADS: Final = (
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n",
    b"HEAD /?a=b HTTP/1.0\r\nHost: [::1]:9100\r\n\r\n",
)
CHANNEL_LINES: Final = (
    b'{"token": "x", "kind": "hello", "task": 1, "host": "a", "pid": 5}\n',
    b'{"kind": "clock"}\n{"kind": "second", "values": [1, 2]}\n',
)
_TIMEOUT_S: Final = 30


class _Bugs(logging.Handler):
    """Keeps what is logged with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.getMessage()}: {record.exc_info[1] if record.exc_info else ''}")


@functools.cache
def _bugs() -> _Bugs:
    handler = _Bugs()
    logging.getLogger("highwater").addHandler(handler)
    logging.getLogger("asyncio").addHandler(handler)
    return handler


def _exchange(address: tuple[str, int], *pieces: bytes) -> bytes:
    """What comes back until the other side closes; nothing if it resets."""
    found = b""
    with socket.create_connection(address, timeout=_TIMEOUT_S) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 16):
                found += data
        except (ConnectionError, OSError):
            return found
    return found


def _raise_bugs() -> None:
    if bugs := _bugs().found:
        raise AssertionError(bugs.pop())


@functools.cache
def _http_addresses() -> tuple[tuple[str, int], ...]:
    """Of an endpoint with a token, and of one without."""

    async def render() -> str:
        return "up 1\n"

    async def serve() -> None:
        await HttpEndpoint({"/metrics": Page(render)}, "GET /metrics", token="secret").start([listener])  # noqa: S106
        await HttpEndpoint({"/metrics": Page(render)}, "GET /metrics").start([without_token])
        await asyncio.Event().wait()

    listener, without_token = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    for each in (listener, without_token):
        each.setblocking(False)
    threading.Thread(target=asyncio.run, args=(serve(),), daemon=True).start()
    return listener.getsockname(), without_token.getsockname()


def read_http(data: bytes) -> None:
    """Each endpoint answers with HTTP, or closes."""
    for address in _http_addresses():
        answer = _exchange(address, data)
        assert answer.startswith(b"HTTP/1.1 ") or not answer, answer[:80]
    _raise_bugs()


@functools.cache
def _channel() -> DriverChannel:
    channel = DriverChannel("127.0.0.1", "127.0.0.1")
    channel.__enter__()
    return channel


def read_channel(data: bytes) -> None:
    """First from a stranger, then behind the hello of a task. After both the channel takes another task's hello."""
    channel = _channel()
    hello = json.dumps({"token": channel.token, "kind": "hello", "task": 1}).encode() + b"\n"
    _exchange(channel.address, data)
    _exchange(channel.address, hello, data)
    channel.receive()
    _exchange(channel.address, hello)
    assert any(message.get("kind") == "hello" for _, message in channel.receive()), "the channel takes no task any more"
    _raise_bugs()
