"""One blocking connection to one broker: TLS, login, versions, and requests with their answers."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from typing import Any, Final, TypeVar

import numpy as np

from highwater.broker.security.login import Credential, LoginError
from highwater.pipeline.errors import ClientError
from highwater.pipeline.kafka import requests
from highwater.pipeline.kafka.model import BrokerError
from highwater.pipeline.kafka.requests import Request, UnexpectedAnswer, Versions
from highwater.pipeline.kafka.settings import Settings, Tls

Address = tuple[str, int]
Answer = TypeVar("Answer")

_LENGTH: Final = struct.Struct(">i")
_ANSWER_BYTES_MAX: Final = 1 << 30
_CORRELATION_IDS: Final = 1 << 31
_LEAST_WAIT_S: Final = 0.001
_LIFETIME_SHARE: Final = 0.85
"""Of a session after which a new login begins, as Kafka's client does (KIP-368)."""

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
            self._versions = self._ask(requests.api_versions(), 3)
            if settings.sasl is not None:
                self._log_in(Credential(settings.sasl.mechanism, settings.sasl.user, settings.sasl.password))
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
            return requests.read_answer(request, version, correlation_id, self._read(size, deadline_s))
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
        except ssl.SSLError as error:
            raw.close()
            if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                raise  # the broker went away
            raise RefusedError(f"TLS with {_name(self.address)} failed: {_reason(error)}") from None
        except BaseException:
            raw.close()
            raise

    def _ask(self, request: Request[Answer], version: int) -> Answer:
        self._send(request, version)
        return self.receive(request)

    def _send(self, request: Request[Any], version: int) -> None:
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        data = requests.frame(request, version, self._correlation_id, self._settings.client_id)
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

    def _log_in(self, credential: Credential) -> None:
        where = _name(self.address)
        others = self.ask(requests.sasl_handshake(credential.mechanism))
        if others is not None:
            raise RefusedError(f"{where} does not take {credential.mechanism}; it takes {', '.join(others) or 'none'}")
        login = credential.begin()
        token: bytes | None = login.first()
        lifetime_ms = 0
        while token is not None:
            answer = self.ask(requests.sasl_authenticate(token))
            if isinstance(answer, BrokerError):
                raise RefusedError(f"{where} refuses the login: {answer}")
            challenge, lifetime_ms = answer
            try:
                token = login.answer(challenge)
            except LoginError as error:
                raise RefusedError(f"the login at {where} failed: {error}") from None
        if lifetime_ms:
            self._expires_s = time.monotonic() + lifetime_ms / 1000 * _LIFETIME_SHARE


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Raises RefusedError for files that cannot be read as PEM."""
    context = ssl.create_default_context()
    context.check_hostname = tls.checks_host_name
    try:
        if tls.ca_file or tls.ca_pem:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = tls.checks_host_name
            context.load_verify_locations(cafile=tls.ca_file or None, cadata=tls.ca_pem or None)
        password = tls.key_password or _no_password
        if tls.certificate_pem:
            _load_chain(context, f"{tls.certificate_pem}\n{tls.key_pem}", password)
        elif tls.certificate_file:
            context.load_cert_chain(tls.certificate_file, password=password)
    except (OSError, ValueError) as error:
        names = ", ".join(filter(None, (tls.ca_file, tls.certificate_file))) or "the PEM text in the settings"
        raise RefusedError(f"TLS: {names} cannot be used: {_reason(error)}") from None
    return context


def _no_password() -> str:
    """Called by OpenSSL for an encrypted key, which would otherwise ask on the terminal."""
    raise ValueError("its key is encrypted; set ssl.key.password")


def _load_chain(context: ssl.SSLContext, pem: str, password: Any) -> None:
    """Python reads a private key from a file only: this one is in memory."""
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password)
    finally:
        os.close(descriptor)


def _name(address: Address) -> str:
    host, port = address
    return f"broker {host}:{port}"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
