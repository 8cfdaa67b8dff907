"""A TCP channel of JSON lines between the driver and its tasks, beside Spark.

Spark tells a driver nothing about a running task (accumulators arrive with the result) and stops one only by SIGKILL,
which loses what it measured. So tasks report once a second here, and hear here that they shall stop or that all
producers have finished. Whoever loses the channel goes on by the deadlines of the plan.

Task to driver: hello (with the run's token), clock (asks for the driver's clock), t0, progress, producer_finished.
Driver to task: clock, stop, producers_finished.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

Message = Mapping[str, Any]
_CLOCK_EXCHANGES: Final = 8
_CONNECT_TIMEOUT_S: Final = 10
_LINE_BYTES_MAX: Final = 1 << 16


def _line(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class DriverChannel:
    """The driver's end: one thread that serves every task. Context manager."""

    def __init__(self, bind: str, advertise: str) -> None:
        """Listen on a free port of the address `bind`, which executors know as `advertise`."""
        self.token = secrets.token_hex(16)
        self._listener = socket.create_server((bind, 0), backlog=256)
        self.address: tuple[str, int] = (advertise, self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._buffers: dict[socket.socket, bytes] = {}
        self._tasks: dict[socket.socket, int] = {}
        self._broadcasts: list[bytes] = []
        self._inbox: list[tuple[int, dict[str, Any]]] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="load-channel", daemon=True)

    def __enter__(self) -> DriverChannel:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()

    def receive(self) -> list[tuple[int, dict[str, Any]]]:
        """(task, message) pairs that arrived since the last call."""
        with self._lock:
            messages, self._inbox = self._inbox, []
        return messages

    def broadcast(self, message: Message) -> None:
        """To every task, also to those that connect later."""
        with self._lock:
            self._broadcasts.append(_line(message))
            for connection in list(self._tasks):
                self._send(connection, self._broadcasts[-1])

    def _send(self, connection: socket.socket, data: bytes) -> None:
        try:
            sent = connection.send(data)
        except OSError:
            sent = 0
        if sent != len(data):  # a peer that does not read, or is gone: it goes on by its deadlines
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._closing.is_set():
                for key, _ in selector.select(timeout=0.1):
                    if key.fileobj is self._listener:
                        connection, _ = self._listener.accept()
                        connection.setblocking(False)
                        self._buffers[connection] = b""
                        selector.register(connection, selectors.EVENT_READ)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        if not self._read(key.fileobj):
                            selector.unregister(key.fileobj)
                            self._forget(key.fileobj)
            for connection in list(self._buffers):
                self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._tasks.pop(connection, None)
            self._buffers.pop(connection, None)
        connection.close()

    def _read(self, connection: socket.socket) -> bool:
        """Take in what arrived; False when the connection is over or its peer is not one of ours."""
        try:
            data = connection.recv(1 << 16)
            *lines, rest = (self._buffers[connection] + data).split(b"\n")
            self._buffers[connection] = rest
            sound = bool(data) and len(rest) < _LINE_BYTES_MAX
            return sound and all(self._handle(connection, json.loads(line)) for line in lines)
        except (OSError, ValueError, TypeError, LookupError):
            return False

    def _handle(self, connection: socket.socket, message: dict[str, Any]) -> bool:
        with self._lock:
            task = self._tasks.get(connection)
            if task is None:
                if message["token"] != self.token:
                    return False
                self._tasks[connection] = int(message["task"])
                for line in self._broadcasts:
                    self._send(connection, line)
            elif message["kind"] == "clock":
                self._send(connection, _line({"kind": "clock", "unix_ns": time.time_ns()}))
            else:
                self._inbox.append((task, message))
        return True


class TaskChannel:
    """A task's end. Losing the driver is no error: `connected` turns False and sending does nothing."""

    def __init__(self, address: tuple[str, int], token: str, task: int) -> None:
        """Connect and measure how far this host's wall clock is from the driver's. Raises OSError."""
        self.stop = threading.Event()
        self.producers_finished = threading.Event()
        self.connected = True
        self._socket = socket.create_connection(address, timeout=_CONNECT_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb")
        try:
            self.send({"kind": "hello", "token": token, "task": task})
            self.clock_offset_ns = self._measure_clock_offset()
        except BaseException:
            self._reader.close()
            self._socket.close()
            raise
        self._socket.settimeout(None)
        self._thread = threading.Thread(target=self._listen, name="load-channel", daemon=True)
        self._thread.start()

    def _measure_clock_offset(self) -> int:
        """This clock minus the driver's, from the exchange with the shortest way (as NTP reckons it)."""
        best = (1 << 62, 0)
        for _ in range(_CLOCK_EXCHANGES):
            asked_ns = time.time_ns()
            self.send({"kind": "clock"})
            while (answer := json.loads(self._reader.readline() or b"{}")).get("kind") != "clock":
                if not answer:
                    raise ConnectionError("the driver closed the channel")
                self._take(answer)
            answered_ns = time.time_ns()
            best = min(best, (answered_ns - asked_ns, (asked_ns + answered_ns) // 2 - answer["unix_ns"]))
        return best[1]

    def _take(self, message: Message) -> None:
        if message["kind"] == "stop":
            self.stop.set()
        elif message["kind"] == "producers_finished":
            self.producers_finished.set()

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in self._reader:
                self._take(json.loads(line))
        self.connected = False

    def send(self, message: Message) -> None:
        """Never waits: a driver that does not read loses the channel, not the load its pace."""
        if not self.connected:
            return
        data = _line(message)
        try:
            sent = self._socket.send(data, socket.MSG_DONTWAIT)
        except OSError:
            sent = 0
        if sent != len(data):
            self.connected = False

    def close(self) -> None:
        """End the channel; the thread that listens ends with it."""
        self.connected = False
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._reader.close()
        self._socket.close()
