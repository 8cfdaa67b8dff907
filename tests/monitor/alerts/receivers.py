"""Receivers of alerts for tests: a web server and a mail server on loopback that say what they were told to say."""

from __future__ import annotations

import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.serving import ANY_PORT, Answer, Asked, http_server, serving


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

    def answer(question: Asked) -> Answer:
        received.requests.append((question.path, dict(question.headers), question.body))
        return Answer(received.answer(), b"the answer holds a secret", {"Location": "/elsewhere"})

    with http_server(answer, certificate) as received.port:
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

    server = socketserver.ThreadingTCPServer(ANY_PORT, Handler)
    server.daemon_threads = True
    with serving(server) as received.port:
        yield received
