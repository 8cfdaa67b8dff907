"""Which connections of a listener are taken and which are cut: limits, a deadline, and few log lines."""

from __future__ import annotations

import functools
import ipaddress
import logging
import resource
from collections import Counter
from typing import Final, Generic, NamedTuple, TypeVar

WINDOW_MS: Final = 60_000
MOST_LINES: Final = 30
"""The limit in a window: a scanner comes with many reasons, and perhaps from many addresses."""
_LONGEST_REASON: Final = 300
MOST_FILES: Final = 512
LEAST_RESERVE: Final = 64
MOST_RESERVE: Final = 1024

Connection = TypeVar("Connection")


class RefusalLog:
    """Log lines about connections that are closed: one for each address and reason in a minute, 30 in all."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._began_ms = -WINDOW_MS
        self._told: set[tuple[str, str]] = set()
        self._left_out = 0

    def tell(self, peer: str, reason: str, now_ms: int) -> None:
        """Log why the connection of `peer` (host:port) is closed, unless the log has that of its host, or is full."""
        self._say(peer.rpartition(":")[0], reason, f"closing the connection of {peer}: ", now_ms)

    def wait(self, reason: str, now_ms: int) -> None:
        """Log why new connections are not taken for now, in the same way."""
        self._say("", reason, "new connections wait: ", now_ms)

    def _say(self, host: str, reason: str, before: str, now_ms: int) -> None:
        reason = reason[:_LONGEST_REASON]
        if now_ms - self._began_ms >= WINDOW_MS:
            self._began_ms = now_ms
            self._told.clear()
        if (host, reason) in self._told or len(self._told) >= MOST_LINES:
            self._left_out += 1
            return
        self._told.add((host, reason))
        left_out, self._left_out = self._left_out, 0
        after = f" ({left_out} such connections before this one are not in the log)" if left_out else ""
        self._logger.warning("%s%s%s", before, reason, after)


class Limits(NamedTuple):
    most: int
    """Connections at once."""
    most_per_address: int
    head_ms: int
    """How long a client may take until it has said who it is or what it wants."""


class ListenerRules(Generic[Connection]):
    """The connections of a listener.

    A connection waits until its head is there: a login, or a whole request. Where there is no place for a new one, the
    oldest that waits of the address with the most connections has to go, so that silent clients keep nobody out.
    """

    def __init__(self, limits: Limits, log: RefusalLog, own: frozenset[str] = frozenset()) -> None:
        """`own` are addresses without a limit of their own, such as those of a proxy."""
        self.limits = limits
        self._log = log
        self._own = own
        self._peer_of: dict[Connection, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[Connection, int] = {}
        """Since when, the oldest first."""

    def __len__(self) -> int:
        return len(self._peer_of)

    def arrived(self, connection: Connection, peer: str, now_ms: int) -> Connection | None:
        """Count a connection of `peer` (host:port) in.

        Returns the connection that has to be closed for it, which is counted no more: an older one, or the new one.
        """
        address = _address(peer)
        self._peer_of[connection] = peer
        self._counts[address] += 1
        self._waiting[connection] = now_ms
        is_crowd = self._counts[address] > self.limits.most_per_address and address not in self._own
        if not is_crowd and len(self) <= self.limits.most:
            return None
        crowd = [each for each in self._waiting if each is not connection]
        if is_crowd:
            crowd = [each for each in crowd if _address(self._peer_of[each]) == address]
        found = max(crowd, key=lambda each: self._counts[_address(self._peer_of[each])], default=connection)
        limit = f"{self.limits.most_per_address} of its address" if is_crowd else f"{self.limits.most} in all"
        why = "there is no room" if found is connection else "it has said nothing yet, and others wait"
        self._log.tell(self._peer_of[found], f"{why}: there are more connections than {limit}", now_ms)
        self.left(found)
        return found

    def known(self, connection: Connection) -> None:
        """The head is there: it may take its time from now on."""
        self._waiting.pop(connection, None)

    def waits(self, connection: Connection, now_ms: int) -> None:
        """It has had its answer, and may send another head."""
        if connection in self._peer_of:
            self._waiting[connection] = now_ms

    def left(self, connection: Connection) -> None:
        """It is closed, or is about to be; called more than once, this does nothing."""
        self._waiting.pop(connection, None)
        peer = self._peer_of.pop(connection, None)
        if peer is not None:
            address = _address(peer)
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]

    def refused(self, connection: Connection, reason: str, now_ms: int) -> None:
        """It is about to be closed, as it is not what this listener is for."""
        if connection in self._peer_of:
            self._log.tell(self._peer_of[connection], reason, now_ms)
        self.left(connection)

    def late(self, now_ms: int) -> list[Connection]:
        """The connections whose head is not there in time. They are counted no more, and have to be closed."""
        found = []
        for connection, since_ms in self._waiting.items():
            if now_ms - since_ms < self.limits.head_ms:
                break
            found.append(connection)
        for connection in found:
            self.refused(connection, f"no whole head within {self.limits.head_ms} ms", now_ms)
        return found

    def is_late_in_ms(self, now_ms: int) -> int | None:
        """After how many ms `late` has something to say; None while no connection waits."""
        since_ms = next(iter(self._waiting.values()), None)
        return None if since_ms is None else max(since_ms + self.limits.head_ms - now_ms, 0)


@functools.lru_cache(maxsize=10_000)
def _address(peer: str) -> str:
    return address_key(peer.rpartition(":")[0])


def plain_address(host: str) -> str:
    """An IPv4 address as such, where a listener of both kinds writes it as an IPv6 one."""
    return host.removeprefix("::ffff:") if "." in host else host


def address_key(host: str) -> str:
    """One key for all addresses of an IPv6 network: a host has 2^64 of them."""
    host = plain_address(host)
    try:
        parsed = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else host


class Descriptors(NamedTuple):
    """How many file descriptors of a process are for what.

    The rest is a reserve for checkpoints, logs, modules, and connections that the process makes itself.
    """

    connections: int
    files: int


def descriptors(limit: int | None = None) -> Descriptors:
    """`limit` is RLIMIT_NOFILE, and that of this process if it is not given."""
    if limit is None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = min(MOST_FILES, limit // 4)
    reserve = min(max(limit // 4, LEAST_RESERVE), limit // 2, MOST_RESERVE)
    return Descriptors(max(limit - files - reserve, 1), max(files, 1))
