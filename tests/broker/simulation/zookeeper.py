"""A ZooKeeper ensemble in memory: sessions, ephemeral and sequential nodes, watches, versions, transactions.

With a scheduler of a test it answers at once (`call_soon`); a simulation gives delays, and cuts, breaks, pauses and
kills its clients. What ZooKeeper promises is kept: each client's requests are carried out in order and answered in
order, and it is told of a watched change before any answer that shows it. What it does not promise is tried: a request
of a connection that breaks may or may not be carried out, and is asked again in the same session.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from highwater.broker.clock import Clock, Scheduler, Timer
from highwater.broker.cluster.zookeeper import Create, Request, Session, Set, Stat, WatchEvent, ZooKeeperError
from highwater.broker.tree.tree import Tree
from highwater.broker.tree.watches import WatchManager
from tests.broker.simulation.link import Delay, Link


class _ServerSession:
    def __init__(self, session_id: int, timeout_ms: int) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.expiry: Timer | None = None
        self.tell: Callable[[str, WatchEvent], None] = lambda path, event: None
        self.expired: Callable[[], None] = lambda: None


class Ensemble:
    """The servers, which are one here; and, for tests, the hand of an administrator."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.is_up = True
        self.clock: Clock | None = None
        """Tells when nodes were made, if that matters."""
        self.changed: Callable[[str, bytes | None], None] = lambda path, data: None
        """Told of every node that was created or set, with what it holds, or that went (None)."""
        self.executing = 0
        """The session whose request is carried out; 0 for the hand of an administrator."""
        self._tree = Tree(self._fired)
        self._sessions: dict[int, _ServerSession] = {}
        self._watches: WatchManager[int] = WatchManager()
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

    @property
    def zxid(self) -> int:
        return self._tree.zxid

    # The hand of an administrator: at once, outside of all sessions

    def do(self, request: Request) -> Any:
        return self.execute(None, request)

    def data(self, path: str) -> bytes | None:
        node = self._tree.nodes.get(path)
        return None if node is None else node.data

    def stat(self, path: str) -> Stat | None:
        node = self._tree.nodes.get(path)
        return None if node is None else node.stat

    def children(self, path: str) -> list[str]:
        node = self._tree.nodes.get(path)
        return [] if node is None else sorted(node.children)

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
        self._watches.remove(session_id)
        self._tree.close_session(session_id, self._now_ms)
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
        session = _ServerSession(self._tree.open_session(b"", timeout_ms, self._now_ms), timeout_ms)
        self._sessions[session.session_id] = session
        self._watches.add(session.session_id)
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
        self.executing = 0 if session is None else session.session_id
        result = self._tree.execute(self.executing, request, self._now_ms)
        self.executing = 0
        if session is not None:
            self._watches.note(session.session_id, request, result)
        return result

    @property
    def _now_ms(self) -> int:
        return 0 if self.clock is None else self.clock.now_ms()

    def _fired(self, path: str, event: WatchEvent) -> None:
        if event is not WatchEvent.CHILDREN:
            self.changed(path, self.data(path))
        for session_id in self._watches.fire(path, event):
            self._sessions[session_id].tell(path, event)


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

    @property
    def is_in_touch(self) -> bool:
        """Whether what it asks arrives, in a session that lives."""
        is_open = self._session is not None and self._ensemble.is_open(self._session)
        return is_open and self._is_told and self._is_connected and not self._is_cut

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
