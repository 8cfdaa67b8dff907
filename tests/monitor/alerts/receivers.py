"""Receivers of alerts for tests: a web server and a mail server on loopback that say what they were told to say."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar


@dataclass
class Received:
    """What came in, and what is answered next; the last answer is repeated."""

    port: int
    answers: list[int]
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """Path, headers and body; of mail: the envelope's sender, its recipients, and the letter."""

    def answer(self) -> int:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def web_server(*answers: int, certificate: Path | None = None) -> Iterator[Received]:
    """Answers with these HTTP statuses in turn; with TLS if `certificate` is given, a file that holds the key too."""
    received = Received(0, list(answers or (200,)))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.requests.append((self.path, dict(self.headers), body))
            self.send_response(received.answer())
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(b"the answer holds a secret")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so by its parent
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    received.port = server.server_address[1]
    with _running(server):
        yield received


@contextmanager
def mail_server(*answers: int) -> Iterator[Received]:
    """Answers to each DATA with these SMTP statuses in turn; offers AUTH PLAIN, and no STARTTLS."""
    received = Received(0, list(answers or (250,)))

    class Handler(socketserver.StreamRequestHandler):
        greeting: ClassVar[str] = "220 sink"

        def handle(self) -> None:
            self._say(self.greeting)
            sender, recipients = "", []
            while line := self.rfile.readline().decode().rstrip("\r\n"):
                verb = line.partition(" ")[0].upper()
                if verb == "EHLO":
                    self._say("250-sink")
                    self._say("250 AUTH PLAIN")
                elif verb == "AUTH":
                    received.requests.append(("AUTH", {}, line.encode()))
                    self._say("235 welcome")
                elif verb == "MAIL":
                    sender = line
                    self._say("250 fine")
                elif verb == "RCPT":
                    recipients.append(line)
                    self._say("250 fine")
                elif verb == "DATA":
                    self._say("354 go on")
                    letter = b""
                    while (part := self.rfile.readline()) != b".\r\n":
                        letter += part
                    received.requests.append((sender, {"to": "; ".join(recipients)}, letter))
                    self._say(f"{received.answer()} so be it")
                elif verb == "QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 fine")

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    received.port = server.server_address[1]
    with _running(server):
        yield received


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
