"""Serves a tree of znodes in ZooKeeper's protocol: bytes in, bytes out, sessions, watches.

What a client is sent shows nothing that is not on the disk: it is held back until `durable` says that the last change
before it is. Only answers to pings are not, so that a slow disk expires no session.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from highwater.broker.cluster.zookeeper import (
    Check,
    Create,
    Created,
    Multi,
    NodeData,
    Set,
    WatchEvent,
    ZooKeeperError,
)
from highwater.broker.tree import wire
from highwater.broker.tree.changes import Change, encode_change
from highwater.broker.tree.tree import Tree, Znode
from highwater.broker.tree.watches import WatchManager
from highwater.broker.tree.wire import Asked, ErrorNumber, Op, Unimplemented, WireError

_logger = logging.getLogger(__name__)

MAX_FRAME_BYTES: Final = 16 << 20
LEAST_TIMEOUT_MS: Final = 1000
MOST_TIMEOUT_MS: Final = 300_000
TICK_MS: Final = 250
PASSWORD_BYTES: Final = 16
_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">ii")


class TreeConnection:
    """One client's connection, of which this knows no more than how to write and how to close."""

    def __init__(self, serving: Serving, write: Callable[[bytes], None], close: Callable[[], None], group: int) -> None:
        """`group` says whose sessions come over it: see `Serving.end_sessions_of`."""
        self._serving = serving
        self._write = write
        self._close = close
        self.group = group
        self.session_id = 0
        self._received = bytearray()
        self._held: deque[tuple[int, bytes]] = deque()
        self.is_closing = False
        """It is closed as soon as everything is sent."""

    def receive(self, data: bytes) -> None:
        self._received += data
        try:
            while not self.is_closing and (frame := self._next_frame()) is not None:
                self._serving.handle(self, frame)
        except WireError as error:
            _logger.warning("a client of the tree is cut off: %s", error)
            self.lose()
            self._close()

    def _next_frame(self) -> bytes | None:
        if len(self._received) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._received)
        if not 0 <= size <= MAX_FRAME_BYTES:
            raise WireError(f"it sends a frame of {size} bytes")
        end = _LENGTH.size + size
        if len(self._received) < end:
            return None
        frame = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return frame

    def send(self, data: bytes, zxid: int) -> None:
        """Send it when that change, and all that was sent before, is durable."""
        self._held.append((zxid, data))
        self.release()

    def close_after(self, zxid: int) -> None:
        """Take nothing more, and close it when that change is durable and everything is sent."""
        self.is_closing = True
        self._held.append((zxid, b""))
        self.release()

    def send_at_once(self, data: bytes) -> None:
        self._write(data)

    def release(self) -> None:
        durable_zxid = self._serving.durable_zxid
        while self._held and self._held[0][0] <= durable_zxid:
            self._write(self._held.popleft()[1])
        if self.is_closing and not self._held:
            self._close()

    def lose(self) -> None:
        """The connection is gone; its session goes on without it."""
        self.is_closing = True
        self._held.clear()
        self._serving.forget(self)


class Serving:
    def __init__(self, tree: Tree, now_ms: Callable[[], int], new_password: Callable[[], bytes]) -> None:
        """`tree` is as the journal has it. `now_ms` reads the wall clock, for the stat of nodes."""
        self.tree = tree
        self.durable_zxid = tree.zxid
        self.has_changes: Callable[[], None] = lambda: None
        """Called when there is something for the journal: `take_changes` has it."""
        self._now_ms = now_ms
        self._new_password = new_password
        self._changes: list[bytes] = []
        self._connections: dict[TreeConnection, None] = {}
        self._of_session: dict[int, TreeConnection] = {}
        self._group_of_session: dict[int, int] = {}
        self._watches: WatchManager[TreeConnection] = WatchManager()
        self._elapsed_ms = 0
        self._ticked_ms: int | None = None
        self._heard_ms = dict.fromkeys(tree.sessions, 0)
        tree.fired = self._fired
        tree.recorded = self._recorded

    def connect(self, write: Callable[[bytes], None], close: Callable[[], None], group: int = 0) -> TreeConnection:
        connection = TreeConnection(self, write, close, group)
        self._connections[connection] = None
        self._watches.add(connection)
        return connection

    def forget(self, connection: TreeConnection) -> None:
        self._connections.pop(connection, None)
        self._watches.remove(connection)
        if self._of_session.get(connection.session_id) is connection:
            del self._of_session[connection.session_id]

    # The journal

    def take_changes(self) -> tuple[bytes, int]:
        """Returns what the journal lacks, and the last transaction in it. There may be nothing."""
        changes, self._changes = self._changes, []
        return b"".join(changes), self.tree.zxid

    def durable(self, zxid: int) -> None:
        """All changes up to that are on the disk."""
        self.durable_zxid = zxid
        for connection in list(self._connections):
            connection.release()

    def _recorded(self, change: Change) -> None:
        self._changes.append(encode_change(change))
        self.has_changes()

    # Sessions

    def tick(self, monotonic_ms: int) -> None:
        """End sessions that were not heard of for long enough; to be called every TICK_MS.

        A tick that comes late counts as one: of a host or a process that stood still nobody could be heard.
        """
        if self._ticked_ms is not None:
            self._elapsed_ms += min(monotonic_ms - self._ticked_ms, 2 * TICK_MS)
        self._ticked_ms = monotonic_ms
        for session_id, heard_ms in list(self._heard_ms.items()):
            if self._elapsed_ms - heard_ms > self.tree.sessions[session_id].timeout_ms:
                _logger.info("session 0x%x has expired", session_id)
                self.end_session(session_id)

    def end_session(self, session_id: int) -> None:
        """Its ephemeral nodes go, and its client is cut off: it hears of it when it connects."""
        self._heard_ms.pop(session_id, None)
        self._group_of_session.pop(session_id, None)
        connection = self._of_session.pop(session_id, None)
        if connection is not None:
            self._watches.remove(connection)
        self.tree.close_session(session_id, self._now_ms())
        if connection is not None:
            connection.close_after(self.tree.zxid)

    def end_sessions_of(self, group: int) -> None:
        """End the sessions of this group: its process is gone for certain."""
        for session_id, of_group in list(self._group_of_session.items()):
            if of_group == group:
                self.end_session(session_id)

    def end_all_sessions(self) -> None:
        for session_id in list(self.tree.sessions):
            self.end_session(session_id)

    def _begin(self, connection: TreeConnection, frame: bytes) -> None:
        asked = wire.decode_connect(frame)
        if asked.last_zxid > self.tree.zxid:
            raise WireError(f"it has seen transaction {asked.last_zxid}, and the last one is {self.tree.zxid}")
        session = self.tree.sessions.get(asked.session_id)
        timeout_ms, session_id, password = 0, 0, bytes(PASSWORD_BYTES)
        if session is not None and session.password == asked.password:
            session_id, timeout_ms, password = asked.session_id, session.timeout_ms, session.password
            self._replace_connection_of(session_id)
        elif not asked.session_id:
            timeout_ms = min(max(asked.timeout_ms, LEAST_TIMEOUT_MS), MOST_TIMEOUT_MS)
            password = self._new_password()
            session_id = self.tree.open_session(password, timeout_ms, self._now_ms())
        if session_id:
            connection.session_id = session_id
            self._of_session[session_id] = connection
            self._group_of_session[session_id] = connection.group
            self._heard_ms[session_id] = self._elapsed_ms
        answer = wire.connect_response(timeout_ms, session_id, password, tells_read_only=asked.tells_read_only)
        connection.send(answer, self.tree.zxid)
        if not session_id:
            connection.close_after(self.tree.zxid)

    def _replace_connection_of(self, session_id: int) -> None:
        """Its client came again before the end of its last connection was seen."""
        last = self._of_session.pop(session_id, None)
        if last is not None:
            self._watches.remove(last)
            last.close_after(self.tree.zxid)

    # Requests

    def handle(self, connection: TreeConnection, frame: bytes) -> None:
        """Raises WireError."""
        if not connection.session_id:
            self._begin(connection, frame)
            return
        self._heard_ms[connection.session_id] = self._elapsed_ms
        reader = wire.RequestReader(frame)
        xid, number = reader.unpack(_HEADER)
        if number == Op.PING:
            connection.send_at_once(wire.reply(wire.PING_XID, self.durable_zxid))
            return
        error, body = ErrorNumber.OK, b""
        try:
            if number == Op.CLOSE_SESSION:
                self._close(connection, xid)
                return
            error, body = self._answer(connection, Op(number), reader)
        except (ValueError, Unimplemented):
            error = ErrorNumber.UNIMPLEMENTED
        connection.send(wire.reply(xid, self.tree.zxid, error, body), self.tree.zxid)

    def _close(self, connection: TreeConnection, xid: int) -> None:
        session_id = connection.session_id
        self._heard_ms.pop(session_id, None)
        self._group_of_session.pop(session_id, None)
        self._of_session.pop(session_id, None)
        self._watches.remove(connection)
        self.tree.close_session(session_id, self._now_ms())
        connection.send(wire.reply(xid, self.tree.zxid), self.tree.zxid)
        connection.close_after(self.tree.zxid)

    def _answer(self, connection: TreeConnection, op: Op, reader: wire.RequestReader) -> tuple[ErrorNumber, bytes]:
        match op:
            case Op.AUTH:
                return ErrorNumber.OK, b""
            case Op.SET_WATCHES:
                self._watch_again(connection, wire.decode_set_watches(reader))
                return ErrorNumber.OK, b""
            case Op.SYNC:
                return ErrorNumber.OK, wire.path_bytes(reader.text())
            case Op.CHECK:
                raise Unimplemented
        asked = wire.decode_asked(op, reader)
        request = asked.request
        assert not isinstance(request, Check)
        result = self.tree.execute(connection.session_id, request, self._now_ms())
        self._watches.note(connection, request, result)
        if isinstance(result, ZooKeeperError):
            return wire.NUMBER_OF[result], b""
        return ErrorNumber.OK, self._body(asked, result)

    def _body(self, asked: Asked, result: Any) -> bytes:
        """The answer to a request that was carried out, its stat taken from the node as it is now."""
        if asked.op is Op.MULTI:
            return self._transaction_body(asked, result)
        if asked.op is Op.CREATE:
            return wire.path_bytes(result.path)
        if isinstance(result, Created):
            return wire.path_bytes(result.path) + wire.stat_bytes(self.tree.nodes[result.path])
        if asked.op is Op.DELETE:
            return b""
        assert not isinstance(asked.request, Multi)
        stat = wire.stat_bytes(self.tree.nodes[asked.request.path])
        if isinstance(result, NodeData):
            return wire.data_bytes(result.data) + stat
        if asked.op is Op.GET_ACL:
            return wire.open_acl_bytes() + stat
        if asked.op is Op.GET_CHILDREN:
            return wire.names_bytes(result)
        return wire.names_bytes(result) + stat if asked.op is Op.GET_CHILDREN_2 else stat

    def _transaction_body(self, asked: Asked, results: list[Any]) -> bytes:
        parts = []
        is_rolled_back = any(isinstance(result, ZooKeeperError) for result in results)
        has_failed = False
        for part, result in zip(asked.parts, results, strict=True):
            if is_rolled_back:
                is_cause = result is not ZooKeeperError.ROLLED_BACK
                has_failed = has_failed or is_cause
                # ZooKeeper's rule: those before the one that failed had nothing against them.
                error = wire.NUMBER_OF[result] if has_failed else ErrorNumber.OK
                parts.append(wire.failed_part_of_transaction(error))
                continue
            parts.append(wire.part_of_transaction(part.op, self._part_body(part, result)))
        return b"".join([*parts, wire.end_of_transaction()])

    def _part_body(self, part: Asked, result: Any) -> bytes:
        match part.request:
            case Create():
                path = wire.path_bytes(result.path)
                if part.op is Op.CREATE:
                    return path
                return path + wire.stat_bytes(self._node_after(result.path, result.stat))
            case Set(path):
                return wire.stat_bytes(self._node_after(path, result))
        return b""

    def _node_after(self, path: str, stat: Any) -> Znode:
        """The node of a transaction, which a later part of it may have written again or removed."""
        node = self.tree.nodes.get(path)
        if node is not None and node.version == stat.version:
            return node
        return Znode(
            czxid=stat.czxid,
            mzxid=stat.mzxid,
            pzxid=stat.czxid,
            created_ms=stat.created_ms,
            modified_ms=stat.created_ms,
            version=stat.version,
            owner=stat.ephemeral_owner,
        )

    # Watches

    def _watch_again(self, connection: TreeConnection, asked: wire.SetWatches) -> None:
        """Set the watches of a client that comes again, and send it the events that it has missed."""
        nodes, zxid = self.tree.nodes, asked.zxid
        for path in asked.data:
            if path not in nodes:
                self._tell(connection, path, WatchEvent.DELETED)
            elif nodes[path].mzxid > zxid:
                self._tell(connection, path, WatchEvent.CHANGED)
            else:
                self._watches.watch_data(connection, path)
        for path in asked.exists:
            if path in nodes:
                self._tell(connection, path, WatchEvent.CREATED)
            else:
                self._watches.watch_data(connection, path)
        for path in asked.children:
            if path not in nodes:
                self._tell(connection, path, WatchEvent.DELETED)
            elif nodes[path].pzxid > zxid:
                self._tell(connection, path, WatchEvent.CHILDREN)
            else:
                self._watches.watch_children(connection, path)

    def _fired(self, path: str, event: WatchEvent) -> None:
        for connection in self._watches.fire(path, event):
            self._tell(connection, path, event)

    def _tell(self, connection: TreeConnection, path: str, event: WatchEvent) -> None:
        connection.send(wire.watch_event(event, path), self.tree.zxid)
