"""Serves /metrics over HTTP on the event loop, with no more of HTTP than a scraper needs.

One request per connection, a bounded head, a deadline, few connections at once: whoever comes here can neither hold
the broker's memory nor its loop. The page is rendered piece by piece, with the loop free in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final

from highwater.broker.handlers.reply import Listener
from highwater.broker.metrics.exposition import CONTENT_TYPE
from highwater.broker.server.listeners import BoundListener

_logger = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 8192
MAX_CONNECTIONS: Final = 16
DEADLINE_S: Final = 10.0
"""For one connection, from its first byte to the last of the answer."""
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,16}) (\S+) HTTP/1\.[01]\r\n")


def endpoint_url(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"http://{host}:{listener.port}/metrics"


class MetricsEndpoint:
    def __init__(self, render: Callable[[], Iterator[str]]) -> None:
        """`render` gives the page in pieces, each of which takes little time."""
        self._render = render
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, bound: BoundListener) -> None:
        for listening in bound.sockets:
            self._servers.append(await asyncio.start_server(self._on_connection, sock=listening, limit=MAX_HEAD_BYTES))

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
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass  # it went away, or is too slow; it is cut below
        except Exception:
            _logger.exception("a bug in the broker made a scrape of the metrics fail")
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
        if method not in (b"GET", b"HEAD"):
            await _send(writer, HTTPStatus.METHOD_NOT_ALLOWED, headers="Allow: GET, HEAD\r\n")
        elif path != b"/metrics":
            await _send(writer, HTTPStatus.NOT_FOUND, "the metrics are at /metrics\n")
        else:
            pieces = []
            for piece in self._render():
                pieces.append(piece)
                await asyncio.sleep(0)
            await _send(writer, HTTPStatus.OK, "".join(pieces), CONTENT_TYPE, with_body=method == b"GET")


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
        f"Content-Length: {len(content)}\r\nConnection: close\r\n{headers}\r\n"
    )
    writer.write(head.encode() + (content if with_body else b""))
    with contextlib.suppress(ConnectionError):
        await writer.drain()
