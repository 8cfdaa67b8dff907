"""ZooKeeper through kazoo in threads: watches, numbers of the servers, znodes read on demand."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import ZnodeStat
from kazoo.retry import KazooRetry

from highwater.common.units import count_text
from highwater.common.znode_path import path_problem
from highwater.kafka.client.secure_kazoo import Failure, SecureHandler, secure
from highwater.kafka.client.zookeeper_security import ZooKeeperSecurity
from highwater.monitor.model import SourceState, ZnodeChange, ZooKeeper, ZooKeeperServer
from highwater.monitor.zookeeper import changes, hiding, numbers
from highwater.monitor.zookeeper.address import ZooKeeperAddress, child_path, server_text
from highwater.monitor.zookeeper.changes import Ephemeral, Watched
from highwater.monitor.zookeeper.znode import Child, NoSuchZnodeError, NotAZnodePathError, Znode, ZooKeeperError

SOURCE: Final = "zookeeper"
CHILDREN_OF_A_PAGE: Final = 50
LARGEST_DATA_BYTES: Final = 1 << 20
_MOST_CHILDREN: Final = 200_000
_SESSION_S: Final = 10.0
_READ_S: Final = 5.0
_READS_AT_ONCE: Final = 4
_WAIT_FOR_A_TURN_S: Final = 1.0
_NUMBERS_S: Final = 1.0
_MOST_ANSWER_BYTES: Final = 256 * 1024
_MOST_CHANGES: Final = 1000
_LOG: Final = logging.getLogger(f"{__name__}.kazoo")
# Pages show what kazoo reports of connections.
_LOG.setLevel(logging.CRITICAL)


class ZooKeeperSource:
    """One ensemble. `read` may be called from any thread; it changes nothing, and nothing here can."""

    def __init__(self, address: ZooKeeperAddress, tick_s: float, security: ZooKeeperSecurity | None = None) -> None:
        security = security or ZooKeeperSecurity()
        self._address = address
        self._tls = security.tls
        self._tick_s = tick_s
        self._client = KazooClient(
            hosts=address.hosts + address.chroot,
            timeout=_SESSION_S,
            handler=SecureHandler(security.tls),
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=5.0),
            logger=_LOG,
        )
        self._failures: dict[str, Failure] = {}
        secure(self._client, security, self._connection_failed, gives_up=False)
        self._turns = threading.BoundedSemaphore(_READS_AT_ONCE)
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._ended = threading.Event()
        self._watched: Watched | None = None
        self._changes: list[ZnodeChange] = []
        self._newest = ZooKeeper(silent_since_ms=_unix_ms(), error="no answer yet")
        self._state = SourceState(SOURCE, None)
        self._threads = [
            threading.Thread(target=self._keep, args=(work, event), name=f"monitor-zookeeper-{name}", daemon=True)
            for name, work, event in (("watch", self._look, self._woken), ("numbers", self._ask_servers, self._ended))
        ]

    @property
    def address(self) -> str:
        return self._address.hosts + self._address.chroot

    def start(self) -> None:
        """Returns at once. A ZooKeeper that does not answer is no error."""
        self._client.add_listener(self._told)
        self._client.start_async()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._woken.set()
        for thread in self._threads:
            thread.join(_READ_S)
        self._client.stop()
        self._client.close()

    def take(self) -> tuple[ZooKeeper, SourceState]:
        """What is known by now, with the changes since the last call."""
        with self._lock:
            found = replace(self._newest, changes=tuple(self._changes))
            state, self._state = self._state, replace(self._state, requests=0, received_bytes=0, duration_ms=0.0)
            self._changes = []
            return found, state

    # On demand

    def read(self, path: str, contains: str = "", page: int = 1) -> Znode:
        """One znode, and a page of its children whose names contain a text. Raises ZooKeeperError."""
        if problem := path_problem(path):
            raise NotAZnodePathError(f"This is not a path of a znode: {problem}.")
        if not self._turns.acquire(timeout=_WAIT_FOR_A_TURN_S):
            raise ZooKeeperError(f"{_READS_AT_ONCE} reads of ZooKeeper are under way already. Try again.")
        try:
            return self._read(path, contains, page)
        except NoNodeError:
            raise NoSuchZnodeError("There is no such znode now.") from None
        except NoAuthError:
            raise ZooKeeperError("ZooKeeper does not let the monitor read this znode: its ACL is for others.") from None
        except KazooTimeoutError:
            raise ZooKeeperError(f"ZooKeeper did not answer within {_READ_S:g} s.") from None
        except KazooException as error:
            raise ZooKeeperError(f"ZooKeeper refused: {_reason(error)}.") from None
        finally:
            self._turns.release()

    def _read(self, path: str, contains: str, page: int) -> Znode:
        if not self._client.connected:
            raise ZooKeeperError("ZooKeeper does not answer now.")
        deadline_s = time.monotonic() + _READ_S
        stat = self._answer(self._client.exists_async(path), deadline_s)
        if stat is None:
            raise NoNodeError
        data, note = b"", ""
        if stat.dataLength > LARGEST_DATA_BYTES:
            note = f"Its data have {count_text(stat.dataLength)} bytes: too many to be read here."
        elif stat.dataLength:
            read, stat = self._answer(self._client.get_async(path), deadline_s)
            data, note = hiding.shown(path, read or b"")
        names, children_note = self._names(path, stat, deadline_s)
        names = [name for name in names if contains in name]
        pages = max(1, -(-len(names) // CHILDREN_OF_A_PAGE))
        page = min(max(page, 1), pages)
        shown = names[(page - 1) * CHILDREN_OF_A_PAGE : page * CHILDREN_OF_A_PAGE]
        stats = self._answers((self._client.exists_async(child_path(path, name)) for name in shown), deadline_s)
        children = tuple(Child(name, each) for name, each in zip(shown, stats, strict=True))
        return Znode(path, stat, data, note, children, len(names), page, pages, children_note)

    def _names(self, path: str, stat: ZnodeStat, deadline_s: float) -> tuple[list[str], str]:
        if not stat.numChildren:
            return [], ""
        if hiding.hides_children(path):
            return [], f"Its {count_text(stat.numChildren)} children are not shown."
        if stat.numChildren > _MOST_CHILDREN:
            return [], f"It has {count_text(stat.numChildren)} children: too many to be listed here."
        return sorted(self._answer(self._client.get_children_async(path), deadline_s)), ""

    def _answers(self, asked: Iterable[Any], deadline_s: float) -> list[Any]:
        # All are sent before the first answer is waited for.
        return [self._answer(each, deadline_s) for each in list(asked)]

    def _answer(self, asked: Any, deadline_s: float) -> Any:
        return asked.get(timeout=max(0.01, deadline_s - time.monotonic()))

    # Threads

    def _keep(self, work: Callable[[], None], wakes: threading.Event) -> None:
        while not self._ended.is_set():
            began_s = time.monotonic()
            work()
            wakes.wait(max(0.05, self._tick_s - (time.monotonic() - began_s)))
            if wakes is not self._ended:
                wakes.clear()

    def _look(self) -> None:
        """Read the watched znodes; a watch of any of them makes the next look come at once."""
        began_s, at_ms = time.monotonic(), _unix_ms()
        try:
            if not self._client.connected:
                raise ZooKeeperError(self._why_not_connected())
            found, requests, received_bytes = self._watched_now(began_s + _READ_S)
        except Exception as error:  # whatever it is, the thread has to live and to report it
            self._fail(at_ms, _reason(error))
            return
        duration_ms = (time.monotonic() - began_s) * 1000
        with self._lock:
            if self._watched is not None:
                self._changes += changes.changes(self._watched, found, at_ms)
                del self._changes[:-_MOST_CHANGES]
            self._watched = found
            self._newest = replace(
                self._newest,
                silent_since_ms=None,
                error="",
                controller=found.controller_id,
                controller_epoch=found.controller_epoch,
                sessions=found.sessions,
            )
            self._state = replace(
                self._state,
                as_of_ms=_unix_ms(),
                error="",
                requests=self._state.requests + requests,
                received_bytes=self._state.received_bytes + received_bytes,
                duration_ms=self._state.duration_ms + duration_ms,
            )

    def _connection_failed(self, failure: Failure) -> None:
        with self._lock:
            self._failures[failure.server] = failure

    def _why_not_connected(self) -> str:
        with self._lock:
            told = "; ".join(f"{each.server}: {each.reason}" for each in self._failures.values() if each.is_lasting)
        return told or "no connection to any of its servers"

    def _fail(self, at_ms: int, reason: str) -> None:
        since_ms = self._newest.silent_since_ms or at_ms
        with self._lock:
            self._newest = replace(self._newest, silent_since_ms=since_ms, error=reason)
            self._state = replace(self._state, error=f"{self.address}: {reason}")

    def _watched_now(self, deadline_s: float) -> tuple[Watched, int, int]:
        """Return the watched znodes, the number of requests and the bytes of data."""
        client = self._client
        first = [client.get_async(path, self._told) for path in (changes.CONTROLLER, changes.CONTROLLER_EPOCH)]
        listed = [client.get_children_async(path, self._told) for path in (changes.BROKER_IDS, changes.CONFIG_CHANGES)]
        controller, epoch = [self._found(each, deadline_s) for each in first]
        ids, notified = [sorted(self._found(each, deadline_s) or ()) for each in listed]
        if controller is None:
            # A watch on data ends when there are none; this one waits for the next controller.
            self._answer(client.exists_async(changes.CONTROLLER, self._told), deadline_s)
        newest = self._watched.config_changes if self._watched is not None else {}
        fresh = [name for name in notified if name not in newest]
        brokers = self._data(changes.BROKER_IDS, ids, deadline_s)
        fresh_data = self._data(changes.CONFIG_CHANGES, fresh, deadline_s)
        found = Watched(
            controller=None if controller is None else _ephemeral(*controller),
            controller_epoch=None if epoch is None else _integer(epoch[0]),
            brokers={name: _ephemeral(*each) for name, each in brokers.items()},
            config_changes={
                name: fresh_data[name][0] or b"" if name in fresh_data else newest.get(name, b"") for name in notified
            },
        )
        received_bytes = sum(len(each[0] or b"") for each in (*brokers.values(), *fresh_data.values()))
        return found, 4 + len(ids) + len(fresh), received_bytes

    def _data(self, parent: str, names: Sequence[str], deadline_s: float) -> dict[str, Any]:
        asked = [(name, self._client.get_async(f"{parent}/{name}")) for name in names]
        found = {name: self._found(each, deadline_s) for name, each in asked}
        return {name: each for name, each in found.items() if each is not None}

    def _found(self, asked: Any, deadline_s: float) -> Any:
        try:
            return self._answer(asked, deadline_s)
        except NoNodeError:
            return None

    def _told(self, _: object) -> None:
        self._woken.set()

    def _ask_servers(self) -> None:
        servers = tuple(_server(*each, self._tls) for each in self._address.servers)
        with self._lock:
            self._newest = replace(self._newest, servers=servers)


def _server(host: str, port: int, tls: ssl.SSLContext | None) -> ZooKeeperServer:
    """`mntr`, or `srvr` from a server whose whitelist is narrow."""
    address = server_text(host, port)
    try:
        answer = _four_letters(host, port, b"mntr", tls)
        if numbers.is_mntr(answer):
            return numbers.of_mntr(address, answer)
        return numbers.of_srvr(address, _four_letters(host, port, b"srvr", tls))
    except OSError as error:
        return ZooKeeperServer(address, error=f"it does not answer: {error.strerror or error}")


def _four_letters(host: str, port: int, word: bytes, tls: ssl.SSLContext | None) -> str:
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, port), _NUMBERS_S))
        if tls is not None:
            connection = stack.enter_context(tls.wrap_socket(connection, server_hostname=host))
        connection.sendall(word)
        answer = b""
        while len(answer) < _MOST_ANSWER_BYTES and (piece := connection.recv(65536)):
            answer += piece
    return answer.decode("utf-8", "replace")


def _ephemeral(data: bytes | None, stat: ZnodeStat) -> Ephemeral:
    return Ephemeral(data or b"", stat.ephemeralOwner, stat.czxid)


def _integer(data: bytes | None) -> int | None:
    return int(data) if data and data.strip().isdigit() else None


def _reason(error: Exception) -> str:
    if isinstance(error, KazooTimeoutError):
        return f"no answer within {_READ_S:g} s"
    return str(error) or type(error).__name__


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000
