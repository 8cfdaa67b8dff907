"""Serves a few pages of text over HTTP on an event loop, with no more of HTTP than a scraper needs.

One request per connection, a bounded head, a deadline, few connections at once: whoever comes here can neither hold
memory nor the loop, nor keep others out by silence.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import ipaddress
import logging
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from .errors import UsageError
from .listener_rules import Limits
from .listening import Listening, Place

_logger = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 8192
MAX_BODY_BYTES: Final = 1 << 20
LIMITS: Final = Limits(most=64, most_per_address=32, head_ms=5000)
DEADLINE_S: Final = 10.0
"""For one connection, from its first byte to the last of the answer."""
PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,16}) (\S+) HTTP/1\.[01]\r\n")


@dataclass(frozen=True, slots=True)
class Page:
    render: Callable[[], Awaitable[str]]
    """Must leave the loop free while it takes time."""
    content_type: str = PROMETHEUS_TEXT
    changes: Mapping[bytes, Callable[[str], None]] = field(default_factory=dict)
    """What else than GET may be done, by method. Gets the body of the request, and may raise UsageError."""


class HttpEndpoint:
    def __init__(
        self, pages: Mapping[str, Page], hint: str, token: str | None = None, host_names: Iterable[str] = ()
    ) -> None:
        """pages: by path. hint: what is where, for who asks for another path.

        token: if it is given, every request must send it (`Authorization: Bearer TOKEN`), also those for other paths.
        host_names: what browsers may call this endpoint where there is no token, beside addresses and this host's name.
        """
        self._pages = {path.encode(): page for path, page in pages.items()}
        self._hint = hint
        self._authorization = None if token is None else b"Bearer " + token.encode()
        self._host_names = {"localhost", socket.gethostname().lower(), *(name.lower() for name in host_names)}
        self._listening: Listening | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, sockets: Iterable[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        self._listening = Listening(sockets, LIMITS, _logger, self._protocol, tls=tls)

    def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for task in self._connections:
            task.cancel()

    def _protocol(self, place: Place) -> asyncio.Protocol:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = loop.create_task(self._serve(reader, writer, place))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        loop = asyncio.get_running_loop()
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(MAX_HEAD_BYTES, loop), connected, loop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Place) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._answer(reader, writer, place)
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # it went away, or is too slow; it is cut below
        except Exception:
            _logger.exception("a bug made an answer over HTTP fail")
        finally:
            writer.transport.abort()
            place.left()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Place) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await _send(writer, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        place.known()
        request = _REQUEST_LINE.match(head)
        if request is None:
            await _send(writer, HTTPStatus.BAD_REQUEST)
            return
        method, path = request[1], request[2].partition(b"?")[0]
        page = self._pages.get(path)
        if not await self._is_called_so(head):
            text = f"ask by an address of this host, or by one of its names: {', '.join(sorted(self._host_names))}\n"
            await _send(writer, HTTPStatus.MISDIRECTED_REQUEST, text)
        elif not self._may_read(head):
            text = "send the token: Authorization: Bearer TOKEN\n"
            await _send(writer, HTTPStatus.UNAUTHORIZED, text, headers="WWW-Authenticate: Bearer\r\n")
        elif page is not None and method in page.changes:
            await _change(reader, writer, head, page.changes[method])
        elif method not in (b"GET", b"HEAD"):
            allowed = ", ".join(["GET", "HEAD", *(name.decode() for name in ({} if page is None else page.changes))])
            await _send(writer, HTTPStatus.METHOD_NOT_ALLOWED, headers=f"Allow: {allowed}\r\n")
        elif page is None:
            await _send(writer, HTTPStatus.NOT_FOUND, f"{self._hint}\n")
        else:
            await _send(writer, HTTPStatus.OK, await page.render(), page.content_type, with_body=method == b"GET")

    async def _is_called_so(self, head: bytes) -> bool:
        """False for a name that somebody else made point to our address (DNS rebinding); browsers send no token."""
        if self._authorization is not None:
            return True
        names = {host_name(host.decode("latin-1")) for host in _fields(head, b"host")}
        names = {name for name in names if not is_address(name)} - self._host_names
        if names:
            # The resolver may take long, and is asked once.
            self._host_names.add((await asyncio.to_thread(_full_name)).lower())
        return names <= self._host_names

    def _may_read(self, head: bytes) -> bool:
        if self._authorization is None:
            return True
        # Two of them are ambiguous to whoever stands in between.
        sent = _fields(head, b"authorization")
        return len(sent) == 1 and hmac.compare_digest(sent[0], self._authorization)


async def _change(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes, change: Callable[[str], None]
) -> None:
    lengths = _fields(head, b"content-length") or [b"0"]
    if len(lengths) != 1 or not lengths[0].isdigit() or _fields(head, b"transfer-encoding"):
        await _send(writer, HTTPStatus.LENGTH_REQUIRED)
    elif len(lengths[0]) > 9 or int(lengths[0]) > MAX_BODY_BYTES:
        await _send(writer, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    else:
        body = await reader.readexactly(int(lengths[0]))
        try:
            change(body.decode())
        except (UsageError, UnicodeDecodeError) as error:
            await _send(writer, HTTPStatus.BAD_REQUEST, f"{error}\n")
        else:
            await _send(writer, HTTPStatus.OK)


def _fields(head: bytes, name: bytes) -> list[bytes]:
    """The values of a header, each time that it is there. `name` has small letters."""
    fields = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return [value.strip(b" \t") for field, colon, value in fields if colon and field.lower() == name]


def host_name(host: str) -> str:
    """`host` without its port: `[::1]:8080` -> `::1`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@functools.cache
def _full_name() -> str:
    return socket.getfqdn()


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
