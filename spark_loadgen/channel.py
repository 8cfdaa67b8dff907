"""A TCP channel of JSON lines between the driver and its tasks, beside whatever launched them.

Spark tells a driver nothing about a running task (accumulators arrive with the result), lets tasks meet only at a
barrier that it polls once a second, and stops a task only by SIGKILL, which loses what it measured. So here tasks are
started together, report once a second and are told what to do (coordination.py has what is said when). Whoever loses
the channel once the load runs goes on by the deadlines of the plan.

Clocks: a task learns how far its CLOCK_MONOTONIC is from the driver's from the exchange with the shortest way, as NTP
reckons it; half of that way bounds the error. Wall clocks are compared too, but nothing rests on them.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from highwater.spark_loadgen.phases import Phases

Message = Mapping[str, Any]
_CLOCK_EXCHANGES: Final = 8
_CONNECT_TIMEOUT_S: Final = 10
_CLOCK_TIMEOUT_S: Final = 5
_LINE_BYTES_MAX: Final = 1 << 16


def _line(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def clock_name() -> str:
    """Names the CLOCK_MONOTONIC that this process reads: one per kernel boot and time namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:  # kernels before 5.6 have no time namespaces
        return boot


class DriverChannel:
    """The driver's end: one thread that serves every task. Context manager.

    `woken` is set whenever a message arrived; whoever waits for it clears it.
    """

    def __init__(self, bind: str, advertise: str) -> None:
        """Listen on a free port of the address `bind`, which executors know as `advertise`."""
        self.token = secrets.token_hex(16)
        self.woken = threading.Event()
        self._listener = socket.create_server((bind, 0), backlog=256)
        self.address: tuple[str, int] = (advertise, self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._buffers: dict[socket.socket, bytes] = {}
        self._tasks: dict[socket.socket, int] = {}
        self._broadcasts: list[bytes] = []
        self._inbox: list[tuple[int, dict[str, Any]]] = []
        self._closing, self._close = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="load-channel", daemon=True)

    def __enter__(self) -> DriverChannel:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close.close()
        self._thread.join()

    def receive(self) -> list[tuple[int, dict[str, Any]]]:
        """(task, message) pairs that arrived since the last call. A task's first message is its hello."""
        with self._lock:
            messages, self._inbox = self._inbox, []
        return messages

    def send(self, task: int, message: Message) -> None:
        """To one task. One that is gone misses it."""
        with self._lock:
            for connection in [connection for connection, number in self._tasks.items() if number == task]:
                self._send(connection, _line(message))

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
        with selectors.DefaultSelector() as selector, self._listener, self._closing:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._closing, selectors.EVENT_READ)
            closing = False
            while not closing:
                for key, _ in selector.select():
                    if key.fileobj is self._closing:
                        closing = True
                    elif key.fileobj is self._listener:
                        connection, _ = self._listener.accept()
                        connection.setblocking(False)
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
                if message.pop("token") != self.token:
                    return False
                task = self._tasks[connection] = int(message["task"])
                for line in self._broadcasts:
                    self._send(connection, line)
            elif message["kind"] == "clock":
                now = {"kind": "clock", "monotonic_ns": time.monotonic_ns(), "unix_ns": time.time_ns()}
                self._send(connection, _line(now))
                return True
            self._inbox.append((task, message))
        self.woken.set()
        return True


@dataclass(frozen=True, slots=True)
class ClockReading:
    """This host's clocks minus the driver's, and how far off that may be."""

    offset_ns: int
    """Of CLOCK_MONOTONIC."""
    error_ns: int
    wall_offset_ns: int


class TaskChannel:
    """A task's end. Losing the driver is no error: `connected` turns False and sending does nothing."""

    def __init__(self, address: tuple[str, int], token: str, task: int, phases: Phases) -> None:
        """Connect and say hello. Raises OSError. `phases` is told when the driver names the measured phase."""
        self.stop = threading.Event()
        self.consume = threading.Event()
        """Consumers that are to wait may read now."""
        self.producers_finished = threading.Event()
        self.connected = True
        self.phases = phases
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._socket = socket.create_connection(address, timeout=_CONNECT_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(None)
        self._reader = self._socket.makefile("rb")
        self._thread = threading.Thread(target=self._listen, name="load-channel", daemon=True)
        self._thread.start()
        hello = {"kind": "hello", "task": task, "host": socket.gethostname(), "clock": clock_name(), "pid": os.getpid()}
        self.send({"token": token, **hello})

    def read_clock(self) -> ClockReading:
        """Compare the clocks by several exchanges. Raises OSError when the driver does not answer."""
        best: ClockReading | None = None
        for _ in range(_CLOCK_EXCHANGES):
            asked_ns, asked_unix_ns = time.monotonic_ns(), time.time_ns()
            self.send({"kind": "clock"})
            answer = self.answer("clock", _CLOCK_TIMEOUT_S)
            answered_ns = time.monotonic_ns()
            way_ns = answered_ns - asked_ns
            if best is None or way_ns // 2 < best.error_ns:
                best = ClockReading(
                    offset_ns=asked_ns + way_ns // 2 - answer["monotonic_ns"],
                    error_ns=way_ns // 2,
                    wall_offset_ns=asked_unix_ns + way_ns // 2 - answer["unix_ns"],
                )
        assert best is not None
        return best

    def answer(self, kind: str, timeout_s: float) -> dict[str, Any]:
        """The driver's next word to this task alone, which must be of this kind. Raises OSError when none comes."""
        try:
            message = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"the driver said nothing for {timeout_s:g} s") from None
        if message is None or message["kind"] != kind:
            self._answers.put(None)  # for whoever asks again
            raise ConnectionError("the driver closed the channel")
        return message

    def _take(self, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "stop":
                self.stop.set()
            case "consume":
                self.consume.set()
            case "producers_finished":
                self.producers_finished.set()
            case "measure":
                self.phases.measure_from(message["second"])
            case _:
                self._answers.put(message)

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError, LookupError):
            for line in self._reader:
                self._take(json.loads(line))
        self.connected = False
        self._answers.put(None)

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
