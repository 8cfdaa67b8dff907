"""Connections to other brokers on the event loop: requests out, answers in, TLS and SASL.

state         event                                     next
IDLE          a request                                 CONNECTING
CONNECTING    connected (TLS included)                  READY, or LOGGING_IN where the listener has SASL
LOGGING_IN    the login is complete                     READY: what was asked meanwhile is sent
READY         an answer                                 READY
any           broken, refused, a request's time is up   IDLE: all requests under way are given the failure
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum, auto
from typing import Any, Final, cast

from highwater.broker.cluster.peers import Endpoint, OnBreak, PeerFailure
from highwater.broker.server.peer_refusals import PeerRefusals
from highwater.broker.server.peer_security import PeerSecurity
from highwater.broker.settings.config import BrokerConfig
from highwater.kafka.client.handshake import HandshakeError, Step, is_refusal, login, renewal_s
from highwater.kafka.protocol.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE, api_of
from highwater.kafka.protocol.frame import FrameReceiver, Part, Parts
from highwater.kafka.protocol.primitives import NO_TAGS, Decoder, MalformedRequestError

_logger = logging.getLogger(__name__)

_REQUEST_HEAD: Final = struct.Struct(">ihhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_MAX_ANSWER_BYTES: Final = 2**31 - 1
_LOGIN_VERSIONS: Final = {SASL_HANDSHAKE: (1, 1), SASL_AUTHENTICATE: (2, 2)}

Then = Callable[[memoryview | PeerFailure], None]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _State(Enum):
    IDLE = auto()
    CONNECTING = auto()
    LOGGING_IN = auto()
    READY = auto()


class _Request:
    """One that waits for its answer, or to be sent."""

    __slots__ = ("body", "correlation_id", "has_flexible_answer", "then", "timer")

    def __init__(
        self, correlation_id: int, has_flexible_answer: bool, body: list[Part], then: Then, timer: asyncio.TimerHandle
    ) -> None:
        self.correlation_id = correlation_id
        self.has_flexible_answer = has_flexible_answer
        self.body = body
        self.then = then
        self.timer = timer


class SocketPeers:
    """Implements highwater.broker.cluster.peers.Peers."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        """Raises ConfigError for settings of the inter-broker listener that cannot be used."""
        self._loop = loop
        self.security = PeerSecurity(config)
        # Kafka's default of 64 KiB would slow a follower down; a kernel that is left alone finds what a path needs.
        name = "replica.socket.receive.buffer.bytes"
        self._receive_buffer_bytes = config.integer(name) if config.is_set(name) else -1
        self._refusals = PeerRefusals()
        self._peers: set[_SocketPeer] = set()

    def connect(
        self, endpoint: Endpoint, client_id: str, *, name: str = "a broker", on_break: OnBreak | None = None
    ) -> _SocketPeer:
        peer = _SocketPeer(
            self._loop,
            endpoint,
            client_id,
            self.security,
            self._receive_buffer_bytes,
            self._refusals,
            name=name,
            on_break=on_break,
            on_closed=self._peers.discard,
        )
        self._peers.add(peer)
        return peer

    def close(self) -> None:
        """Break all connections; nobody is called back any more."""
        for peer in tuple(self._peers):
            peer.close()


class _SocketPeer:
    """Implements highwater.broker.cluster.peers.Peer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint,
        client_id: str,
        security: PeerSecurity,
        receive_buffer_bytes: int,
        refusals: PeerRefusals,
        *,
        name: str,
        on_break: OnBreak | None,
        on_closed: Callable[[_SocketPeer], None],
    ) -> None:
        self._loop = loop
        self._endpoint = endpoint
        self._client_id = client_id.encode()
        self._security = security
        self._receive_buffer_bytes = receive_buffer_bytes
        self._refusals = refusals
        self._name = name
        self._unanswered = 0
        """Connections in a row that the other end closed without an answer; -1 while the present one has had one."""
        self._on_break = on_break
        self._on_closed = on_closed
        self._is_closed = False
        self._state = _State.IDLE
        self._connecting: asyncio.Task[None] | None = None
        self._connection: _Connection | None = None
        self._login: Generator[Step, Any, int] | None = None
        self._logging_in: asyncio.Task[None] | None = None
        self._renew_at_s = float("inf")
        self._correlation_id = 0
        self._unsent: deque[_Request] = deque()
        self._under_way: deque[_Request] = deque()

    # What code below the server calls

    def send(self, api_key: int, version: int, body: Parts, then: Then, *, timeout_ms: int) -> None:
        if self._is_closed:
            raise RuntimeError("the peer is closed")
        timer = self._loop.call_later(timeout_ms / 1000, self._time_is_up)
        request = self._request(api_key, version, body, then, timer)
        if self._state is _State.READY and not self._under_way and time.monotonic() >= self._renew_at_s:
            self._disconnect()
        if self._state is _State.READY:
            self._write(request)
            return
        self._unsent.append(request)
        if self._state is _State.IDLE:
            self._state = _State.CONNECTING
            self._connecting = self._loop.create_task(self._connect())

    def close(self) -> None:
        self._is_closed = True
        for request in (*self._under_way, *self._unsent):
            request.timer.cancel()
        self._under_way.clear()
        self._unsent.clear()
        self._disconnect()
        self._on_closed(self)

    # Requests

    def _request(self, api_key: int, version: int, body: Parts, then: Then, timer: asyncio.TimerHandle) -> _Request:
        is_flexible = api_of(api_key).is_flexible(version)
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        client_id = self._client_id
        tags = NO_TAGS if is_flexible else b""
        size = _REQUEST_HEAD.size - 4 + len(client_id) + len(tags) + sum(map(len, body))
        head = _REQUEST_HEAD.pack(size, api_key, version, correlation_id, len(client_id)) + client_id + tags
        return _Request(correlation_id, is_flexible, [head, *body], then, timer)

    def _write(self, request: _Request) -> None:
        assert self._connection is not None
        self._under_way.append(request)
        self._connection.transport.writelines(request.body)
        request.body = []

    def answered(self, frame: memoryview) -> None:
        """The connection received a whole frame. Raises MalformedRequestError for one that answers nothing."""
        request = self._under_way.popleft() if self._under_way else None
        if request is None or len(frame) < 4 or _CORRELATION_ID.unpack_from(frame)[0] != request.correlation_id:
            if request is not None:
                self._under_way.appendleft(request)
            raise MalformedRequestError("an answer to nothing that was asked")
        self._unanswered = -1
        request.timer.cancel()
        position = _CORRELATION_ID.size
        if request.has_flexible_answer:
            header = Decoder(frame, position, flexible=True)
            header.skip_tags()
            position = header.position
        request.then(frame[position:])

    def _time_is_up(self) -> None:
        self._fail(PeerFailure.TIMED_OUT)

    def _fail(self, failure: PeerFailure) -> None:
        """Break the connection, if there is one, and fail all pending requests."""
        waiting = (*self._under_way, *self._unsent)
        self._under_way.clear()
        self._unsent.clear()
        stood = self._state is _State.READY
        self._disconnect()
        for request in waiting:
            request.timer.cancel()
        for request in waiting:
            if self._is_closed:
                return
            request.then(failure)
        if stood and self._on_break is not None and not self._is_closed:
            self._on_break(failure)

    def _disconnect(self) -> None:
        self._state = _State.IDLE
        self._login = None
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    # Connecting

    async def _connect(self) -> None:
        try:
            connection = await self._open_connection()
        except ConnectionRefusedError:
            self._connecting = None
            self._fail(PeerFailure.REFUSED)
        except OSError as error:
            _logger.debug("no connection to %s:%d: %s", self._endpoint.host, self._endpoint.port, error)
            self._connecting = None
            self._fail(PeerFailure.DISCONNECTED)
        else:
            self._connecting = None
            self._connection = connection
            connection.peer = self
            if connection.is_lost:
                self._tell_of_tls(connection.error)
                self._fail(PeerFailure.DISCONNECTED)
            elif self._endpoint.has_sasl:
                self._state = _State.LOGGING_IN
                self._login = login(self._security.credential(self._endpoint), _LOGIN_VERSIONS)
                self._logging_in = self._loop.create_task(self._log_in(self._login))
            else:
                self._ready()

    async def _open_connection(self) -> _Connection:
        """Raises ConnectionRefusedError if that is what all addresses say, OSError for anything else."""
        host, port = self._endpoint.host, self._endpoint.port
        tls = self._security.tls_context(self._endpoint)
        failures: list[OSError] = []
        for family, kind, protocol, _, address in await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            opened = socket.socket(family, kind, protocol)
            is_connected = False
            try:
                opened.setblocking(False)
                if self._receive_buffer_bytes != -1:
                    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
                await self._loop.sock_connect(opened, address)
                is_connected = True
                _, made = await self._loop.create_connection(
                    _Connection,
                    sock=opened,
                    ssl=tls,
                    server_hostname=host if tls is not None else None,
                )
                return made
            except OSError as error:
                opened.close()
                failures.append(error)
                if is_connected and tls is not None:
                    self._refusals.tls_failed(self._name, self._endpoint, error, _now_ms())
            except BaseException:
                opened.close()
                raise
        raise next((failure for failure in failures if not isinstance(failure, ConnectionRefusedError)), failures[0])

    def _ready(self) -> None:
        self._state = _State.READY
        unsent, self._unsent = self._unsent, deque()
        for request in unsent:
            self._write(request)

    # The login

    async def _log_in(self, steps: Generator[Step, Any, int], answer: Any = None) -> None:
        """Take an answer of the login, None at first, in another thread: it hashes, or asks for a token."""
        try:
            # A refusal waits for no thread: the other end closes the connection right after it.
            step = _step_of(steps, answer) if is_refusal(answer) else await asyncio.to_thread(_step_of, steps, answer)
        except HandshakeError as error:
            if self._login is steps:
                self._login_failed(error.reason)
            return
        if self._login is not steps:
            return  # the connection broke meanwhile
        if isinstance(step, int):
            self._login = None
            self._renew_at_s = renewal_s(step, time.monotonic())
            self._ready()
            return
        request, version = step

        def answered(body: memoryview | PeerFailure) -> None:
            if isinstance(body, PeerFailure):
                return  # `_fail` answers pending requests
            found = request.decode(Decoder(body, flexible=request.api.is_flexible(version)), version)
            self._logging_in = self._loop.create_task(self._log_in(steps, found))

        # It comes before all that waits; the time-out of that holds for this too.
        timer = self._loop.call_later(self._security.login_timeout_ms / 1000, self._time_is_up)
        self._write(self._request(request.api.key, version, [request.encode(version)], answered, timer))

    def _login_failed(self, reason: str) -> None:
        self._refusals.login_failed(self._name, self._endpoint, reason, self._security.login_in_words, _now_ms())
        self._fail(PeerFailure.DISCONNECTED)

    # Events of the connection

    def lost(self, connection: _Connection, error: Exception | None) -> None:
        if connection is self._connection:
            self._connection = None
            self._tell_of_tls(error)
            # EPIPE: the reset that answered what was written came after the other end had closed the connection.
            is_closed = error is None or isinstance(error, BrokenPipeError)
            self._fail(PeerFailure.CLOSED if is_closed else PeerFailure.DISCONNECTED)

    def _tell_of_tls(self, error: Exception | None) -> None:
        if isinstance(error, ssl.SSLError):
            self._refusals.tls_failed(self._name, self._endpoint, error, _now_ms())
        elif self._security.tls_context(self._endpoint) is not None:
            self._unanswered += 1
            # One alone is what a broker does that ends.
            if self._unanswered > 1:
                self._refusals.closes_early(self._name, self._endpoint, _now_ms())

    def malformed(self, error: MalformedRequestError) -> None:
        _logger.error("%s:%d sent a malformed response: %s", self._endpoint.host, self._endpoint.port, error)
        self._fail(PeerFailure.DISCONNECTED)


class _Connection(asyncio.BufferedProtocol):
    """One socket."""

    __slots__ = ("_frames", "error", "is_lost", "peer", "transport")

    def __init__(self) -> None:
        self._frames = FrameReceiver(_MAX_ANSWER_BYTES)
        self.peer: _SocketPeer | None = None
        """Nobody yet, or nobody any more."""
        self.is_lost = False
        self.error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        try:
            while self.peer is not None and (frame := self._frames.next()) is not None:
                self.peer.answered(frame)
        except MalformedRequestError as error:
            if self.peer is not None:
                self.peer.malformed(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.error = exc
        if self.peer is not None:
            self.peer.lost(self, exc)

    def abort(self) -> None:
        self.peer = None
        self.transport.abort()


def _step_of(steps: Generator[Step, Any, int], answer: Any) -> Step | int:
    """Return the next request of a login, or the lifetime of its session in ms: no thread can raise StopIteration."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        lifetime_ms: int = end.value
        return lifetime_ms
