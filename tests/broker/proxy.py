"""A TCP proxy between clients and a broker that holds, swallows or cuts off at a chosen Produce request or its answer.

Start the broker with `advertised.listeners` naming the proxy, so that clients stay on it. The hooks are called in the
proxy's threads with the number of the Produce request, from 0 on, and may wait for each other.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final

PRODUCE: Final = 0
DEADLINE_S: Final = 60.0

Hook = Callable[[int], bool]


class Proxy:
    def __init__(self) -> None:
        self.on_request: Hook = lambda number: True
        """Called before a Produce request goes on to the broker; False swallows it and ends the connection."""
        self.on_answer: Hook = lambda number: True
        """Called before the answer to it goes on to the client; False swallows it and ends the connection."""
        self.produced = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._broker_port = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    def forward_to(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._start(self._accept)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):  # its peer may have reset it
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def _start(self, run: Callable[[], None]) -> None:
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
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
            except OSError:
                client.close()  # the broker is gone already
                continue
            with self._lock:
                self._open |= {client, broker}
            numbers: dict[bytes, int] = {}
            self._start(partial(self._requests, client, broker, numbers))
            self._start(partial(self._answers, client, broker, numbers))

    def _requests(self, client: socket.socket, broker: socket.socket, numbers: dict[bytes, int]) -> None:
        def take(frame: bytes) -> bool:
            if int.from_bytes(frame[:2], "big") != PRODUCE:
                return True
            with self._lock:
                number, self.produced = self.produced, self.produced + 1
            numbers[frame[4:8]] = number
            return self.on_request(number)

        self._pump(client, broker, take)

    def _answers(self, client: socket.socket, broker: socket.socket, numbers: dict[bytes, int]) -> None:
        def take(frame: bytes) -> bool:
            number = numbers.pop(frame[:4], None)
            return number is None or self.on_answer(number)

        self._pump(broker, client, take)

    def _pump(self, source: socket.socket, target: socket.socket, take: Callable[[bytes], bool]) -> None:
        """Carry frames over until one is not taken or a side is gone; then both are closed."""
        try:
            while len(head := _read(source, 4)) == 4:
                frame = _read(source, int.from_bytes(head, "big"))
                if not take(frame):
                    break
                target.sendall(head + frame)
        except OSError:
            pass
        with self._lock:
            for connection in (source, target):
                if connection in self._open:
                    self._open.discard(connection)
                    # The other thread may be reading from it: close it only there, after this wakes it up.
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
        source.close()


def _read(source: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size and (part := source.recv(size - len(parts))):
        parts += part
    return parts
