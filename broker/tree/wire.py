"""ZooKeeper's wire format (jute): requests decoded, answers encoded.

Field names and numbers are those of zookeeper.jute and of ZooDefs.OpCode of Apache ZooKeeper 3.9.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, Final, NamedTuple

from highwater.broker.cluster.zookeeper import (
    Check,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    Request,
    Set,
    WatchEvent,
    ZooKeeperError,
)
from highwater.broker.tree.tree import Znode

WATCH_XID: Final = -1
PING_XID: Final = -2
NO_TYPE: Final = -1
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_HEADER: Final = struct.Struct(">iqi")
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_CONNECT: Final = struct.Struct(">iqiq")
_MULTI_HEADER: Final = struct.Struct(">i?i")
_WATCH_EVENT: Final = struct.Struct(">ii")
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2
_CONNECTED: Final = 3
_ALL_PERMISSIONS: Final = 31


class Op(IntEnum):
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN_2 = 12
    CHECK = 13
    MULTI = 14
    CREATE_2 = 15
    AUTH = 100
    SET_WATCHES = 101
    CLOSE_SESSION = -11


class ErrorNumber(IntEnum):
    """KeeperException.Code."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112


NUMBER_OF: Final = {
    ZooKeeperError.NO_NODE: ErrorNumber.NO_NODE,
    ZooKeeperError.NODE_EXISTS: ErrorNumber.NODE_EXISTS,
    ZooKeeperError.NOT_EMPTY: ErrorNumber.NOT_EMPTY,
    ZooKeeperError.BAD_VERSION: ErrorNumber.BAD_VERSION,
    ZooKeeperError.SESSION_EXPIRED: ErrorNumber.SESSION_EXPIRED,
    ZooKeeperError.ROLLED_BACK: ErrorNumber.RUNTIME_INCONSISTENCY,
    ZooKeeperError.REFUSED: ErrorNumber.NO_CHILDREN_FOR_EPHEMERALS,
    ZooKeeperError.MALFORMED: ErrorNumber.BAD_ARGUMENTS,
}
_EVENT_NUMBERS: Final = {
    WatchEvent.CREATED: 1,
    WatchEvent.DELETED: 2,
    WatchEvent.CHANGED: 3,
    WatchEvent.CHILDREN: 4,
}


class WireError(Exception):
    """Bytes that are no request; the connection cannot go on."""


class Unimplemented(Exception):  # noqa: N818 - the name of the code that the client gets
    """A request of ZooKeeper's that is not served here."""


class ConnectRequest(NamedTuple):
    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes
    tells_read_only: bool
    """The client sends, and expects, the field of ZooKeeper 3.4 and later."""


class Asked(NamedTuple):
    """A request for the tree, with the type that says how to answer it."""

    op: Op
    request: Request | Check
    parts: tuple[Asked, ...] = ()
    """The requests of a transaction."""


class SetWatches(NamedTuple):
    zxid: int
    data: list[str]
    exists: list[str]
    children: list[str]


class RequestReader:
    """Reads one field after another, and no byte beyond the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._data)

    def take(self, size: int) -> bytes:
        found = self._data[self._position : self._position + size]
        if len(found) < size:
            raise WireError("a request ends too early")
        self._position += size
        return found

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self.take(form.size))

    def int(self) -> int:
        return int(self.unpack(_INT)[0])

    def boolean(self) -> bool:
        return self.take(1) != b"\0"

    def buffer(self) -> bytes:
        size = self.int()
        return self.take(size) if size > 0 else b""

    def text(self) -> str:
        try:
            return self.buffer().decode()
        except UnicodeDecodeError:
            raise WireError("a path is not UTF-8") from None

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.int())]


def decode_connect(frame: bytes) -> ConnectRequest:
    reader = RequestReader(frame)
    _, last_zxid, timeout_ms, session_id = reader.unpack(_CONNECT)
    password = reader.buffer()
    return ConnectRequest(last_zxid, timeout_ms, session_id, password, not reader.is_at_end)


def decode_asked(op: Op, reader: RequestReader) -> Asked:
    """Raises WireError, and Unimplemented for kinds of nodes that are not served."""
    if op is Op.MULTI:
        return _decode_transaction(reader)
    path = reader.text()
    request: Request | Check
    match op:
        case Op.CREATE | Op.CREATE_2:
            data = reader.buffer()
            for _ in range(reader.int()):  # the ACL: whoever comes this far may do everything
                reader.int()
                reader.text()
                reader.text()
            flags = reader.int()
            if flags & ~(_EPHEMERAL | _SEQUENTIAL):
                raise Unimplemented
            request = Create(path, data, bool(flags & _EPHEMERAL), bool(flags & _SEQUENTIAL))
        case Op.DELETE:
            request = Delete(path, reader.int())
        case Op.EXISTS:
            request = Exists(path, reader.boolean())
        case Op.GET_DATA:
            request = Get(path, reader.boolean())
        case Op.SET_DATA:
            request = Set(path, reader.buffer(), reader.int())
        case Op.GET_CHILDREN | Op.GET_CHILDREN_2:
            request = Children(path, reader.boolean())
        case Op.CHECK:
            request = Check(path, reader.int())
        case _:
            request = Exists(path)
    return Asked(op, request)


def _decode_transaction(reader: RequestReader) -> Asked:
    parts: list[Asked] = []
    while True:
        number, is_end, _ = reader.unpack(_MULTI_HEADER)
        if is_end:
            break
        if number not in (Op.CREATE, Op.CREATE_2, Op.DELETE, Op.SET_DATA, Op.CHECK):
            raise Unimplemented
        parts.append(decode_asked(Op(number), reader))
    requests = tuple(part.request for part in parts if isinstance(part.request, Create | Set | Delete | Check))
    return Asked(Op.MULTI, Multi(requests), tuple(parts))


def decode_set_watches(reader: RequestReader) -> SetWatches:
    (zxid,) = reader.unpack(_LONG)
    return SetWatches(zxid, reader.texts(), reader.texts(), reader.texts())


# Answers


def connect_response(timeout_ms: int, session_id: int, password: bytes, *, tells_read_only: bool) -> bytes:
    """A time-out of 0 says that the session is over."""
    body = struct.pack(">iiq", 0, timeout_ms, session_id) + _buffer(password)
    return _frame(body + b"\0" if tells_read_only else body)


def reply(xid: int, zxid: int, error: int = ErrorNumber.OK, body: bytes = b"") -> bytes:
    return _frame(_HEADER.pack(xid, zxid, error) + body)


def watch_event(event: WatchEvent, path: str) -> bytes:
    body = _WATCH_EVENT.pack(_EVENT_NUMBERS[event], _CONNECTED) + _text(path)
    return reply(WATCH_XID, -1, body=body)


def stat_bytes(node: Znode) -> bytes:
    return _STAT.pack(
        node.czxid,
        node.mzxid,
        node.created_ms,
        node.modified_ms,
        node.version,
        2 * node.creations - len(node.children),  # as ZooKeeper counts the changes of the children
        0,
        node.owner,
        len(node.data),
        len(node.children),
        node.pzxid,
    )


def path_bytes(path: str) -> bytes:
    return _text(path)


def data_bytes(data: bytes) -> bytes:
    """Encode data; empty data become null, as in Kafka's nodes: no client distinguishes the two."""
    return _buffer(data) if data else _INT.pack(-1)


def names_bytes(names: list[str]) -> bytes:
    return _INT.pack(len(names)) + b"".join(map(_text, names))


def open_acl_bytes() -> bytes:
    """Everybody may do everything."""
    return _INT.pack(1) + _INT.pack(_ALL_PERMISSIONS) + _text("world") + _text("anyone")


def part_of_transaction(op: Op, body: bytes) -> bytes:
    return _MULTI_HEADER.pack(op, False, 0) + body


def failed_part_of_transaction(error: int) -> bytes:
    return _MULTI_HEADER.pack(NO_TYPE, False, error) + _INT.pack(error)


def end_of_transaction() -> bytes:
    return _MULTI_HEADER.pack(NO_TYPE, True, -1)


def _frame(body: bytes) -> bytes:
    return _INT.pack(len(body)) + body


def _buffer(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _text(text: str) -> bytes:
    return _buffer(text.encode())
