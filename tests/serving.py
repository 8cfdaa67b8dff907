"""Servers of the standard library that run in a thread on loopback for as long as a test needs them."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Final, NamedTuple

ANY_PORT: Final = ("127.0.0.1", 0)


@contextmanager
def serving(server: TCPServer, certificate: Path | None = None) -> Iterator[int]:
    """The server's port; with TLS if `certificate` is given, a file that holds the key too."""
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    with server:
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class Asked(NamedTuple):
    path: str
    headers: Message
    body: bytes


class Answer(NamedTuple):
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


@contextmanager
def http_server(answer: Callable[[Asked], Answer], certificate: Path | None = None) -> Iterator[int]:
    """The port of a server that answers each GET and POST as told."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            told = answer(Asked(self.path, self.headers, body))
            self.send_response(told.status)
            for name, value in {"Content-Length": str(len(told.body)), **told.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(told.body)

        do_POST = do_GET  # noqa: N815 - the name that the library calls

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with serving(ThreadingHTTPServer(ANY_PORT, Handler), certificate) as port:
        yield port
