"""A ZooKeeper ensemble in memory: sessions, ephemeral and sequential nodes, watches, versions, transactions.

With a scheduler of a test it answers at once (`call_soon`); a simulation gives delays, and cuts, breaks, pauses and
kills its clients. What ZooKeeper promises is kept: each client's requests are carried out in order and answered in
order, and it is told of a watched change before any answer that shows it. What it does not promise is tried: a request
of a connection that breaks may or may not be carried out, and is asked again in the same session.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from highwater.broker.clock import Clock, Scheduler, Timer
from highwater.broker.cluster.zookeeper import (
    ANY_VERSION,
    Check,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    Get,
    Node,
    Request,
    Session,
    Set,
    Stat,
    Transaction,
    WatchEvent,
    ZooKeeperError,
)
from tests.broker.simulation.link import Delay, Link

_FIRST_SESSION_ID: Final = 0x1000000


class _Znode:
    __slots__ = ("children", "data", "next_sequence", "stat")

    def __init__(self, data: bytes, stat: Stat) -> None:
        self.data = data
        self.stat = stat
        self.children: dict[str, None] = {}
        self.next_sequence = 0


class _ServerSession:
    def __init__(self, session_id: int, timeout_ms: int) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.ephemerals: dict[str, None] = {}
        self.data_watches: set[str] = set()
        self.child_watches: set[str] = set()
        self.expiry: Timer | None = None
        self.tell: Callable[[str, WatchEvent], None] = lambda path, event: None
        self.expired: Callable[[], None] = lambda: None


class Ensemble:
    """The servers, which are one here; and, for tests, the hand of an administrator."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.zxid = 0
        self.is_up = True
        self.clock: Clock | None = None
        """Tells when nodes were made, if that matters."""
        self.changed: Callable[[str, bytes | None], None] = lambda path, data: None
        """Told of every node that was created or set, with what it holds, or that went (None)."""
        self._nodes: dict[str, _Znode] = {"/": _Znode(b"", Stat(0, 0, 0))}
        self._sessions: dict[int, _ServerSession] = {}
        self._session_ids = itertools.count(_FIRST_SESSION_ID)
        self._clients: list[SimulatedZooKeeper] = []

    def client(
        self,
        session: Session,
        *,
        scheduler: Scheduler | None = None,
        session_timeout_ms: int = 18_000,
        delay_ms: Delay = lambda: 0,
        rng: random.Random | None = None,
    ) -> SimulatedZooKeeper:
        """A client, whose session begins soon. Its callbacks come from `scheduler`, which may be its own process's."""
        client = SimulatedZooKeeper(self, session, scheduler or self.scheduler, session_timeout_ms, delay_ms, rng)
        self._clients.append(client)
        return client

    # The hand of an administrator: at once, outside of all sessions

    def do(self, request: Request) -> Any:
        return self.execute(None, request)

    def data(self, path: str) -> bytes | None:
        node = self._nodes.get(path)
        return None if node is None else node.data

    def stat(self, path: str) -> Stat | None:
        node = self._nodes.get(path)
        return None if node is None else node.stat

    def children(self, path: str) -> list[str]:
        return sorted(self._nodes[path].children) if path in self._nodes else []

    def make(self, path: str, data: bytes = b"") -> None:
        """Create a node with its parents, or set it."""
        parts = path.split("/")[1:]
        for depth in range(1, len(parts)):
            self.do(Create("/" + "/".join(parts[:depth])))
        if isinstance(self.do(Create(path, data)), ZooKeeperError):
            self.do(Set(path, data))

    def expire(self, session_id: int) -> None:
        """End a session: its ephemeral nodes go, and its client hears of it."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        self.zxid += 1
        for path in list(session.ephemerals):
            self._delete(path)
        session.expired()

    def stop(self) -> None:
        """All servers are down: sessions wait for them."""
        self.is_up = False
        for client in self._clients:
            client.lose_connection()

    def start(self) -> None:
        """Sessions have their whole time-out from now, as from a new leader of the ensemble."""
        self.is_up = True
        for client in self._clients:
            client.connect_soon()

    # For clients

    def open_session(self, timeout_ms: int) -> _ServerSession:
        self.zxid += 1
        session = _ServerSession(next(self._session_ids), timeout_ms)
        self._sessions[session.session_id] = session
        return session

    def is_open(self, session: _ServerSession) -> bool:
        return session.session_id in self._sessions

    def heard_from(self, session: _ServerSession, is_heard: bool) -> None:
        """Whether heartbeats of a session come in."""
        if is_heard:
            if session.expiry is not None:
                session.expiry.cancel()
                session.expiry = None
        elif session.expiry is None and self.is_open(session):
            session.expiry = self.scheduler.call_later(session.timeout_ms, lambda: self._time_is_up(session))

    def _time_is_up(self, session: _ServerSession) -> None:
        session.expiry = None
        if self.is_up:
            self.expire(session.session_id)
        else:
            self.heard_from(session, False)

    def execute(self, session: _ServerSession | None, request: Request) -> Any:
        match request:
            case Get(path, watch):
                node = self._nodes.get(path)
                if node is None:
                    return ZooKeeperError.NO_NODE
                if watch and session is not None:
                    session.data_watches.add(path)
                return Node(node.data, node.stat)
            case Exists(path, watch):
                if watch and session is not None:
                    session.data_watches.add(path)
                node = self._nodes.get(path)
                return ZooKeeperError.NO_NODE if node is None else node.stat
            case Children(path, watch):
                node = self._nodes.get(path)
                if node is None:
                    return ZooKeeperError.NO_NODE
                if watch and session is not None:
                    session.child_watches.add(path)
                return list(node.children)
            case Transaction(requests):
                return self._transact(session, requests)
        error = self._problem(request)
        if error is not None:
            return error
        self.zxid += 1
        return self._apply(session, request)

    def _transact(self, session: _ServerSession | None, requests: Sequence[Create | Set | Delete | Check]) -> list[Any]:
        # What the requests before it in the transaction did counts for each, so they are tried on copies.
        tried: dict[str, _Znode | None] = {}
        for number, request in enumerate(requests):
            error = self._problem(request, tried)
            if error is not None:
                rolled_back: list[Any] = [ZooKeeperError.ROLLED_BACK] * len(requests)
                rolled_back[number] = error
                return rolled_back
            self._try(request, tried)
        self.zxid += 1
        return [self._apply(session, request) for request in requests]

    def _try(self, request: Create | Set | Delete | Check, tried: dict[str, _Znode | None]) -> None:
        def copy_of(path: str) -> _Znode:
            node = self._look(path, tried)
            assert node is not None
            copy = _Znode(node.data, node.stat)
            copy.children = dict(node.children)
            tried[path] = copy
            return copy

        match request:
            case Create(path, data):
                copy_of(_parent(path)).children[_name(path)] = None
                tried[path] = _Znode(data, Stat(0, 0, 0))
            case Set(path):
                copy = copy_of(path)
                copy.stat = copy.stat._replace(version=copy.stat.version + 1)
            case Delete(path):
                copy_of(_parent(path)).children.pop(_name(path))
                tried[path] = None

    def _look(self, path: str, tried: dict[str, _Znode | None]) -> _Znode | None:
        return tried[path] if path in tried else self._nodes.get(path)

    def _problem(
        self, request: Create | Set | Delete | Check, tried: dict[str, _Znode | None] | None = None
    ) -> ZooKeeperError | None:
        tried = {} if tried is None else tried
        node = self._look(request.path, tried)
        if isinstance(request, Create):
            parent = self._look(_parent(request.path), tried)
            if parent is None:
                return ZooKeeperError.NO_NODE
            if parent.stat.ephemeral_owner:
                return ZooKeeperError.REFUSED
            return ZooKeeperError.NODE_EXISTS if node is not None and not request.is_sequential else None
        if node is None:
            return ZooKeeperError.NO_NODE
        if request.version not in (ANY_VERSION, node.stat.version):
            return ZooKeeperError.BAD_VERSION
        return ZooKeeperError.NOT_EMPTY if isinstance(request, Delete) and node.children else None

    def _apply(self, session: _ServerSession | None, request: Create | Set | Delete | Check) -> Any:
        match request:
            case Create(path, data, is_ephemeral, is_sequential):
                parent = self._nodes[_parent(path)]
                if is_sequential:
                    path += f"{parent.next_sequence:010d}"
                parent.next_sequence += 1
                assert session is not None or not is_ephemeral, "only a session makes ephemeral nodes"
                owner = session.session_id if is_ephemeral and session is not None else 0
                stat = Stat(0, self.zxid, owner, 0 if self.clock is None else self.clock.now_ms(), self.zxid)
                self._nodes[path] = _Znode(data, stat)
                parent.children[_name(path)] = None
                if is_ephemeral and session is not None:
                    session.ephemerals[path] = None
                self.changed(path, data)
                self._fire(path, WatchEvent.CREATED)
                self._fire(_parent(path), WatchEvent.CHILDREN)
                return Created(path, stat)
            case Set(path, data):
                node = self._nodes[path]
                node.data = data
                node.stat = node.stat._replace(version=node.stat.version + 1, mzxid=self.zxid)
                self.changed(path, data)
                self._fire(path, WatchEvent.CHANGED)
                return node.stat
            case Delete(path):
                self._delete(path)
        return None

    def _delete(self, path: str) -> None:
        node = self._nodes.pop(path)
        del self._nodes[_parent(path)].children[_name(path)]
        owner = self._sessions.get(node.stat.ephemeral_owner)
        if owner is not None:
            owner.ephemerals.pop(path, None)
        self.changed(path, None)
        self._fire(path, WatchEvent.DELETED)
        self._fire(_parent(path), WatchEvent.CHILDREN)

    def _fire(self, path: str, event: WatchEvent) -> None:
        for session in self._sessions.values():
            is_watched = False
            if event is not WatchEvent.CHILDREN and path in session.data_watches:
                session.data_watches.discard(path)
                is_watched = True
            if event in (WatchEvent.CHILDREN, WatchEvent.DELETED) and path in session.child_watches:
                session.child_watches.discard(path)
                is_watched = True
            if is_watched:
                session.tell(path, event)


class _Call:
    """Requests that were handed in together."""

    def __init__(self, requests: Sequence[Request], then: Callable[[list[Any]], None]) -> None:
        self.requests = requests
        self.then = then


class SimulatedZooKeeper:
    """Implements `ZooKeeper`: one client, its connection and its process."""

    def __init__(
        self,
        ensemble: Ensemble,
        session: Session,
        scheduler: Scheduler,
        session_timeout_ms: int,
        delay_ms: Delay,
        rng: random.Random | None,
    ) -> None:
        self._ensemble = ensemble
        self._told = session
        self._scheduler = scheduler
        self._timeout_ms = session_timeout_ms
        self._rng = rng
        self._session: _ServerSession | None = None
        self._to_server = Link(ensemble.scheduler, delay_ms)
        self._to_client = Link(scheduler, delay_ms)
        self._under_way: deque[_Call] = deque()
        self._fired: deque[tuple[str, WatchEvent]] = deque()
        """Watches that were not told yet; a connection that breaks loses none."""
        self._is_told = False
        """Whether the client knows of its session."""
        self._is_connected = False
        self._is_cut = False
        self._is_alive = True
        self._is_dead = False
        self._connecting: Timer | None = None
        self._noticing: Timer | None = None
        self.connect_soon()

    @property
    def session_id(self) -> int:
        return self._session.session_id if self._session is not None and self._is_told else 0

    def execute(self, requests: Sequence[Request], then: Callable[[list[Any]], None]) -> None:
        call = _Call(tuple(requests), then)
        if not self._is_told:
            self._scheduler.call_soon(lambda: self._answer_dead(call))
            return
        self._under_way.append(call)
        if self._is_connected:
            self._send(call)

    # What happens to it

    def cut(self) -> None:
        """Nothing gets through, until `heal`; what is under way waits, and is lost when the client gives up on it."""
        if not self._is_cut:
            self._is_cut = True
            self._to_server.hold()
            self._to_client.hold()
            self._update_heartbeats()
            if self._is_connected:
                self._noticing = self._scheduler.call_later(self._timeout_ms * 2 // 3, self._notice)

    def heal(self) -> None:
        if self._is_cut:
            self._is_cut = False
            if self._noticing is not None:
                self._noticing.cancel()
                self._noticing = None
            self._to_server.release()
            self._to_client.release()
            self._update_heartbeats()
            if not self._is_connected:
                self.connect_soon()
            elif self._session is not None and not self._ensemble.is_open(self._session):
                self._to_client.send(self._close_expired)

    def lose_connection(self) -> None:
        """The connection breaks; another is made soon, if that is possible."""
        if self._is_connected:
            self._is_connected = False
            # Of what was under way, a part had arrived.
            lost = self._to_server.clear()
            if self._rng is not None:
                for arrive in lost[: self._rng.randint(0, len(lost))]:
                    arrive()
            self._to_client.clear()
            self._update_heartbeats()
            self._scheduler.call_soon(self._tell_lost)
        self.connect_soon()

    def pause(self) -> None:
        """The process stands still: no heartbeats. (Its scheduler holds back its callbacks.)"""
        self._is_alive = False
        self._update_heartbeats()

    def resume(self) -> None:
        self._is_alive = True
        self._update_heartbeats()

    def kill(self) -> None:
        """The process is gone: its session ends when ZooKeeper has not heard of it for long enough.

        What it had sent may still arrive.
        """
        self._is_dead = True
        self._is_alive = False
        self._is_connected = False
        lost = self._to_server.clear()
        if self._rng is not None and not self._is_cut:
            for arrive in lost[: self._rng.randint(0, len(lost))]:
                self._to_server.send(arrive)
        self._to_client.clear()
        self._under_way.clear()
        self._update_heartbeats()

    def close(self) -> None:
        """End the session, as an orderly stop does."""
        session = self._session
        self.kill()
        if session is not None:
            self._ensemble.expire(session.session_id)

    # Connection

    def connect_soon(self) -> None:
        if self._connecting is None and not self._is_dead:
            self._connecting = self._scheduler.call_later(0, self._connect)

    def _connect(self) -> None:
        self._connecting = None
        if self._is_connected or self._is_dead or self._is_cut or not self._ensemble.is_up:
            return
        if self._session is not None and not self._ensemble.is_open(self._session):
            self._end_session()
        self._is_connected = True
        if self._session is None:
            self._session = session = self._ensemble.open_session(self._timeout_ms)
            session.tell = lambda path, event: self._watch_fired(session, path, event)
            session.expired = lambda: self._expired(session)
        self._update_heartbeats()
        if not self._is_told:
            self._to_client.send(self._begin_session)
            return
        self._to_client.send(lambda: self._told.connection_changed(True))
        for _ in self._fired:
            self._to_client.send(self._tell_watch)
        for call in self._under_way:
            self._send(call)

    def _begin_session(self) -> None:
        assert self._session is not None
        self._is_told = True
        self._told.session_began(self._session.session_id)

    def _notice(self) -> None:
        self._noticing = None
        self.lose_connection()

    def _tell_lost(self) -> None:
        if not self._is_connected and not self._is_dead and self._is_told:
            self._told.connection_changed(False)

    def _update_heartbeats(self) -> None:
        if self._session is not None:
            is_heard = self._is_connected and self._is_alive and not self._is_cut
            self._ensemble.heard_from(self._session, is_heard)

    def _expired(self, session: _ServerSession) -> None:
        # A client that is connected is told by the end of its connection; any other hears of it when it connects.
        if session is self._session and self._is_connected and not self._is_dead and not self._is_cut:
            self._to_client.send(self._close_expired)

    def _close_expired(self) -> None:
        if self._session is not None and not self._ensemble.is_open(self._session):
            self._is_connected = False
            self._to_server.clear()
            self._to_client.clear()
            self._end_session()
            self.connect_soon()

    def _end_session(self) -> None:
        calls, self._under_way = self._under_way, deque()
        was_told, self._is_told = self._is_told, False
        self._session = None
        self._fired.clear()
        for call in calls:
            self._answer_dead(call)
        if was_told:
            self._told.session_ended()

    def _answer_dead(self, call: _Call) -> None:
        if not self._is_dead:
            call.then([ZooKeeperError.SESSION_EXPIRED] * len(call.requests))

    # Requests and answers

    def _send(self, call: _Call) -> None:
        session = self._session
        assert session is not None
        self._to_server.send(lambda: self._carry_out(session, call))

    def _carry_out(self, session: _ServerSession, call: _Call) -> None:
        if not self._ensemble.is_open(session):
            return
        results = [self._ensemble.execute(session, request) for request in call.requests]
        if self._is_connected:
            self._to_client.send(lambda: self._answer(call, results))

    def _answer(self, call: _Call, results: list[Any]) -> None:
        assert self._under_way[0] is call, "answers come in order"
        self._under_way.popleft()
        call.then(results)

    def _watch_fired(self, session: _ServerSession, path: str, event: WatchEvent) -> None:
        if session is self._session and not self._is_dead:
            self._fired.append((path, event))
            if self._is_connected:
                self._to_client.send(self._tell_watch)

    def _tell_watch(self) -> None:
        self._told.watch_fired(*self._fired.popleft())


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _name(path: str) -> str:
    return path.rpartition("/")[2]
