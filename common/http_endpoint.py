"""Serves a few pages of text over HTTP on an event loop, with no more of HTTP than a scraper needs.

One request per connection, a bounded head, a deadline, few connections at once: whoever comes here can neither hold
memory nor the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

_logger = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 8192
MAX_CONNECTIONS: Final = 16
DEADLINE_S: Final = 10.0
"""For one connection, from its first byte to the last of the answer."""
PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,16}) (\S+) HTTP/1\.[01]\r\n")


@dataclass(frozen=True, slots=True)
class Page:
    render: Callable[[], Awaitable[str]]
    """Must leave the loop free while it takes time."""
    content_type: str = PROMETHEUS_TEXT


class HttpEndpoint:
    def __init__(self, pages: Mapping[str, Page], hint: str, token: str | None = None) -> None:
        """pages: by path. hint: what is where, for who asks for another path.

        token: if it is given, every request must send it (`Authorization: Bearer TOKEN`), also those for other paths.
        """
        self._pages = {path.encode(): page for path, page in pages.items()}
        self._hint = hint
        self._authorization = None if token is None else b"Bearer " + token.encode()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, sockets: Iterable[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        handshake_s = None if tls is None else DEADLINE_S
        for listening in sockets:
            server = await asyncio.start_server(
                self._on_connection,
                sock=listening,
                limit=MAX_HEAD_BYTES,
                ssl=tls,
                ssl_handshake_timeout=handshake_s,
            )
            self._servers.append(server)

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._answer(reader, writer)
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # it went away, or is too slow; it is cut below
        except Exception:
            _logger.exception("a bug made an answer over HTTP fail")
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await _send(writer, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        request = _REQUEST_LINE.match(head)
        if request is None:
            await _send(writer, HTTPStatus.BAD_REQUEST)
            return
        method, path = request[1], request[2].partition(b"?")[0]
        page = self._pages.get(path)
        if not self._may_read(head):
            text = "send the token: Authorization: Bearer TOKEN\n"
            await _send(writer, HTTPStatus.UNAUTHORIZED, text, headers="WWW-Authenticate: Bearer\r\n")
        elif method not in (b"GET", b"HEAD"):
            await _send(writer, HTTPStatus.METHOD_NOT_ALLOWED, headers="Allow: GET, HEAD\r\n")
        elif page is None:
            await _send(writer, HTTPStatus.NOT_FOUND, f"{self._hint}\n")
        else:
            await _send(writer, HTTPStatus.OK, await page.render(), page.content_type, with_body=method == b"GET")

    def _may_read(self, head: bytes) -> bool:
        if self._authorization is None:
            return True
        # Two of them are ambiguous to whoever stands in between.
        sent = _fields(head, b"authorization")
        return len(sent) == 1 and hmac.compare_digest(sent[0], self._authorization)


def _fields(head: bytes, name: bytes) -> list[bytes]:
    """The values of a header, each time that it is there. `name` has small letters."""
    fields = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return [value.strip(b" \t") for field, colon, value in fields if colon and field.lower() == name]


async def _send(
    writer: asyncio.StreamWriter,
    status: HTTPStatus,
    body: str | None = None,
    content_type: str = "text/plain; charset=utf-8",
    *,
    headers: str = "",
    with_body: bool = True,
) -> None:
    content = (f"{status.phrase}\n" if body is None else body).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(content)}\r\nCache-Control: no-store\r\nConnection: close\r\n{headers}\r\n"
    )
    writer.write(head.encode() + (content if with_body else b""))
    with contextlib.suppress(ConnectionError):
        await writer.drain()
