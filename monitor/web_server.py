"""Serves the pages and /metrics with uvicorn, on sockets that are bound before anything starts."""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from highwater.common.errors import UsageError
from highwater.common.listen_address import ListenAddress
from highwater.common.listener_rules import Limits, address_key, descriptors
from highwater.common.listening import Listening, Place
from highwater.monitor.config import WebConfig
from highwater.monitor.metrics_page import CONTENT_TYPE, metrics_page
from highwater.monitor.serving import Monitor
from highwater.monitor.web.request_checks import is_our_host
from highwater.monitor.web.site import LOOPBACK_NAMES

METRICS_PATH: Final = "/metrics"
MOST_CONNECTIONS: Final = 512
MOST_PER_ADDRESS: Final = 64
HEAD_MS: Final = 10_000
_LOG: Final = logging.getLogger(__name__)
_BEARER: Final = b"Bearer "
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def address_of(listening: socket.socket) -> ListenAddress:
    return ListenAddress(*listening.getsockname()[:2])


def metrics_app(monitor: Monitor, *, has_partitions: bool, token: str | None) -> App:
    """An ASGI app that has the page of metrics alone; with a token, for who sends it."""
    wanted = None if token is None else _BEARER + token.encode()

    async def app(scope: Message, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, text = 200, ""
        if scope["path"] != METRICS_PATH:
            status, text = 404, f"only {METRICS_PATH} is here\n"
        elif scope["method"] not in ("GET", "HEAD"):
            status, text = 405, "only GET\n"
        elif wanted is None and not is_our_host(_header(scope, b"host").decode("latin-1"), LOOPBACK_NAMES):
            status, text = 421, "without a token this page is for this host alone, by localhost or its address\n"
        elif wanted is not None and not hmac.compare_digest(_header(scope, b"authorization"), wanted):
            status, text = 401, "a bearer token is needed\n"
        headers = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"cache-control", b"no-store"),
            *([(b"www-authenticate", b"Bearer")] if status == 401 else []),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if status == 200 and scope["method"] == "GET":
            now_ms = time.time_ns() // 1_000_000
            pieces = metrics_page(monitor.view(), monitor.state(), now_ms, has_partitions=has_partitions)
            # Of a large cluster each takes long: pages are answered meanwhile.
            while piece := await asyncio.to_thread(next, pieces, ""):
                await send({"type": "http.response.body", "body": piece.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else text.encode()})

    return app


def with_metrics(pages: App, metrics: App) -> App:
    """The pages, and /metrics beside them: exactly this path, and everything else goes to the guard of the pages."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        is_metrics = scope["type"] == "http" and scope["path"] == METRICS_PATH
        await (metrics if is_metrics else pages)(scope, receive, send)

    return app


def _header(scope: Message, wanted: bytes) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == wanted), b"")


def limits() -> Limits:
    """Most descriptors stay for ticks: connections to brokers and agents, the history."""
    return Limits(min(MOST_CONNECTIONS, descriptors().connections // 2), MOST_PER_ADDRESS, HEAD_MS)


class _Protocol(H11Protocol):
    """Reports to its place when a whole request is there, body included, and when the request has its answer."""

    place: Place
    _is_known = False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._report()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._report()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.place.left()

    def _report(self) -> None:
        is_known = self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete)
        if is_known and not self._is_known:
            self.place.known()
        elif self._is_known and not is_known:
            self.place.waits()
        self._is_known = is_known


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, proxies: frozenset[str]) -> None:
        super().__init__(config)
        self._proxies = proxies

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen in place of uvicorn, which accepts connections as long as there are descriptors."""
        await self.lifespan.startup()
        listening = Listening(sockets or (), limits(), _LOG, self._protocol, tls=self.config.ssl, own=self._proxies)
        self.servers = [listening]  # type: ignore[list-item]  # it is closed and waited for as asyncio's are
        self.started = True

    def _protocol(self, place: Place) -> _Protocol:
        protocol = _Protocol(self.config, self.server_state, self.lifespan.state)
        protocol.place = place
        return protocol

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The process has its own handlers, because it ends more than this server."""
        yield


def server_of(app: App, web: WebConfig) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=_Protocol,
        # Its warnings are about requests of strangers, one line for each.
        log_level="error",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=bool(web.proxies),
        forwarded_allow_ips=list(web.proxies),
        ssl_certfile=str(web.tls_certificate) if web.tls_certificate is not None else None,
        ssl_keyfile=str(web.tls_key) if web.tls_key is not None else None,
        timeout_graceful_shutdown=5,
    )
    try:
        config.load()
    except OSError as error:  # of the certificate or its key
        raise UsageError(f"TLS: cannot use the certificate or its key: {error}") from None
    return _Server(config, frozenset(map(address_key, web.proxies)))
