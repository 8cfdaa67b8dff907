"""Clients of a ZooKeeper, real or simulated, that a test drives from top to bottom."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import uvloop

from highwater.broker.cluster.zookeeper import Request, WatchEvent, ZooKeeper
from highwater.broker.server.zookeeper import KazooZooKeeper, ZooKeeperSettings
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.simulation.zookeeper import Ensemble

DEADLINE_S: Final = 60.0
SESSION_TIMEOUT_MS: Final = 20_000
"""On a busy machine a session of few seconds would expire by itself."""


class Told:
    """Keeps what a session was told, and the answers. Implements `Session`."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def session_began(self, session_id: int) -> None:
        self.events.append("began")

    def session_ended(self) -> None:
        self.events.append("ended")

    def connection_changed(self, is_connected: bool) -> None:
        self.events.append("connected" if is_connected else "disconnected")

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        self.events.append((path, event))

    def answered(self, results: list[Any]) -> None:
        self.events.append(results)

    def taken(self) -> list[Any]:
        taken, self.events = self.events, []
        return taken


class Client(Protocol):
    told: Told

    @property
    def zookeeper(self) -> ZooKeeper: ...

    def wait(self, condition: Callable[[], bool]) -> None:
        """Let things happen until that is so."""

    def lose_connection(self) -> None: ...

    def expire(self) -> None:
        """End the session as ZooKeeper does when it has not heard of it for long enough."""

    def close(self) -> None: ...


def ask(client: Client, *requests: Request) -> list[Any]:
    """The results of requests, when they are there."""
    results: list[list[Any]] = []
    client.zookeeper.execute(requests, results.append)
    client.wait(lambda: bool(results))
    return results[0]


class SimulatedClient:
    def __init__(self, ensemble: Ensemble, scheduler: ManualScheduler) -> None:
        self.told = Told()
        self._ensemble = ensemble
        self._scheduler = scheduler
        self.zookeeper = ensemble.client(self.told, session_timeout_ms=SESSION_TIMEOUT_MS)

    def wait(self, condition: Callable[[], bool]) -> None:
        for _ in range(1000):
            self._scheduler.run(1)
            if condition():
                return
        raise AssertionError(f"that never came; what was told: {self.told.events}")

    def lose_connection(self) -> None:
        self.zookeeper.lose_connection()

    def expire(self) -> None:
        self._ensemble.expire(self.zookeeper.session_id)

    def close(self) -> None:
        self.zookeeper.close()


class RealClient:
    def __init__(
        self,
        connect: str,
        chroot: str = "",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        settings: ZooKeeperSettings | None = None,
    ) -> None:
        """With `settings` nothing else counts."""
        self.told = Told()
        self.failures: list[str] = []
        self.settings = settings or ZooKeeperSettings(connect, chroot, session_timeout_ms, 20_000, 10)
        self.loop = uvloop.new_event_loop()
        self.zookeeper = KazooZooKeeper(self.loop, self.settings, self.failures.append)
        self.loop.run_until_complete(self.zookeeper.start())
        self.zookeeper.attach(self.told)

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"that never came; what was told: {self.told.events}"
            self.loop.run_until_complete(asyncio.sleep(0.005))

    def lose_connection(self) -> None:
        client = self.zookeeper._client
        assert client is not None
        client._connection._socket.shutdown(socket.SHUT_RDWR)

    def expire(self) -> None:
        # Who knows its password can end it.
        client = self.zookeeper._client
        assert client is not None
        self.zookeeper._end_session_of_others((client._session_id, client._session_passwd))

    def close(self) -> None:
        self.loop.run_until_complete(self.zookeeper.stop())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
