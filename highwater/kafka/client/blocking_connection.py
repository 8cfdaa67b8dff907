"""One blocking connection to one broker, with several requests on their way, answered in order."""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any, Final, TypeVar

from highwater.kafka.client.exchange import LENGTH_BYTES, Arrived, Exchange, UnservedError, answer_bytes
from highwater.kafka.client.failures import failure
from highwater.kafka.client.handshake import HandshakeError, renewal_s
from highwater.kafka.client.request import Request, UnexpectedAnswer
from highwater.kafka.client.security import TlsError, tls_context
from highwater.kafka.client.settings import Address, ClientSettings
from highwater.kafka.login.credentials import Credential

Answer = TypeVar("Answer")

_ANSWER_BYTES_MAX: Final = 1 << 30
_LEAST_WAIT_S: Final = 0.001

UNREACHABLE: Final = (OSError, UnexpectedAnswer)
"""What the methods of a connection raise when the broker, or the way to it, fails; the connection is then closed."""


class BlockingConnection:
    """Connects when it is made. Raises UNREACHABLE, or ClientError for a refusal: TLS, login or versions."""

    def __init__(self, address: Address, settings: ClientSettings, credential: Credential | None) -> None:
        self.address = address
        self._settings = settings
        self._exchange = Exchange(settings.client_id, credential)
        self._socket = self._connect()
        try:
            while self._exchange.session is None:
                self._send()
                self._arrived(time.monotonic() + settings.request_timeout_s)
        except HandshakeError as error:
            self.close()
            raise failure(address, "", error) from None
        except BaseException:
            self.close()
            raise
        self._expires_s = renewal_s(self._exchange.session.lifetime_ms, time.monotonic())

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent: it is open, no answer is pending, and the session does not end soon."""
        return self.is_open and not self.has_pending and time.monotonic() < self._expires_s

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    @property
    def has_pending(self) -> bool:
        """Whether an answer has not been received."""
        return bool(self._exchange.pending)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Request[Answer], wait_ms: int = 0) -> Answer:
        """Send a request and return its answer. `wait_ms` is how long the broker may wait before it answers."""
        self.send(request)
        return self.receive(request, wait_ms)

    def send(self, request: Request[Any]) -> None:
        """Send a request; `receive` returns its answer."""
        try:
            self._exchange.ask(request)
        except UnservedError as error:
            raise failure(self.address, request.name, error) from None
        self._send()

    def receive(self, request: Request[Answer], wait_ms: int = 0) -> Answer:
        """Return the answer to the oldest request that has none, which must be `request`.

        The time of a request and `wait_ms` are for the whole answer, as with Kafka's client.
        """
        try:
            arrived = self._arrived(time.monotonic() + self._settings.request_timeout_s + wait_ms / 1000)
            if arrived is None or arrived.request is not request:
                raise UnexpectedAnswer("the answers do not come in the order of the requests")
            answer: Answer = arrived.value()
            return answer
        except BaseException:
            self.close()
            raise

    def memory(self, size: int) -> memoryview:
        """Return the memory that an answer is read into."""
        return memoryview(bytearray(size))

    def _connect(self) -> socket.socket:
        raw = socket.create_connection(self.address, self._settings.connect_timeout_s)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._settings.tls is None:
                return raw
            return tls_context(self._settings.tls).wrap_socket(raw, server_hostname=self.address[0])
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raw.close()  # the broker went away
            raise
        except (TlsError, ssl.SSLError) as error:
            raw.close()
            raise failure(self.address, "", error) from None
        except BaseException:
            raw.close()
            raise

    def _send(self) -> None:
        try:
            self._socket.settimeout(self._settings.request_timeout_s)
            self._socket.sendall(self._exchange.data_to_send())
        except BaseException:
            self.close()
            raise

    def _arrived(self, deadline_s: float) -> Arrived | None:
        size = answer_bytes(self._read(memoryview(bytearray(LENGTH_BYTES)), deadline_s), _ANSWER_BYTES_MAX)
        return self._exchange.take(self._read(self.memory(size), deadline_s))

    def _read(self, data: memoryview, deadline_s: float) -> memoryview:
        have = 0
        while have < len(data):
            # The time-out of a socket is for one call, so that a broker that dribbles could hold a task for ever.
            self._socket.settimeout(max(_LEAST_WAIT_S, deadline_s - time.monotonic()))
            received = self._socket.recv_into(data[have:])
            if not received:
                raise ConnectionResetError("the broker closed the connection")
            have += received
        return data
