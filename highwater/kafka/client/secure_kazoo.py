"""kazoo with TLS, SASL DIGEST-MD5 and Unix sockets, and the reason why a server is not reached.

kazoo takes TLS from PEM files only, and loses bytes that its TLS socket has read ahead. Its login needs pure-sasl,
which had its last release in 2019; it comes after kazoo reports the client as connected, and takes a lost connection
for a wrong password. So sockets and login are made here. Nothing of kazoo's connection is public: 2.x is pinned.
"""

from __future__ import annotations

import secrets
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL, Connect

from highwater.kafka.client.host_processes import LOCAL
from highwater.kafka.client.security import reason_of
from highwater.kafka.client.zookeeper_security import ZooKeeperLogin, ZooKeeperSecurity
from highwater.kafka.login.digest_md5 import DigestError, DigestMd5

_SERVICE: Final = "zookeeper"
_HOST_OF_ALL: Final = "zk-sasl-md5"
"""ZooKeeper's servers have this name in digests, whatever their host is."""
_LOOK_S: Final = 1.0


class Failure(NamedTuple):
    """Why there was no connection to a server."""

    server: str
    reason: str
    is_lasting: bool
    """The next try will fail too, unless somebody changes settings."""


class SecureHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Threads and sockets of kazoo, its sockets with TLS."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self.tls = tls
        self.local_address = ""
        """The address of the server, if it is a Unix socket (`LOCAL`)."""

    def create_connection(self, *args: Any, hostname: str, timeout: float, **options: Any) -> Any:
        if self.local_address:
            local = socket.socket(socket.AF_UNIX)
            try:
                local.settimeout(timeout)
                local.connect("\0" + self.local_address.removeprefix(LOCAL))
            except BaseException:
                local.close()
                raise
            return local
        options["use_ssl"] = False
        plain = super().create_connection(*args, hostname=hostname, timeout=timeout, **options)
        if self.tls is None:
            return plain
        try:
            plain.settimeout(timeout)
            return self.tls.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise

    def select(self, readers: Any, writers: Any, others: Any, timeout: float | None = None) -> Any:
        # What TLS has read and decrypted already is no more to be seen at the socket.
        held = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        if not held:
            return super().select(readers, writers, others, timeout)
        ready, writable, failed = super().select(readers, writers, others, 0)
        return [*held, *(each for each in ready if each not in held)], writable, failed


def secure(
    client: KazooClient, security: ZooKeeperSecurity, failed: Callable[[Failure], None], *, gives_up: bool
) -> None:
    """Make the client log in, and call `failed` for each failed connection, in its thread. It has a SecureHandler.

    With `gives_up` the client ends when its first login is refused, else it goes on trying.
    """
    client._connection = _Connection(client, security, failed, gives_up=gives_up)


def renew(client: KazooClient, security: ZooKeeperSecurity) -> None:
    """Have the next connections of a secured client use this."""
    client.handler.tls = security.tls
    client._connection.security = security


class _Connection(ConnectionHandler):  # type: ignore[misc]
    def __init__(
        self, client: KazooClient, security: ZooKeeperSecurity, failed: Callable[[Failure], None], *, gives_up: bool
    ) -> None:
        super().__init__(client, client._conn_retry.copy(), logger=client.logger)
        self.security = security
        self._failed = failed
        self._was_connected = False
        self._gives_up = gives_up

    def _expand_client_hosts(self) -> Any:
        address = self.handler.local_address
        return [(address, "", 0)] if address else super()._expand_client_hosts()

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            found = super()._connect(host, hostip, port)
        except AuthFailedError as error:
            self._failed(Failure(server, str(error), is_lasting=True))
            if self._gives_up and not self._was_connected:
                raise
            # As Kafka's brokers do, go on trying: the password may be right on another server, or again.
            raise ConnectionDropped(str(error)) from None
        except (ConnectionDropped, self.handler.timeout_exception) as error:
            cause = error.__context__ if isinstance(error.__context__, OSError) else error
            failure = Failure(server, _text_of(cause), is_lasting=False)
            if not self._was_connected:
                failure = _lasting(failure, cause, hostip, port, has_tls=self.security.tls is not None)
            self._failed(failure)
            raise
        self._was_connected = True
        return found

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        result = super()._invoke(timeout, request, xid)
        if self.security.login is not None and isinstance(request, Connect) and result[0].time_out > 0:
            self._log_in(self.security.login, timeout)
        return result

    def _log_in(self, login: ZooKeeperLogin, timeout: float) -> None:
        digest = DigestMd5(
            login.user, login.password, service=_SERVICE, host=_HOST_OF_ALL, client_nonce=secrets.token_urlsafe(24)
        )
        refusal = f"it refuses the login of the user {login.user!r}"
        token, xid = b"", 0
        while not digest.is_complete:
            xid += 1
            self._submit(SASL(token), timeout, xid)
            header, body, offset = self._read_header(timeout)
            if header.err:
                raise AuthFailedError(f"{refusal}: no such user, or another password")
            challenge, _ = SASL.deserialize(body, offset)
            try:
                token = digest.answer(challenge or b"")
            except DigestError as error:
                raise AuthFailedError(f"{refusal}: {error}") from None


def _text_of(error: BaseException) -> str:
    return reason_of(error) if isinstance(error, Exception) and not isinstance(error, TimeoutError) else "no answer"


def _lasting(failure: Failure, error: BaseException, address: str, port: int, *, has_tls: bool) -> Failure:
    """The same failure, with the way out if it is of the settings."""
    if isinstance(error, ssl.SSLCertVerificationError):
        is_name = "match" in error.verify_message
        way_out = "zookeeper.ssl.endpoint.identification.algorithm" if is_name else "zookeeper.ssl.truststore.location"
        return Failure(failure.server, f"its certificate is refused: {error.verify_message} ({way_out})", True)
    if not has_tls:
        if isinstance(error, ConnectionRefusedError) or not _speaks_tls(address, port):
            return failure
        return Failure(failure.server, "it speaks TLS there; set zookeeper.ssl.client.enable=true", True)
    if _answers_in_plain(address, port):
        return Failure(failure.server, "it speaks without TLS there; name its secureClientPort", True)
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        is_version = "PROTOCOL_VERSION" in (error.reason or "")
        way_out = (
            "set another version of TLS (zookeeper.ssl.protocol or zookeeper.ssl.enabled.protocols)"
            if is_version
            else "does it want a certificate of another authority (zookeeper.ssl.keystore.location)?"
        )
        return Failure(failure.server, f"it refuses the TLS handshake ({reason_of(error)}): {way_out}", True)
    return failure


def _speaks_tls(address: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((address, port), _LOOK_S) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _answers_in_plain(address: str, port: int) -> bool:
    """Any server without TLS answers a command of four letters, if only that it is not on its list."""
    try:
        with socket.create_connection((address, port), _LOOK_S) as plain:
            plain.sendall(b"srvr")
            answer = plain.recv(64)
    except OSError:
        return False
    return answer.startswith((b"Zookeeper", b"srvr", b"This ZooKeeper"))
