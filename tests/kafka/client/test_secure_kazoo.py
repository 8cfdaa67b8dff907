"""Sockets of the ZooKeeper client with TLS: what was decrypted already is not forgotten."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

from highwater.kafka.client.secure_kazoo import SecureHandler
from tests.broker.server.certificates import Authority


def test_what_tls_holds_already_is_ready_to_be_read(tmp_path: Path) -> None:
    authority = Authority()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(authority.certify("server").write_pem(tmp_path / "server.pem"))
    serving.maximum_version = ssl.TLSVersion.TLSv1_2  # without the tickets that follow a handshake of 1.3
    near, far = socket.socketpair()
    accepted: list[ssl.SSLSocket] = []
    thread = threading.Thread(target=lambda: accepted.append(serving.wrap_socket(far, server_side=True)))
    thread.start()
    client = ssl.create_default_context(cadata=authority.pem).wrap_socket(near, server_hostname="127.0.0.1")
    thread.join(20)
    (server,) = accepted
    handler = SecureHandler(None)
    try:
        assert handler.select([client], [], [], 0)[0] == []
        server.sendall(b"two answers in one record")
        assert client.recv(3) == b"two"
        # The socket itself has nothing more.
        assert handler.select([client], [], [], 0)[0] == [client]
        assert client.recv(100) == b" answers in one record"
        assert handler.select([client], [], [], 0)[0] == []
    finally:
        client.close()
        server.close()
