"""A simulated process's connection to the tree of its parent: the bytes that kazoo writes and reads.

Requests are encoded, and answers decoded, by the code that the broker uses with kazoo. A connection that breaks loses
neither requests nor watches; pings keep the session alive, and a parent that answers none is tried again.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol import serialization as wire
from kazoo.protocol.states import EventType

from highwater.broker.cluster.zookeeper import Children, Exists, Get, Request, Session, WatchEvent, ZooKeeperError
from highwater.broker.server.kazoo_client import SetWatchesRequest, error_of, on_the_wire, result_of
from highwater.broker.tree.serving import PASSWORD_BYTES, Serving, TreeConnection
from highwater.broker.tree.wire import PING_XID, WATCH_XID, ErrorNumber, Op
from tests.broker.simulation.link import Delay, Link
from tests.broker.simulation.world import Process

_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">ii")
_SET_WATCHES_XID: Final = -8
_EVENTS: Final = {
    1: EventType.CREATED,
    2: EventType.DELETED,
    3: EventType.CHANGED,
    4: EventType.CHILD,
}
_TOLD: Final = {
    EventType.CREATED: WatchEvent.CREATED,
    EventType.DELETED: WatchEvent.DELETED,
    EventType.CHANGED: WatchEvent.CHANGED,
    EventType.CHILD: WatchEvent.CHILDREN,
}


class Server(Protocol):
    """One run of the parent."""

    process: Process
    serving: Serving

    def group_of(self, name: str) -> int:
        """Whose sessions come from the process of this name."""

    def told(self, zxid: int) -> None:
        """A process was told of this change, which nothing may take back."""

    def process_ended(self, name: str) -> None: ...


class _Call:
    """Requests that were handed in together."""

    def __init__(self, requests: Sequence[Request], then: Callable[[list[Any]], None]) -> None:
        self.requests = requests
        self.then = then
        self.results: list[Any] = []


class TreeClient:
    """Implements `ZooKeeper`, and what befalls a client of a simulated ZooKeeper."""

    def __init__(
        self, parent: Server, session: Session, process: Process, session_timeout_ms: int, delay_ms: Delay
    ) -> None:
        self._parent = parent
        self._told = session
        self._process = process
        self._timeout_ms = session_timeout_ms
        self._to_parent = Link(parent.process, delay_ms)
        self._to_client = Link(process, delay_ms)
        self._connection: TreeConnection | None = None
        """At the parent's end."""
        self._attempt = 0
        self._is_connected = False
        self._is_dead = False
        self.session_id = 0
        self._password = bytes(PASSWORD_BYTES)
        self._last_zxid = 0
        self._next_xid = 1
        self._waiting: deque[tuple[_Call, Request]] = deque()
        self._in_flight: deque[tuple[int, Any, _Call, Request]] = deque()
        self._data_watches: dict[str, None] = {}
        self._missing_watches: dict[str, None] = {}
        self._child_watches: dict[str, None] = {}
        self._received = bytearray()
        self._has_answer = False
        """Whether the parent has answered this connection."""
        self._heard_ms = 0
        self._connect()
        process.call_later(session_timeout_ms // 3, self._ping)

    def execute(self, requests: Sequence[Request], then: Callable[[list[Any]], None]) -> None:
        if not self.session_id or not requests:
            self._process.call_soon(lambda: then([ZooKeeperError.SESSION_EXPIRED] * len(requests)))
            return
        call = _Call(tuple(requests), then)
        self._waiting.extend((call, request) for request in call.requests)
        self._send_waiting()

    # What happens to it

    def kill(self) -> None:
        """The process is gone. What it had sent may still arrive, before its end is seen."""
        self._die(self._process.world.rng.randint(0, len(self._to_parent)))

    def close(self) -> None:
        """End the session, as an orderly stop does."""
        if self._is_connected:
            self._send(_HEADER.pack(self._next_xid, Op.CLOSE_SESSION))
        self._die(len(self._to_parent))

    def _die(self, arriving: int) -> None:
        self._is_dead = True
        for arrive in self._to_parent.clear()[:arriving]:
            self._to_parent.send(arrive)
        self._to_client.clear()
        self._waiting.clear()
        self._in_flight.clear()

        def end() -> None:
            if self._connection is not None:
                self._connection.lose()
            self._parent.process_ended(self._process.name)

        self._to_parent.send(end)

    def lose_connection(self) -> None:
        """The parent did not answer in time: try again, in the same session."""
        connection, self._connection = self._connection, None
        was_connected, self._is_connected = self._is_connected, False
        self._to_client.clear()
        if connection is not None:
            self._to_parent.send(connection.lose)
        lost = [(call, request) for _, _, call, request in self._in_flight]
        self._in_flight.clear()
        self._waiting.extendleft(reversed(lost))
        if was_connected and self.session_id:
            self._process.call_soon(lambda: self._told.connection_changed(False))
        self._connect()

    def pause(self) -> None:
        """Nothing to do: its process sends nothing while it stands still."""

    def resume(self) -> None:
        """Nothing to do: its process finds what came meanwhile."""

    def cut(self) -> None:
        raise AssertionError("nothing cuts the loopback interface")

    def heal(self) -> None:
        """Nothing to do: see `cut`."""

    # Connection

    def _connect(self) -> None:
        self._received.clear()
        self._has_answer = False
        self._heard_ms = self._process.world.now_ms
        password = self._password if self.session_id else bytes(PASSWORD_BYTES)
        asked = wire.Connect(0, self._last_zxid, self._timeout_ms, self.session_id, password, False)
        frame = bytes(asked.serialize())
        made: list[TreeConnection] = []
        self._attempt = attempt = self._attempt + 1

        def accept() -> None:
            if attempt != self._attempt:
                return  # it was given up
            connection = self._parent.serving.connect(
                lambda data: self._to_client.send(lambda: self._receive(made[0], data)),
                lambda: self._to_client.send(lambda: self._closed(made[0])),
                self._parent.group_of(self._process.name),
            )
            made.append(connection)
            self._connection = connection
            connection.receive(_LENGTH.pack(len(frame)) + frame)

        self._to_parent.send(accept)

    def _closed(self, connection: TreeConnection) -> None:
        if connection is self._connection:
            self._connection = None
            self.lose_connection()

    def _ping(self) -> None:
        if self._process.world.now_ms - self._heard_ms > self._timeout_ms * 2 // 3:
            self.lose_connection()
        elif self._is_connected:
            self._send(_HEADER.pack(PING_XID, Op.PING))
        self._process.call_later(self._timeout_ms // 3, self._ping)

    def _send(self, frame: bytes) -> None:
        connection = self._connection
        assert connection is not None
        self._to_parent.send(lambda: connection.receive(_LENGTH.pack(len(frame)) + frame))

    def _send_waiting(self) -> None:
        while self._is_connected and self._waiting:
            call, request = self._waiting.popleft()
            asked = on_the_wire(request, "", sets_acls=False)
            xid, self._next_xid = self._next_xid, self._next_xid + 1
            self._in_flight.append((xid, asked, call, request))
            self._send(_HEADER.pack(xid, asked.type) + bytes(asked.serialize()))

    # What the parent says

    def _receive(self, connection: TreeConnection, data: bytes) -> None:
        if connection is not self._connection:
            return
        self._heard_ms = self._process.world.now_ms
        self._received += data
        while connection is self._connection and len(self._received) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._received)
            if len(self._received) < _LENGTH.size + size:
                return
            frame = bytes(self._received[_LENGTH.size : _LENGTH.size + size])
            del self._received[: _LENGTH.size + size]
            if self._has_answer:
                self._take(frame)
            else:
                self._has_answer = True
                self._begin(frame)

    def _begin(self, frame: bytes) -> None:
        answer, _ = wire.Connect.deserialize(frame, 0)
        if not answer.session_id:
            self._end_session()
            return
        is_new = answer.session_id != self.session_id
        self.session_id, self._password = answer.session_id, answer.passwd
        self._is_connected = True
        if is_new:
            self._told.session_began(self.session_id)
        else:
            data = [path for path in self._data_watches if path not in self._missing_watches]
            again = SetWatchesRequest(self._last_zxid, data, list(self._missing_watches), list(self._child_watches))
            self._send(_HEADER.pack(_SET_WATCHES_XID, again.type) + again.serialize())
            self._told.connection_changed(True)
        self._send_waiting()

    def _end_session(self) -> None:
        """It has expired; the parent closes the connection, and the next one begins another."""
        was_told, self.session_id = self.session_id, 0
        self._is_connected = False
        lost = [*(call for _, _, call, _ in self._in_flight), *(call for call, _ in self._waiting)]
        self._in_flight.clear()
        self._waiting.clear()
        for watches in (self._data_watches, self._missing_watches, self._child_watches):
            watches.clear()
        for call in lost:
            self._give(call, ZooKeeperError.SESSION_EXPIRED)
        if was_told:
            self._told.session_ended()

    def _take(self, frame: bytes) -> None:
        header, offset = wire.ReplyHeader.deserialize(frame, 0)
        if header.xid == WATCH_XID:
            watch, _ = wire.Watch.deserialize(frame, offset)
            self._fire(_EVENTS[watch.type], watch.path)
            return
        self._parent.told(header.zxid)
        self._last_zxid = max(self._last_zxid, header.zxid)
        if header.xid in (PING_XID, _SET_WATCHES_XID):
            return
        xid, asked, call, request = self._in_flight.popleft()
        assert header.xid == xid, "answers come in order"
        self._give(call, self._result(asked, request, header.err, frame, offset))

    def _result(self, asked: Any, request: Request, error: int, frame: bytes, offset: int) -> Any:
        if error == ErrorNumber.NO_NODE and isinstance(request, Exists):
            if request.watch:
                self._missing_watches[request.path] = None
                self._data_watches[request.path] = None
            return ZooKeeperError.NO_NODE
        if error:
            return error_of(EXCEPTIONS[error]())
        match request:
            case Exists(path, watch=True) | Get(path, watch=True):
                self._data_watches[path] = None
            case Children(path, watch=True):
                self._child_watches[path] = None
        return result_of(request, asked.deserialize(frame, offset), "")

    def _give(self, call: _Call, result: Any) -> None:
        call.results.append(result)
        if len(call.results) == len(call.requests):
            call.then(call.results)

    def _fire(self, event: str, path: str) -> None:
        self._missing_watches.pop(path, None)
        if event != EventType.CHILD:
            self._data_watches.pop(path, None)
        if event in (EventType.CHILD, EventType.DELETED):
            self._child_watches.pop(path, None)
        self._told.watch_fired(path, _TOLD[event])
