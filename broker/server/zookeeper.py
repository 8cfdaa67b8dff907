"""ZooKeeper through kazoo: takes requests from the event loop, and calls it back with answers.

Whatever comes from ZooKeeper is handed to the event loop in the order in which it came over the connection, as
ZooKeeper's promises are about that order: a watched change is reported before any answer that shows it. kazoo by itself
would run answers and watches in a thread each. And it would give up on what is under way when a connection breaks; here
it is asked again in the same session, in its order, and watches are set again so that no change is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, TypeVarTuple

from highwater.broker.cluster.zookeeper import (
    Create,
    Created,
    Request,
    Session,
    WatchEvent,
    ZooKeeperError,
)
from highwater.broker.counters import ZooKeeperCounters
from highwater.broker.server.kazoo_client import KazooResult, ZooKeeperClient
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.broker.settings.store import MetadataError
from highwater.common.atomic_files import write_atomically
from highwater.kafka.client.secure_kazoo import Failure, renew
from highwater.kafka.client.zookeeper_security import ZooKeeperSecurity, ZooKeeperSecurityError, security_of

_logger = logging.getLogger(__name__)

SESSION_FILE_NAME: Final = "zookeeper-session.json"
_STOP_TIMEOUT_S: Final = 5.0
_MOST_IN_FLIGHT: Final = 100
"""kazoo wakes its thread by a byte for each request, through a pipe that takes some 270 before it blocks."""


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ZooKeeperSettings(NamedTuple):
    hosts: str
    """The servers of `zookeeper.connect`, without the chroot: host:port,host:port. A process has `LOCAL` and a name."""
    chroot: str
    """Below which everything of the cluster stands: /a/b, or nothing."""
    session_timeout_ms: int
    connection_timeout_ms: int
    max_in_flight: int
    security: ZooKeeperSecurity = ZooKeeperSecurity()

    @staticmethod
    def of(config: BrokerConfig) -> ZooKeeperSettings:
        """Raises ConfigError."""
        connect = (config.string("zookeeper.connect") or "").strip()
        hosts, slash, chroot = connect.partition("/")
        hosts = ",".join(host.strip() for host in hosts.split(",") if host.strip())
        for host in hosts.split(","):
            port = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+)(?::([0-9]{1,5}))?", host)
            if port is None or int(port[2] or 1) > 65535:
                raise ConfigError(f"zookeeper.connect={connect}: write it as host:port,host:port/path")
        chroot = (slash + chroot).rstrip("/")
        if "//" in chroot or any(part in (".", "..") for part in chroot.split("/")):
            raise ConfigError(f"zookeeper.connect={connect}: {chroot} is not a path of ZooKeeper's")
        session_timeout_ms = config.integer("zookeeper.session.timeout.ms")
        connection_timeout_ms = config.value("zookeeper.connection.timeout.ms")
        try:
            security = security_of(config.value)
        except ZooKeeperSecurityError as error:
            raise ConfigError(str(error)) from None
        return ZooKeeperSettings(
            hosts=hosts,
            chroot=chroot,
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=session_timeout_ms
            if connection_timeout_ms is None
            else config.integer("zookeeper.connection.timeout.ms"),
            max_in_flight=min(config.integer("zookeeper.max.in.flight.requests"), _MOST_IN_FLIGHT),
            security=security,
        )


class SessionFile:
    """Id and password of the latest session, so that the next start can end it instead of waiting for its end.

    It is in a log directory that this process has locked: the session's owner is gone. Whoever can read it could end
    the session, so nobody else may.
    """

    def __init__(self, directory: Path, settings: ZooKeeperSettings) -> None:
        self.path = directory / SESSION_FILE_NAME
        self._settings = settings

    def read(self) -> tuple[int, bytes] | None:
        try:
            fields = json.loads(self.path.read_bytes())
            if fields["hosts"] != self._settings.hosts or fields["chroot"] != self._settings.chroot:
                return None
            return int(fields["session_id"], 16), bytes.fromhex(fields["password"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            _logger.warning(
                "cannot use %s: %s; if the last run left a session, this start waits until it times out",
                self.path,
                error,
            )
            return None

    def write(self, session_id: int, password: bytes) -> None:
        fields = {
            "hosts": self._settings.hosts,
            "chroot": self._settings.chroot,
            "session_id": f"{session_id:x}",
            "password": password.hex(),
        }
        try:
            write_atomically(self.path, json.dumps(fields), mode=0o600)
        except OSError as error:
            _logger.warning(
                "cannot write %s: %s; after a crash the next start waits until the session times out", self.path, error
            )

    def remove(self) -> None:
        """The session ended in an orderly way."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


class KazooZooKeeper:
    """Implements `ZooKeeper`. All of it is the event loop's, except where it says kazoo's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: ZooKeeperSettings,
        fail: Callable[[str], None],
    ) -> None:
        """`fail` is called when nothing more is to be expected, with the reason."""
        self._loop = loop
        self._settings = settings
        self._fail = fail
        self._session: Session | None = None
        self._session_file: SessionFile | None = None
        self._password = b""
        self._session_id = 0
        self._is_connected = False
        self._first_session: asyncio.Future[None] = loop.create_future()
        self._waiting: deque[tuple[_Call, int]] = deque()
        self._in_flight: dict[KazooResult, tuple[_Call, int]] = {}
        self._client: ZooKeeperClient | None = None
        self._has_begun = False
        """There was a session."""
        self._failures: dict[str, Failure] = {}
        """The last one of each server, until one is connected."""
        self.counters = ZooKeeperCounters()

    @property
    def session_id(self) -> int:
        return self._session_id

    async def start(self) -> None:
        """Come back with a session, and the chroot made. Raises MetadataError."""
        settings = self._settings
        try:
            async with asyncio.timeout(settings.connection_timeout_ms / 1000):
                self._client = ZooKeeperClient(settings.hosts, settings.session_timeout_ms, self, settings.security)
                self._client.start_async()
                await self._first_session
                await self._make_chroot()
        except TimeoutError:
            await self.stop()
            reasons = "".join(f"; {failure.server}: {failure.reason}" for failure in self._failures.values())
            raise MetadataError(
                f"zookeeper.connect={settings.hosts}: no session within {settings.connection_timeout_ms} ms "
                f"(zookeeper.connection.timeout.ms); is ZooKeeper running there?{reasons}"
            ) from None
        except MetadataError:
            await self.stop()
            raise

    def take_over(self, security: ZooKeeperSecurity) -> None:
        """Have the next connections use it; whether nodes get ACLs stays."""
        self._settings = self._settings._replace(security=security)
        if self._client is not None:
            renew(self._client, security)

    def attach(self, session: Session) -> None:
        """Report to it the session that there is, if any, and all that comes."""
        self._session = session
        if self._session_id:
            session.session_began(self._session_id)

    async def keep_sessions_in(self, file: SessionFile) -> None:
        """End the session that is kept there, whose owner is gone, and keep this one and its successors there."""
        last = await asyncio.to_thread(file.read)
        if last is not None and last[0] != self._session_id:
            await asyncio.to_thread(self._end_session_of_others, last)
        if self._session_id:
            await asyncio.to_thread(file.write, self._session_id, self._password)
        self._session_file = file

    async def stop(self) -> None:
        """End the session, if ZooKeeper can be reached in time. Nobody is called back any more."""
        client, self._client = self._client, None
        if client is None:
            return
        was_connected, self._is_connected = self._is_connected, False
        self._session_id = 0
        self._waiting.clear()
        self._in_flight.clear()
        stopped: asyncio.Future[None] = self._loop.create_future()

        def stop() -> None:
            try:
                client.stop()
                client.close()
            except Exception as error:
                _logger.warning("cannot close the session with ZooKeeper: %s; it will time out", error)
            with contextlib.suppress(RuntimeError):  # the loop did not wait
                self._loop.call_soon_threadsafe(_settle, stopped, None)

        # A daemon: the end of the process does not wait for a server that does not answer.
        threading.Thread(target=stop, name="zookeeper-stop", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_TIMEOUT_S if was_connected else 0.5):
                await stopped
            if was_connected and self._session_file is not None:
                self._session_file.remove()

    def execute(self, requests: Sequence[Request], then: Callable[[list[Any]], None]) -> None:
        if not self._session_id:
            self._loop.call_soon(then, [ZooKeeperError.SESSION_EXPIRED] * len(requests))
        elif not requests:
            self._loop.call_soon(then, [])
        else:
            call = _Call(tuple(requests), then)
            self._waiting.extend((call, index) for index in range(len(requests)))
            self._send()

    def _send(self) -> None:
        client = self._client
        assert client is not None
        while self._waiting and len(self._in_flight) < self._settings.max_in_flight:
            call, index = self._waiting.popleft()
            answer = KazooResult(client, call.requests[index])
            self._in_flight[answer] = call, index
            client.ask(self._session_id, answer)

    # Reports of the client, in kazoo's thread

    def answered(self, answer: KazooResult, result: Any) -> None:
        self._post(self._answered, answer, result)

    def connected(self, session_id: int, password: bytes, *, is_new: bool) -> None:
        if is_new and self._session_file is not None:
            self._session_file.write(session_id, password)
        self._post(self._connected, session_id, password, is_new)

    def disconnected(self) -> None:
        self._post(self._disconnected)

    def connection_failed(self, failure: Failure) -> None:
        self._post(self._connection_failed, failure)

    def session_expired(self) -> None:
        self._post(self._session_expired)

    def closed(self, reason: str) -> None:
        self._post(self._closed, reason)

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        self._post(self._watch_fired, path, event)

    def _post(self, told: Callable[[*Ts], None], *arguments: *Ts) -> None:
        """Call `told` on the event loop, unless the client was stopped meanwhile."""

        def tell() -> None:
            if self._client is None:
                return
            try:
                told(*arguments)
            except Exception:
                _logger.exception("a bug in the broker: the handling of a response of ZooKeeper failed")
                self._fail("the broker cannot go on as a member of its cluster")

        with contextlib.suppress(RuntimeError):  # the loop is closed, and the process about to end
            self._loop.call_soon_threadsafe(tell)

    # On the event loop

    def _answered(self, answer: KazooResult, result: Any) -> None:
        asked = self._in_flight.pop(answer, None)
        if asked is not None:  # else the end of the session answered it
            self._give(*asked, result)
            if self._client is not None:
                self._send()

    def _give(self, call: _Call, index: int, result: Any) -> None:
        call.results[index] = result
        call.missing -= 1
        if not call.missing:
            self.counters.latency.observe(time.monotonic_ns() - call.began_ns)
            call.then(call.results)

    def _connected(self, session_id: int, password: bytes, is_new: bool) -> None:
        self._is_connected = self.counters.is_connected = True
        self._has_begun = True
        self._failures.clear()
        if not is_new:
            _logger.info("connected to ZooKeeper again, in the same session")
            if self._session is not None:
                self._session.connection_changed(True)
            return
        self._session_id = session_id
        self._password = password
        _logger.info("session 0x%x with ZooKeeper at %s%s", session_id, self._settings.hosts, self._settings.chroot)
        _settle(self._first_session, None)
        if self._session is not None:
            self._session.session_began(session_id)

    def _disconnected(self) -> None:
        self._is_connected = self.counters.is_connected = False
        self.counters.disconnects += 1
        _logger.warning("lost the connection to ZooKeeper; reconnecting within the session")
        if self._session is not None:
            self._session.connection_changed(False)

    def _connection_failed(self, failure: Failure) -> None:
        is_news = self._failures.get(failure.server) != failure
        self._failures[failure.server] = failure
        if self._has_begun:
            if is_news:
                _logger.warning("no connection to ZooKeeper at %s: %s", failure.server, failure.reason)
        elif len(self._failures) == self._settings.hosts.count(",") + 1:
            # Servers that are not there yet, or have no leader yet, are waited for.
            lasting = [each for each in self._failures.values() if each.is_lasting]
            if len(lasting) == len(self._failures):
                self._give_up(lasting)

    def _give_up(self, failures: Iterable[Failure], otherwise: str = "") -> None:
        """The start fails."""
        if not self._first_session.done():
            reasons = "; ".join(f"{each.server}: {each.reason}" for each in failures) or otherwise
            self._first_session.set_exception(MetadataError(f"zookeeper.connect: {reasons}"))

    def _session_expired(self) -> None:
        _logger.warning("the session 0x%x with ZooKeeper has expired", self._session_id)
        self.counters.expirations += 1
        self._end_session()

    def _watch_fired(self, path: str, event: WatchEvent) -> None:
        if self._session is not None:
            self._session.watch_fired(path, event)

    def _closed(self, reason: str) -> None:
        if not self._has_begun:
            self._give_up(self._failures.values(), reason)
            return
        self._end_session()
        self._fail(reason)

    def _end_session(self) -> None:
        self._session_id = 0
        self._is_connected = self.counters.is_connected = False
        lost = [*self._in_flight.values(), *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for call, index in lost:
            self._give(call, index, ZooKeeperError.SESSION_EXPIRED)
        if self._session is not None:
            self._session.session_ended()

    # Starting

    def _end_session_of_others(self, session: tuple[int, bytes]) -> None:
        """End a session so that its ephemeral nodes are gone. It blocks."""
        found = _FirstWord()
        client = ZooKeeperClient(
            self._settings.hosts, self._settings.session_timeout_ms, found, self._settings.security, session
        )
        client.start_async()
        # It is that session, or that was over and this is a new one: neither is wanted.
        if not found.is_said.wait(self._settings.connection_timeout_ms / 1000):
            _logger.warning("cannot end the ZooKeeper session of the last run; it will time out")
        client.stop()
        client.close()

    async def _make_chroot(self) -> None:
        """Make the chroot, as Kafka does. Until that is done, paths are without it."""
        parts = self._settings.chroot.split("/")
        paths = ["/".join(parts[:depth]) for depth in range(2, len(parts) + 1)]
        made: asyncio.Future[list[Any]] = self._loop.create_future()
        self.execute([Create(path) for path in paths], lambda results: _settle(made, results))
        for path, result in zip(paths, await made, strict=True):
            if isinstance(result, Created):
                _logger.info("created %s in ZooKeeper, because it did not exist", path)
            elif result is not ZooKeeperError.NODE_EXISTS:
                where = f"zookeeper.connect={self._settings.hosts}{self._settings.chroot}"
                raise MetadataError(f"{where}: {path} cannot be made: {result.value}")
        assert self._client is not None
        self._client.prefix = self._settings.chroot


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


class _Call:
    """Requests that were handed in together."""

    __slots__ = ("began_ns", "missing", "requests", "results", "then")

    def __init__(self, requests: tuple[Request, ...], then: Callable[[list[Any]], None]) -> None:
        self.requests = requests
        self.then = then
        self.results: list[Any] = [None] * len(requests)
        self.missing = len(requests)
        self.began_ns = time.monotonic_ns()


class _FirstWord:
    """A listener that waits for a client to have a session."""

    def __init__(self) -> None:
        self.is_said = threading.Event()

    def connected(self, session_id: int, password: bytes, *, is_new: bool) -> None:
        self.is_said.set()

    def answered(self, answer: KazooResult, result: Any) -> None: ...

    def disconnected(self) -> None: ...

    def connection_failed(self, failure: Failure) -> None: ...

    def session_expired(self) -> None: ...

    def closed(self, reason: str) -> None: ...

    def watch_fired(self, path: str, event: WatchEvent) -> None: ...
