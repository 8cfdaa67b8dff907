"""A proxy between clients and a broker that hands each request and answer to a lie, which passes on what it likes.

Start the broker with `advertised.listeners` naming the proxy, so that clients stay on it.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final

VERSIONS: Final = 18
_ANY_VERSIONS_REQUEST: Final = struct.pack(">hh", VERSIONS, 0)
_JOIN_S: Final = 10.0
# Correlation ids of requests that no client has made; clients count up from 1.
_OWN_IDS: Final = 0x4000_0000


class Link:
    """One client's connection and the one to the broker behind it. A lie sends by it, from either side's thread."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self.client = client
        self.broker = broker
        self.asked: dict[int, int] = {}
        """Api key of each request that is under way, by correlation id."""
        self.last_answer: dict[int, bytes] = {}
        """The newest answer to each api, without its correlation id."""
        self._false: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def to_broker(self, frame: bytes) -> None:
        with self._lock:
            self.broker.sendall(struct.pack(">i", len(frame)) + frame)

    def to_broker_unseen(self, frame: bytes) -> None:
        """Once more, with an answer that the client does not get to see."""
        (number,) = struct.unpack_from(">i", frame, 4)
        self.to_broker(frame[:4] + struct.pack(">i", number | _OWN_IDS) + frame[8:])

    def answer_instead(self, frame: bytes, answer: bytes) -> None:
        """The broker does not get the request, and the client gets `answer` when its turn comes."""
        (number,) = struct.unpack_from(">i", frame, 4)
        self._false[number] = answer
        # Something harmless in its place keeps the order of answers.
        self.to_broker(_ANY_VERSIONS_REQUEST + frame[4:8] + struct.pack(">h", -1))

    def to_client(self, frame: bytes) -> None:
        (number,) = struct.unpack_from(">i", frame, 0)
        if number & _OWN_IDS:
            return
        answer = self._false.pop(number, None)
        if answer is not None:
            frame = frame[:4] + answer
        self.client.sendall(struct.pack(">i", len(frame)) + frame)


class Lie:
    """Passes everything on. Kinds of lies override one of the two; `told` counts how often they lied."""

    def __init__(self) -> None:
        self.told = 0

    def request(self, link: Link, api: int, frame: bytes) -> None:
        link.to_broker(frame)

    def answer(self, link: Link, api: int, frame: bytes) -> None:
        link.to_client(frame)


class LyingProxy:
    """Leaving the context ends every connection."""

    def __init__(self) -> None:
        self.lie = Lie()
        self.broker_port = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    def __enter__(self) -> LyingProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in (self._listening, *self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(_JOIN_S)
        for connection in (self._listening, *self._open):
            connection.close()

    def _start(self, run: partial[None] | object) -> None:
        assert callable(run)
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.broker_port))
            except OSError:
                client.close()
                continue
            for connection in (client, broker):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(connection)
            link = Link(client, broker)
            self._start(partial(self._requests, link))
            self._start(partial(self._answers, link))

    def _requests(self, link: Link) -> None:
        with suppress(OSError):
            while (frame := _frame(link.client)) is not None:
                api, _, number = struct.unpack_from(">hhi", frame, 0)
                link.asked[number] = api
                self.lie.request(link, api, frame)
        _end(link)

    def _answers(self, link: Link) -> None:
        with suppress(OSError):
            while (frame := _frame(link.broker)) is not None:
                (number,) = struct.unpack_from(">i", frame, 0)
                api = link.asked.pop(number, VERSIONS)
                if number not in link._false:
                    link.last_answer[api] = frame[4:]
                self.lie.answer(link, api, frame)
        _end(link)


def _end(link: Link) -> None:
    for connection in (link.client, link.broker):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _frame(source: socket.socket) -> bytes | None:
    """The next frame without its length; None at the end of the connection."""
    head = _exactly(source, 4)
    return None if head is None else _exactly(source, int.from_bytes(head, "big"))


def _exactly(source: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = source.recv(size - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)
