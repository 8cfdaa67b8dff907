"""One blocking connection to one broker: TLS, login, versions, and requests with their answers."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import Any, Final, TypeVar

import numpy as np

from highwater.kafka.client.handshake import HandshakeError, Session, handshake
from highwater.kafka.client.request import Request, UnexpectedAnswer, Versions, frame, read_answer
from highwater.kafka.client.security import TlsError, tls_context, tls_failure
from highwater.kafka.login.credentials import Credential
from highwater.pipeline.errors import ClientError
from highwater.pipeline.kafka.credentials import credential
from highwater.pipeline.kafka.requests import SOFTWARE
from highwater.pipeline.kafka.settings import Settings

Address = tuple[str, int]
Answer = TypeVar("Answer")

_LENGTH: Final = struct.Struct(">i")
_ANSWER_BYTES_MAX: Final = 1 << 30
_CORRELATION_IDS: Final = 1 << 31
_LEAST_WAIT_S: Final = 0.001
_LIFETIME_SHARE: Final = 0.85
"""The share of a session's life after which a new login begins, as in Kafka's client (KIP-368)."""

UNREACHABLE: Final = (OSError, UnexpectedAnswer)
"""What the methods of a connection raise when the broker, or the way to it, fails; the connection is then closed."""


class RefusedError(ClientError):
    """The broker and this client do not come together: TLS, login or versions. A retry would change nothing."""


class Connection:
    """Connects when it is made. Raises UNREACHABLE, or RefusedError."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self.address = address
        self._settings = settings
        self._correlation_id = 0
        self._pending: list[tuple[Request[Any], int, int]] = []
        self._versions: Versions = {}
        self._expires_s = float("inf")
        self._socket = self._connect()
        try:
            self._versions = self._shake_hands(None if settings.sasl is None else credential(settings.sasl))
        except TlsError as error:
            self.close()
            raise RefusedError(str(error)) from None
        except BaseException:
            self.close()
            raise

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent: it is open, no answer is pending, and the session does not end soon."""
        return self.is_open and not self._pending and time.monotonic() < self._expires_s

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    @property
    def has_pending(self) -> bool:
        """Whether an answer has not been received."""
        return bool(self._pending)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Request[Answer], wait_ms: int = 0) -> Answer:
        """Send a request and return its answer. `wait_ms` is how long the broker may wait before it answers.

        Raises UNREACHABLE, or RefusedError if the broker serves no version of the request that this client knows.
        """
        self.send(request)
        return self.receive(request, wait_ms)

    def send(self, request: Request[Any]) -> None:
        """Send a request; `receive` returns its answer."""
        version = request.version_for(self._versions)
        if version is None:
            host, port = self.address
            raise RefusedError(
                f"broker {host}:{port} serves {request.schema} in no version from {request.least} to {request.most}; "
                "it is older than Kafka 2.7"
            )
        self._send(request, version)

    def receive(self, request: Request[Answer], wait_ms: int = 0) -> Answer:
        """The answer to the oldest request that has none, which must be `request`.

        `request.timeout.ms` and `wait_ms` are for the whole answer, as with Kafka's client.
        """
        asked, version, correlation_id = self._pending.pop(0)
        assert asked is request
        deadline_s = time.monotonic() + (self._settings.request_timeout_ms + wait_ms) / 1000
        try:
            (size,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline_s))
            if not _LENGTH.size <= size <= _ANSWER_BYTES_MAX:
                raise UnexpectedAnswer(f"an answer of {size} bytes; is this the port of a broker, with this protocol?")
            return read_answer(request, version, correlation_id, self._read(size, deadline_s))
        except BaseException:
            self.close()
            raise

    def _connect(self) -> socket.socket:
        raw = socket.create_connection(self.address, self._settings.connect_timeout_ms / 1000)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._settings.tls is None:
                return raw
            return tls_context(self._settings.tls).wrap_socket(raw, server_hostname=self.address[0])
        except TlsError as error:
            raw.close()
            raise RefusedError(str(error)) from None
        except ssl.SSLError as error:
            raw.close()
            if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                raise  # the broker went away
            raise RefusedError(f"TLS with {_name(self.address)} failed: {tls_failure(error)}") from None
        except BaseException:
            raw.close()
            raise

    def _ask(self, request: Request[Answer], version: int) -> Answer:
        self._send(request, version)
        return self.receive(request)

    def _send(self, request: Request[Any], version: int) -> None:
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        data = frame(request, version, self._correlation_id, self._settings.client_id)
        self._pending.append((request, version, self._correlation_id))
        try:
            self._socket.settimeout(self._settings.request_timeout_ms / 1000)
            self._socket.sendall(data)
        except BaseException:
            self.close()
            raise

    def _read(self, size: int, deadline_s: float) -> memoryview:
        # Not zeroed first, unlike a bytearray.
        data = np.empty(size, np.uint8).data
        have = 0
        while have < size:
            # The time-out of a socket is for one call, so that a broker that dribbles could hold a task for ever.
            self._socket.settimeout(max(_LEAST_WAIT_S, deadline_s - time.monotonic()))
            received = self._socket.recv_into(data[have:])
            if not received:
                raise ConnectionResetError(f"{_name(self.address)} closed the connection")
            have += received
        return data

    def _shake_hands(self, own: Credential | None) -> Versions:
        steps = handshake(own, SOFTWARE)
        request, version = next(steps)
        try:
            while True:
                request, version = steps.send(self._ask(request, version))
        except StopIteration as end:
            session: Session = end.value
            if session.lifetime_ms:
                self._expires_s = time.monotonic() + session.lifetime_ms / 1000 * _LIFETIME_SHARE
            return session.versions
        except HandshakeError as error:
            raise RefusedError(f"{_name(self.address)} {error}") from None


def _name(address: Address) -> str:
    host, port = address
    return f"broker {host}:{port}"
