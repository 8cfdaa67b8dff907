"""kazoo as broker/server/zookeeper.py uses it: its connection, sessions and wire format.

A client that loses neither requests nor watches when a connection breaks within a session, and that reports events in
their order, in its one thread. Nothing of kazoo below `KazooClient` is public, so 2.x is pinned.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.protocol import serialization as wire
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from highwater.broker.cluster.znode_acls import ZnodeAcl, znode_acl
from highwater.broker.cluster.zookeeper import (
    Check,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    Get,
    Multi,
    NodeData,
    Request,
    Set,
    Stat,
    WatchEvent,
    ZooKeeperError,
)
from highwater.kafka.client.host_processes import LOCAL
from highwater.kafka.client.secure_kazoo import Failure, SecureHandler, secure
from highwater.kafka.client.zookeeper_security import ZooKeeperSecurity

_logger = logging.getLogger(__name__)
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)  # it has several lines for what has one here

_PATHS_PER_SET_WATCHES: Final = 1000
"""Below jute.maxbuffer, 1 MB, whatever their length."""


class SessionListener(Protocol):
    """Gets what kazoo reports, in kazoo's thread."""

    def answered(self, answer: KazooResult, result: Any) -> None: ...

    def connected(self, session_id: int, password: bytes, *, is_new: bool) -> None: ...

    def disconnected(self) -> None: ...

    def connection_failed(self, failure: Failure) -> None:
        """Another try follows, unless `closed` does."""

    def session_expired(self) -> None:
        """Another follows by itself."""

    def closed(self, reason: str) -> None:
        """Nothing follows."""

    def watch_fired(self, path: str, event: WatchEvent) -> None: ...


class KazooResult:
    """What kazoo reports about one request: its AsyncResult, as far as its connection uses that."""

    __slots__ = ("_client", "request")

    def __init__(self, client: ZooKeeperClient, request: Request) -> None:
        self._client = client
        self.request = request

    def set(self, value: Any) -> None:
        self._client.answered(self, value)

    def set_exception(self, error: Exception) -> None:
        self._client.listener.answered(self, error_of(error))


_ERRORS: Final = {
    exceptions.NoNodeError: ZooKeeperError.NO_NODE,
    exceptions.NodeExistsError: ZooKeeperError.NODE_EXISTS,
    exceptions.NotEmptyError: ZooKeeperError.NOT_EMPTY,
    exceptions.BadVersionError: ZooKeeperError.BAD_VERSION,
    exceptions.SessionExpiredError: ZooKeeperError.SESSION_EXPIRED,
    exceptions.ConnectionClosedError: ZooKeeperError.SESSION_EXPIRED,
    exceptions.RolledBackError: ZooKeeperError.ROLLED_BACK,
    exceptions.RuntimeInconsistency: ZooKeeperError.ROLLED_BACK,
    exceptions.NoAuthError: ZooKeeperError.REFUSED,
    exceptions.AuthFailedError: ZooKeeperError.REFUSED,
    exceptions.NoChildrenForEphemeralsError: ZooKeeperError.REFUSED,
    exceptions.SessionClosedRequireSaslError: ZooKeeperError.LOGIN_REQUIRED,
}


def error_of(error: Exception) -> ZooKeeperError:
    known = _ERRORS.get(type(error))
    if known is None:
        _logger.error("ZooKeeper refused a request: %r", error)
        return ZooKeeperError.MALFORMED
    return known


def result_of(request: Request | Check, value: Any, chroot: str) -> Any:
    match request:
        case Multi(requests):
            return [
                error_of(part) if isinstance(part, Exception) else result_of(asked, part, chroot)
                for asked, part in zip(requests, value, strict=True)
            ]
        case Get():
            data, stat = value
            return NodeData(data or b"", _stat_of(stat))
        case Create():
            path, stat = value
            return Created(path.removeprefix(chroot), _STAT_OF_A_NEW_NODE if stat is None else _stat_of(stat))
        case Exists():
            return ZooKeeperError.NO_NODE if value is None else _stat_of(value)
        case Set():
            return _stat_of(value)
        case Children():
            return value
    return None


_STAT_OF_A_NEW_NODE: Final = Stat(version=0, czxid=0, ephemeral_owner=0)
"""The stat if the server reports no more than that the node was made."""


def _stat_of(stat: ZnodeStat) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ephemeralOwner, stat.ctime, stat.mzxid)


def _watcher(event: Any) -> None:
    """Stands for every watch in kazoo's registers; `_Handler` knows what to do."""


_ACLS: Final = {
    ZnodeAcl.OPEN: OPEN_ACL_UNSAFE,
    ZnodeAcl.READABLE: [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE],
    ZnodeAcl.CLOSED: CREATOR_ALL_ACL,
}


def on_the_wire(request: Request | Check, chroot: str, *, sets_acls: bool) -> Any:
    match request:
        case Get(path, watch):
            return wire.GetData(chroot + path, _watcher if watch else None)
        case Exists(path, watch):
            return wire.Exists(_rooted(chroot, path), _watcher if watch else None)
        case Children(path, watch):
            return wire.GetChildren(_rooted(chroot, path), _watcher if watch else None)
        case Create(path, data, is_ephemeral, is_sequential):
            # Kafka's nodes without data have none at all.
            acl = _ACLS[znode_acl(path) if sets_acls else ZnodeAcl.OPEN]
            return wire.Create2(chroot + path, data or None, acl, is_ephemeral | is_sequential << 1)
        case Set(path, data, version):
            return wire.SetData(chroot + path, data, version)
        case Delete(path, version):
            return wire.Delete(chroot + path, version)
        case Check(path, version):
            return wire.CheckVersion(chroot + path, version)
        case Multi(requests):
            return _Multi([on_the_wire(part, chroot, sets_acls=sets_acls) for part in requests])


def _rooted(chroot: str, path: str) -> str:
    return chroot + path if path != "/" else chroot or path


class _Multi(wire.Transaction):  # type: ignore[misc]
    """Replaces kazoo's, which cannot read the answer to a creation that has the stat too.

    Servers that lack ZOOKEEPER-4026, such as Debian 12's 3.8.0, answer in a transaction as if no stat was asked for.
    """

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[Any]:
        results: list[Any] = []
        header, offset = wire.MultiHeader.deserialize(data, offset)
        while not header.done:
            result: Any = None
            if header.type == wire.Create.type:
                path, offset = wire.read_string(data, offset)
                result = path, None
            elif header.type == wire.Create2.type:
                path, offset = wire.read_string(data, offset)
                result = path, ZnodeStat._make(wire.stat_struct.unpack_from(data, offset))
                offset += wire.stat_struct.size
            elif header.type == wire.SetData.type:
                result = ZnodeStat._make(wire.stat_struct.unpack_from(data, offset))
                offset += wire.stat_struct.size
            elif header.type == -1:
                result = exceptions.EXCEPTIONS[wire.int_struct.unpack_from(data, offset)[0]]()
                offset += wire.int_struct.size
            results.append(result)
            header, offset = wire.MultiHeader.deserialize(data, offset)
        return results


class SetWatchesRequest(NamedTuple):
    """Watch these again, and report what happened meanwhile: ZooKeeper's own client sends it too, kazoo does not."""

    relative_zxid: int
    data: Sequence[str]
    exists: Sequence[str]
    children: Sequence[str]

    @property
    def type(self) -> int:
        return 101

    def serialize(self) -> bytes:
        body = bytearray(wire.long_struct.pack(self.relative_zxid))
        for paths in (self.data, self.exists, self.children):
            body += wire.int_struct.pack(len(paths))
            for path in paths:
                body += wire.write_string(path)
        return bytes(body)

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> bool:
        return True


class _Handler(SecureHandler):
    """Runs callbacks where they come up, in the thread of the connection, and so in its order."""

    def __init__(
        self, connect_timeout_s: float, watch_fired: Callable[[WatchedEvent], None], tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(tls)
        self._connect_timeout_s = connect_timeout_s
        self._watch_fired = watch_fired
        self._last_event: WatchedEvent | None = None

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        event = callback.args[0]
        if event is not self._last_event:  # a node that is gone ends the watches of its data and its children
            self._last_event = event
            self._watch_fired(event)

    def create_connection(self, *args: Any, timeout: float, **options: Any) -> Any:
        """Limit the wait for one server, like ZooKeeper's own client, so that there is time for the others."""
        return super().create_connection(*args, timeout=min(timeout, self._connect_timeout_s), **options)


_CONNECTED: Final = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
_CLOSED: Final = (KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED, KeeperState.CLOSED)
_EVENTS: Final = {
    EventType.CREATED: WatchEvent.CREATED,
    EventType.DELETED: WatchEvent.DELETED,
    EventType.CHANGED: WatchEvent.CHANGED,
    EventType.CHILD: WatchEvent.CHILDREN,
}


class ZooKeeperClient(KazooClient):  # type: ignore[misc]
    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        listener: SessionListener,
        security: ZooKeeperSecurity,
        last_session: tuple[int, bytes] | None = None,
    ) -> None:
        """`hosts` have no chroot. With the id and the password of a session it is taken up, if it is alive."""
        self.listener = listener
        self.prefix = ""
        """The chroot: it goes before all paths of requests, and is not in answers."""
        self._lock = threading.RLock()
        """Held for moments: a request is of the session that there is when it is handed over."""
        self._told_session_id: int | None = None
        self._missing: set[str] = set()
        """Where a watch waits for a node to be made."""
        self._sets_acls = security.sets_acls
        handler = _Handler(session_timeout_ms / 1000 / (hosts.count(",") + 1), self._fire, security.tls)
        handler.local_address = hosts if hosts.startswith(LOCAL) else ""
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            client_id=last_session,
            handler=handler,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0, sleep_func=handler.sleep_func),
            logger=_kazoo_logger,
        )
        secure(self, security, listener.connection_failed, gives_up=True)

    def ask(self, session_id: int, answer: KazooResult) -> None:
        """Have a request carried out in this session, or answered that it is over."""
        request = on_the_wire(answer.request, self.prefix, sets_acls=self._sets_acls)
        with self._lock:
            if self._session_id == session_id:
                self._call(request, answer)
                return
        answer.set_exception(exceptions.SessionExpiredError())

    # What kazoo's connection calls, in its thread

    def answered(self, answer: KazooResult, value: Any) -> None:
        request = answer.request
        if value is None and isinstance(request, Exists) and request.watch:
            self._missing.add(_rooted(self.prefix, request.path))
        self.listener.answered(answer, result_of(request, value, self.prefix))

    def _session_callback(self, state: KeeperState) -> None:
        with self._lock:
            if state == self._state:
                return
            was_closed = self._state in _CLOSED
            is_new_session = self._session_id != self._told_session_id
            if state in _CONNECTED and not is_new_session:
                self._watch_again()
            super()._session_callback(state)
        if state in _CONNECTED:
            self._told_session_id = self._session_id
            self.listener.connected(self._session_id, self._session_passwd, is_new=is_new_session)
        elif state == KeeperState.EXPIRED_SESSION:
            self.listener.session_expired()
        elif state in _CLOSED:
            self.listener.closed(f"ZooKeeper: {state.lower().replace('_', ' ')}")
        elif not was_closed:
            self.listener.disconnected()

    def _notify_pending(self, state: KeeperState) -> None:
        """Ask again, before all that waits, what was asked over a connection that broke."""
        if state in _CLOSED:
            super()._notify_pending(state)
            return
        lost = [(request, answer) for request, answer, _ in self._pending if not isinstance(request, SetWatchesRequest)]
        self._pending.clear()
        self._queue.extendleft(reversed(lost))
        self._wake(len(lost))

    def _wake(self, count: int) -> None:
        self._connection._write_sock.send(bytes(count))

    def _reset_watchers(self) -> None:
        """Watches outlive connections, and end with the session."""
        if self._state in _CLOSED:
            self._child_watchers.clear()
            self._data_watchers.clear()
            self._missing.clear()

    def _watch_again(self) -> None:
        watches = [(int(path in self._missing), path) for path in self._data_watchers]
        watches += [(2, path) for path in self._child_watchers]
        for first in range(0, len(watches), _PATHS_PER_SET_WATCHES):
            paths: tuple[list[str], list[str], list[str]] = [], [], []
            for kind, path in watches[first : first + _PATHS_PER_SET_WATCHES]:
                paths[kind].append(path)
            self._queue.appendleft((SetWatchesRequest(self.last_zxid, *paths), None))
            self._wake(1)

    def _fire(self, event: WatchedEvent) -> None:
        self._missing.discard(event.path)
        self.listener.watch_fired(event.path.removeprefix(self.prefix) or "/", _EVENTS[event.type])
