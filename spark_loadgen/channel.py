"""A TCP channel of JSON lines between the driver and its tasks, independent of the launcher.

Spark is not enough: a driver learns nothing about a running task (accumulators arrive with the result), tasks
synchronise only at a barrier that Spark polls once a second, and Spark stops a task only by SIGKILL, which loses its
measurements. Over this channel tasks start together, report once a second and receive messages (coordination.py lists
them). A task that loses the channel while the load runs goes on until the deadlines of the plan.

Clocks: a task computes the offset of its CLOCK_MONOTONIC from the driver's as NTP does, from the exchange with the
shortest round trip; half of that round trip bounds the error. Wall clocks are compared too, for information only.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
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

from highwater.common.listener_rules import Limits, ListenerRules, RefusalLog, descriptors
from highwater.spark_loadgen.phases import Phases

Message = Mapping[str, Any]
_CLOCK_EXCHANGES: Final = 8
_CONNECT_TIMEOUT_S: Final = 10
_CLOCK_TIMEOUT_S: Final = 5
_LINE_BYTES_MAX: Final = 1 << 16
HELLO_BYTES_MAX: Final = 4096
"""Before a client has sent the token."""
HELLO_MS: Final = 10_000
_PAUSE_S: Final = 0.1
_LOG: Final = logging.getLogger(__name__)


def _line(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _message_of(line: bytes) -> dict[str, Any] | None:
    """None for what is no message."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def clock_name() -> str:
    """The identity of the CLOCK_MONOTONIC that this process reads: one per kernel boot and time namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:  # kernels before 5.6 have no time namespaces
        return boot


class DriverChannel:
    """The driver's end: one thread that serves all tasks. Context manager.

    `woken` is set whenever a message has arrived; the caller that waits for `woken` clears it.
    """

    def __init__(self, bind: str, advertise: str) -> None:
        """Listen on a free port of the address `bind`; executors connect to `advertise`."""
        self.token = secrets.token_hex(16)
        self._token = self.token.encode()
        self.woken = threading.Event()
        self._listener = socket.create_server((bind, 0), backlog=256)
        self.address: tuple[str, int] = (advertise, self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._buffers: dict[socket.socket, bytes] = {}
        self._tasks: dict[socket.socket, int] = {}
        self._broadcasts: list[bytes] = []
        most = descriptors().connections
        self._log = RefusalLog(_LOG)
        self._rules: ListenerRules[socket.socket] = ListenerRules(Limits(most, most, HELLO_MS), self._log)
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
        """(task, message) pairs that have arrived since the last call. The first message of a task is its hello."""
        with self._lock:
            messages, self._inbox = self._inbox, []
        return messages

    def send(self, task: int, message: Message) -> None:
        """Send to one task; nothing happens if the task is disconnected."""
        with self._lock:
            for connection in [connection for connection, number in self._tasks.items() if number == task]:
                self._send(connection, _line(message))

    def broadcast(self, message: Message) -> None:
        """Send to every task, also to those that connect later."""
        with self._lock:
            self._broadcasts.append(_line(message))
            for connection in list(self._tasks):
                self._send(connection, self._broadcasts[-1])

    def _send(self, connection: socket.socket, data: bytes) -> None:
        try:
            sent = connection.send(data)
        except OSError:
            sent = 0
        if sent != len(data):  # the task does not read, or is gone; without the channel it runs until its deadlines
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener, self._closing:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._closing, selectors.EVENT_READ)
            closing = False
            while not closing:
                wait_ms = self._rules.is_late_in_ms(_now_ms())
                for key, _ in selector.select(None if wait_ms is None else wait_ms / 1000):
                    if key.fileobj is self._closing:
                        closing = True
                    elif key.fileobj is self._listener:
                        self._accept(selector)
                    elif key.fileobj in self._buffers and not self._read(key.fileobj):
                        connection = key.fileobj
                        if connection not in self._tasks:
                            self._rules.refused(connection, "it is not a task of this load", _now_ms())
                        self._forget(connection, selector)
                for connection in self._rules.late(_now_ms()):
                    self._forget(connection, selector)
            for connection in list(self._buffers):
                self._forget(connection, selector)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, address = self._listener.accept()
        except OSError as error:
            self._log.wait(f"cannot accept them: {error.strerror}", _now_ms())
            time.sleep(_PAUSE_S)
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffers[connection] = b""
        selector.register(connection, selectors.EVENT_READ)
        gone = self._rules.arrived(connection, f"{address[0]}:{address[1]}", _now_ms())
        if gone is not None:
            self._forget(gone, selector)

    def _forget(self, connection: socket.socket, selector: selectors.BaseSelector) -> None:
        with self._lock:
            self._tasks.pop(connection, None)
            self._buffers.pop(connection, None)
        self._rules.left(connection)
        selector.unregister(connection)
        connection.close()

    def _read(self, connection: socket.socket) -> bool:
        """Handle the data that has arrived; False when the connection has ended or its peer is no task of this load."""
        try:
            data = connection.recv(_LINE_BYTES_MAX if connection in self._tasks else HELLO_BYTES_MAX)
        except OSError:
            return False
        *lines, rest = (self._buffers[connection] + data).split(b"\n")
        self._buffers[connection] = rest
        if not data or len(rest) >= (_LINE_BYTES_MAX if connection in self._tasks else HELLO_BYTES_MAX):
            return False
        return all(self._handle(connection, _message_of(line)) for line in lines)

    def _handle(self, connection: socket.socket, message: dict[str, Any] | None) -> bool:
        """False for what no task of this load sends."""
        if message is None or not isinstance(message.get("kind"), str):
            return False
        with self._lock:
            task = self._tasks.get(connection)
            if task is None:
                token, task = message.pop("token", ""), message.get("task")
                is_ours = isinstance(token, str) and hmac.compare_digest(token.encode("utf-8", "replace"), self._token)
                if not is_ours or not isinstance(task, int):
                    return False
                self._tasks[connection] = task
                self._rules.known(connection)
                for line in self._broadcasts:
                    self._send(connection, line)
            elif message["kind"] == "clock":
                now = {"kind": "clock", "monotonic_ns": time.monotonic_ns(), "unix_ns": time.time_ns()}
                self._send(connection, _line(now))
                return True
            self._inbox.append((task, message))
        self.woken.set()
        return True


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The offset of this host's clocks from the driver's (own minus driver's), and its error."""

    offset_ns: int
    """The offset of CLOCK_MONOTONIC."""
    error_ns: int
    wall_offset_ns: int


class TaskChannel:
    """A task's end. Losing the driver raises no error: `connected` becomes False and `send` does nothing."""

    def __init__(self, address: tuple[str, int], token: str, task: int, phases: Phases) -> None:
        """Connect and send hello. Raises OSError. `phases` is updated when the driver sends `measure`."""
        self.stop = threading.Event()
        self.consume = threading.Event()
        """Set when waiting consumers may start to read."""
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
            answer = self.receive("clock", _CLOCK_TIMEOUT_S)
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

    def receive(self, kind: str, timeout_s: float) -> dict[str, Any]:
        """The driver's next message to this task alone, which must be of `kind`. Raises OSError when none arrives."""
        try:
            message = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"the driver sent nothing for {timeout_s:g} s") from None
        if message is None or message["kind"] != kind:
            self._answers.put(None)  # for the next call
            raise ConnectionError("the driver closed the channel")
        return message

    def _handle(self, message: dict[str, Any]) -> None:
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
                self._handle(json.loads(line))
        self.connected = False
        self._answers.put(None)

    def send(self, message: Message) -> None:
        """Send without waiting: if the driver does not read, the task gives up the channel and keeps its schedule."""
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
        """Close the channel and end the thread that listens."""
        self.connected = False
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._reader.close()
        self._socket.close()
