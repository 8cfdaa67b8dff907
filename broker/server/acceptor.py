"""Accepts new connections, within the limits of the broker and of one client address.

Connections above the limit of one address are closed. Connections above the limit of the broker, or above its rate of
new connections, wait in the kernel's queue, as with Kafka.

So do connections above what the limit of open files leaves for them: the log, checkpoints and modules have descriptors
of their own. When the process has none left all the same, or the kernel no memory, accepting pauses and goes on.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.broker.counters import BrokerCounters
from highwater.broker.quota.rate import WindowedRate
from highwater.broker.server.connection import Connection
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.broker.settings.property_row import INT32_MAX
from highwater.common.listener_rules import RefusalLog, descriptors, plain_address
from highwater.common.listening import PAUSE_S

if TYPE_CHECKING:
    from highwater.broker.server.tls import Tls

_logger = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 10.0

OnLost = Callable[[Connection], None]


class Limits(NamedTuple):
    most: int
    most_per_host: int
    overrides: Mapping[str, int]
    """Instead of `most_per_host`, by address."""
    most_per_second: int = INT32_MAX
    most_comes_from: str = "max.connections"

    @classmethod
    def of(cls, config: BrokerConfig) -> Limits:
        """Raises ConfigError for overrides that cannot be read."""
        limits = cls(
            config.integer("max.connections"),
            config.integer("max.connections.per.ip"),
            parse_overrides(config.string("max.connections.per.ip.overrides") or ""),
            config.integer("max.connection.creation.rate"),
        )
        with_descriptors = descriptors().connections
        if limits.most <= with_descriptors:
            return limits
        return limits._replace(most=with_descriptors, most_comes_from="open files (ulimit -n, LimitNOFILE of the unit)")


class ConnectionLimits:
    """The connections there are, counted against the limits."""

    def __init__(
        self,
        limits: Limits,
        counters: BrokerCounters,
        rate: WindowedRate | None = None,
        throttle_ms: Callable[[str, int], int] = lambda host, now_ms: 0,
    ) -> None:
        """`rate` measures how fast connections come. `throttle_ms` counts those of an address (ClientQuotas)."""
        self._throttle_ms = throttle_ms
        self._rate = rate or WindowedRate(count=11, size_ms=1000)
        self._counters = counters
        self._by_host: dict[str, int] = {}
        self._log = RefusalLog(_logger)
        self._has_room = asyncio.Event()
        self.change(limits)

    def change(self, limits: Limits) -> None:
        """Connections that are there stay, also above a limit that is lower now."""
        self._limits = limits
        if self._counters.connections < limits.most:
            self._has_room.set()
        else:
            self._has_room.clear()

    async def room(self) -> None:
        """Wait until the broker may have one connection more."""
        await self._has_room.wait()

    def pause_ms(self, now_ms: int) -> int:
        """How long to take no other connection after the one that comes now (KIP-612)."""
        most = self._limits.most_per_second
        if most == INT32_MAX:
            return 0
        self._rate.record(1, now_ms)
        excess = self._rate.per_second(now_ms) - most
        return math.ceil(excess / max(most, 1) * self._rate.span_ms(now_ms)) if excess > 0 else 0

    def throttle_ms(self, host: str, now_ms: int) -> int:
        """0 for a connection that may be used; otherwise after how many ms it is to be closed."""
        throttle_ms = self._throttle_ms(host, now_ms)
        if throttle_ms:
            self._counters.connections_refused += 1
        return throttle_ms

    def admit(self, host: str, port: int = 0, now_ms: int = 0) -> bool:
        """Count a connection in, unless its host has as many as it may."""
        count = self._by_host.get(host, 0)
        limit = self._limits.overrides.get(host, self._limits.most_per_host)
        if count >= limit:
            self._counters.connections_refused += 1
            reason = f"its address has {count}, the limit of max.connections.per.ip"
            self._log.tell(f"{host}:{port}", reason, now_ms)
            return False
        self._by_host[host] = count + 1
        self._counters.connections_made += 1
        self._counters.connections += 1
        if self._counters.connections >= self._limits.most:
            limits = self._limits
            self._log.wait(f"{limits.most} are open, the limit of {limits.most_comes_from}", now_ms)
            self._has_room.clear()
        return True

    def cannot_accept(self, error: OSError, now_ms: int) -> None:
        self._log.wait(f"cannot accept them: {error.strerror}", now_ms)

    def release(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        self._counters.connections -= 1
        if self._counters.connections < self._limits.most:
            self._has_room.set()


def parse_overrides(text: str) -> dict[str, int]:
    """max.connections.per.ip.overrides, "host:count,…", by address. Raises ConfigError."""
    overrides: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = item.rpartition(":")
        host = host.strip("[]")
        if not host or not count.strip().isascii() or not count.strip().isdecimal():
            raise ConfigError(f"max.connections.per.ip.overrides: {item!r} is not host:count, such as 192.0.2.1:100")
        try:
            addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConfigError(f"max.connections.per.ip.overrides: {host}: {error.strerror}; name an address") from None
        overrides |= {plain_address(str(address[4][0])): int(count) for address in addresses}
    return overrides


class Acceptor:
    """Accepts on one listening socket until it is closed; the socket is its own."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        limits: ConnectionLimits,
        make: Callable[[OnLost], asyncio.BaseProtocol],
        tls: Tls | None,
        refused: Callable[[str, Exception], None],
    ) -> None:
        """`make` makes the connection, which calls back when it is lost.

        `refused` gets each failed handshake: the client's host:port, and why it failed.
        """
        self._refused = refused
        self._tls = tls
        self._handshakes: set[asyncio.Task[None]] = set()
        self._loop = loop
        self._listening = listening
        self._limits = limits
        self._make = make
        self._task = loop.create_task(self._accept())

    async def close(self) -> None:
        self._task.cancel()
        for handshake in self._handshakes:
            handshake.cancel()
        await asyncio.wait([self._task, *self._handshakes])
        self._listening.close()

    async def _accept(self) -> None:
        while True:
            await self._limits.room()
            try:
                client, address = await self._loop.sock_accept(self._listening)
            except ConnectionError:
                continue
            except OSError as error:
                self._limits.cannot_accept(error, _now_ms())
                await asyncio.sleep(PAUSE_S)
                continue
            pause_ms = self._limits.pause_ms(_now_ms())
            if pause_ms:
                await asyncio.sleep(pause_ms / 1000)
            await self._take(client, plain_address(str(address[0])), address[1])

    async def _take(self, client: socket.socket, host: str, port: int) -> None:
        throttle_ms = self._limits.throttle_ms(host, _now_ms())
        if throttle_ms:
            # A client that is closed at once would come again at once.
            self._loop.call_later(throttle_ms / 1000, client.close)
            return
        if not self._limits.admit(host, port, _now_ms()):
            client.close()
            return
        if self._tls is None:
            await self._connect(client, host, port)
            return
        # Others are accepted while this one shakes hands, however long it takes.
        handshake = self._loop.create_task(self._connect(client, host, port))
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def _connect(self, client: socket.socket, host: str, port: int) -> None:
        is_counted = True

        def release(_: Connection | None = None) -> None:
            nonlocal is_counted
            if is_counted:
                is_counted = False
                self._limits.release(host)

        connection = self._make(release)
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=None if self._tls is None else self._tls.context,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_TIMEOUT_S,
            )
        except Exception as error:
            client.close()
            release()  # A handshake that fails is no connection that is lost.
            self._refused(f"{host}:{port}", error)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
