"""Accepts connections of an event loop within the rules of a listener, and cuts those that are late."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Final

from .listener_rules import Limits, ListenerRules, RefusalLog, plain_address

PAUSE_S: Final = 0.1
"""How long accepting rests after it failed."""
_LONGEST_WAIT_S: Final = 1.0


class Place:
    """The place of one connection among those of its listener."""

    def __init__(self, rules: ListenerRules[Place]) -> None:
        self._rules = rules
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None

    def known(self) -> None:
        """The head is there."""
        self._rules.known(self)

    def waits(self) -> None:
        """It has its answer, and may send another head."""
        self._rules.waits(self, _now_ms())

    def left(self) -> None:
        """To be called when the connection is lost."""
        self._rules.left(self)

    def cut(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class Listening:
    """Sockets that listen, until they are closed."""

    def __init__(
        self,
        sockets: Iterable[socket.socket],
        limits: Limits,
        logger: logging.Logger,
        make: Callable[[Place], asyncio.BaseProtocol],
        *,
        tls: ssl.SSLContext | None = None,
        own: frozenset[str] = frozenset(),
    ) -> None:
        """`make` makes the protocol of a connection, which reports to its place. `own` is as for ListenerRules."""
        self._loop = asyncio.get_running_loop()
        self._log = RefusalLog(logger)
        self._rules: ListenerRules[Place] = ListenerRules(limits, self._log, own)
        self._make = make
        self._tls = tls
        self._sockets = list(sockets)
        self._tasks: set[asyncio.Task[None]] = set()
        for listening in self._sockets:
            listening.setblocking(False)
            self._begin(self._accept(listening))
        self._begin(self._cut_late())

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, address = await self._loop.sock_accept(listening)
            except ConnectionError:
                continue
            except OSError as error:
                self._log.wait(f"cannot accept them: {error.strerror}", _now_ms())
                await asyncio.sleep(PAUSE_S)
                continue
            self._take(client, f"{plain_address(str(address[0]))}:{address[1]}")
            # What is cut has to be closed before others come.
            await asyncio.sleep(0)

    def _take(self, client: socket.socket, peer: str) -> None:
        place = Place(self._rules)
        gone = self._rules.arrived(place, peer, _now_ms())
        if gone is place:
            client.close()
            return
        if gone is not None:
            gone.cut()
        place.task = self._begin(self._connect(place, client, peer))

    async def _connect(self, place: Place, client: socket.socket, peer: str) -> None:
        handshake_s = None if self._tls is None else self._rules.limits.head_ms / 1000
        try:
            place.transport, _ = await self._loop.connect_accepted_socket(
                lambda: self._make(place), client, ssl=self._tls, ssl_handshake_timeout=handshake_s
            )
        except OSError as error:
            self._log.tell(peer, f"its TLS handshake failed: {error.strerror or type(error).__name__}", _now_ms())
        finally:
            if place.transport is None:
                client.close()
                place.left()

    async def _cut_late(self) -> None:
        while True:
            wait_ms = self._rules.is_late_in_ms(_now_ms())
            await asyncio.sleep(_LONGEST_WAIT_S if wait_ms is None else min(wait_ms / 1000, _LONGEST_WAIT_S))
            for place in self._rules.late(_now_ms()):
                place.cut()

    def close(self) -> None:
        """Take no more connections, and end those that shake hands; the others stay."""
        for task in self._tasks:
            task.cancel()
        for listening in self._sockets:
            listening.close()

    async def wait_closed(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
